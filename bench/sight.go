package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fanmail/fanmail/internal/bench"
	"github.com/fanmail/fanmail/internal/startstop"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// SightOptions configure env.Sight.
type SightOptions struct {
	// Users is the number of inboxes, and Messages the number of messages in each.
	Users, Messages int
	// Published is the number of stored messages, Letters that of dead letters.
	Published, Letters int
	// Requests is the number of requests for each page and call.
	Requests int
	// Open is how long a page is kept open.
	Open time.Duration
}

// Sight measures what operators look at, while the store is full: each call of the API, each page of the console, and an open page.
func (e env) Sight(ctx context.Context, o SightOptions) (_ Report, err error) {
	w, err := e.open(ctx)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, w.Close(ctx)) }()
	const author, reader = message.UserID("author"), message.UserID("user-0000000")
	e.Tell(fmt.Sprintf("filling %d inboxes with %d messages each", o.Users, o.Messages))
	all := bench.Users("user", 0, o.Users)
	entries := w.Entries(0, max(o.Messages, o.Published))
	err = errors.Join(w.See(ctx, e.Now(), all), w.Preload(ctx, all, entries[:o.Messages]), w.store(ctx, reader, entries[:o.Published]))
	if err != nil {
		return Report{}, err
	}
	e.Tell(fmt.Sprintf("filing %d dead letters", o.Letters))
	for n := range o.Letters {
		letter := event.DeadLetter{Version: 1, Reason: event.ReasonMalformed, Error: "made for a measurement", Subject: "fanmail.v1.published", Payload: []byte(strconv.Itoa(n))}
		if err := w.Parts.Bus.DeadLetter(ctx, letter); err != nil {
			return Report{}, fmt.Errorf("file a dead letter: %w", err)
		}
	}
	last, err := w.Publish(ctx, message.Draft{From: author, To: []message.UserID{reader}, Body: "one"})
	if err != nil {
		return Report{}, err
	}
	if _, err := w.Await(ctx, last); err != nil {
		return Report{}, err
	}
	report := Report{Benchmark: "sight", Store: e.Config.Store}
	if report.Facts, err = e.facts(ctx); err != nil {
		return Report{}, err
	}
	name := strings.NewReplacer(last[0].String(), "{id}", string(reader), "{user}")
	about := url.Values{"user": {string(reader)}, "message": {last[0].String()}}.Encode()
	for _, path := range []string{
		"/v1/messages", "/v1/messages?state=done&limit=200", "/v1/messages?state=done&from=earlier", "/v1/messages?state=dead",
		"/v1/messages/" + last[0].String() + "?partitions=true", "/v1/admin/overview", "/v1/admin/dormancy",
		"/v1/admin/users/" + string(reader) + "/inbox:stored", "/v1/admin/dlq?limit=200", "/v1/admin/explain?" + about,
		"/console/", "/console/messages", "/console/messages?state=done", "/console/messages/" + last[0].String(), "/console/why?" + about,
		"/console/users/" + string(reader) + "/inbox", "/console/dead-letters", "/console/dormancy",
	} {
		e.Tell("measuring " + path)
		took := make(bench.Times, o.Requests)
		for i := range took {
			began := time.Now() //nolint:forbidigo // what is measured is time
			if err := w.ask(ctx, path); err != nil {
				return Report{}, err
			}
			took[i] = time.Since(began)
		}
		slices.Sort(took)
		report.Rows = append(report.Rows, Row{Case: name.Replace(path), Figures: append(bench.Latency("took", took), figure("longest", milliseconds(took[len(took)-1]), "ms"))})
	}
	row, err := w.openPage(ctx, o.Open)
	report.Rows = append(report.Rows, row)
	return report, err
}

// ask sends a request of an operator, and reads the answer.
func (w *world) ask(ctx context.Context, path string) error {
	body, err := w.answer(ctx, path, "*/*")
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, body)
	return errors.Join(err, body.Close())
}

func (w *world) answer(ctx context.Context, path, accept string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.App.URL()+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s: %s", path, response.Status), response.Body.Close())
	}
	return response.Body, nil
}

// openPage measures the processor time that an open page of the console costs, beyond that of the idle server.
func (w *world) openPage(ctx context.Context, open time.Duration) (Row, error) {
	used := func() (time.Duration, error) {
		before := bench.ProcessorTime()
		startstop.Pause(ctx, open)
		return bench.ProcessorTime() - before, ctx.Err()
	}
	if err := bench.Settle(ctx); err != nil {
		return Row{}, err
	}
	w.Env.Tell("measuring the idle server")
	idle, err := used()
	if err != nil {
		return Row{}, err
	}
	w.Env.Tell("measuring an open page")
	body, err := w.answer(ctx, "/console/", "text/event-stream")
	if err != nil {
		return Row{}, err
	}
	var events atomic.Int64
	read := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if len(lines.Text()) == 0 {
				events.Add(1)
			}
		}
		read <- nil // it ends when the body is closed
	}()
	busy, err := used()
	err = errors.Join(err, body.Close(), <-read)
	minute := func(d time.Duration) float64 { return d.Seconds() * float64(time.Minute) / float64(open) }
	return Row{Case: "an open page", Figures: []Figure{
		figure("processor time a minute", minute(busy-idle), "s"), figure("of the idle server", minute(idle), "s"), figure("events", float64(events.Load()), ""),
	}}, err
}
