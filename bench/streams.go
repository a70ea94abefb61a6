package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/bench"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// StreamsOptions configure env.Streams.
type StreamsOptions struct {
	// Parts are the parts to measure, of streamParts.
	Parts []string
	// Streams is the number of open streams, and Rounds the number of messages to all of them. Probes is the number of messages to one.
	Streams, Rounds, Probes int
	// Idle is how long the processor time of idle streams is measured.
	Idle time.Duration
	// Rate is the number of messages a second to one recipient each, and Churn that of reconnects, with the time for which they last.
	Rate, Churn       int
	RateFor, ChurnFor time.Duration
	// Recipients is the size of the audience of the fan-out, of whom Watchers have a stream open, in each of so many Pairs.
	Recipients, Watchers, Pairs int
	// History is the number of messages that centrifuge keeps in a channel.
	History int
}

func allRow(streams int) string { return fmt.Sprintf("a message to %d streams", streams) }

// streamParts are the parts of the benchmark.
var streamParts = []string{"open", "all", "one", "rate", "churn", "resume", "beside", "fanout"}

const (
	// streamAuthor is whom all followers follow.
	streamAuthor = "celebrity"
	// workers send or reconnect at the same time.
	workers = 16
	// tick is how often messages are sent if there are many.
	tick = 10 * time.Millisecond
)

// streaming measures the streams of one server.
type streaming struct {
	env
	o      StreamsOptions
	server *served
	fleet  *fleet
	users  []string
	// publish publishes messages to users, or to all if there is none, and returns their ids.
	publish func(ctx context.Context, to ...[]string) ([]string, error)
	client  *client.Client // of Fanmail
	report  *Report
	// frame is the data of the last message to all, and last how long its last frame took in milliseconds.
	frame []byte
	last  float64
}

// Streams measures open streams of Fanmail, with the server in a process of its own. The part beside measures the same with centrifuge.
func (e env) Streams(ctx context.Context, o StreamsOptions) (Report, error) {
	facts, err := e.facts(ctx)
	if err != nil {
		return Report{}, err
	}
	report := Report{Benchmark: "streams", Store: e.Config.Store, Facts: facts}
	s := &streaming{env: e, o: o, report: &report}
	for n := range o.Streams {
		s.users = append(s.users, string(bench.User("user", n)))
	}
	if slices.ContainsFunc(o.Parts, func(part string) bool { return part != "beside" && part != "fanout" }) {
		if err := s.withFanmail(ctx, func() error { return s.fanmail(ctx) }); err != nil {
			return Report{}, err
		}
	}
	if s.asked("all") {
		if err := s.raw(ctx); err != nil {
			return Report{}, err
		}
	}
	if s.asked("beside") {
		if err := s.beside(ctx); ctx.Err() == nil && err != nil { // it must not take Fanmail's figures with it
			report.Conclusions = append(report.Conclusions, Fact{Name: "centrifuge failed", Value: err.Error()})
		}
	}
	if s.asked("fanout") {
		if err := s.withFanmail(ctx, func() error { return s.fanout(ctx) }); err != nil {
			return Report{}, err
		}
	}
	report.Facts = append(report.Facts, Fact{Name: "load average after", Value: loadAverage()})
	return report, nil
}

func (s *streaming) asked(part string) bool { return slices.Contains(s.o.Parts, part) }

func (s *streaming) row(of string, figures ...Figure) {
	s.report.Rows = append(s.report.Rows, Row{Case: of, Figures: figures})
}

// withFanmail starts a server with an empty store, and removes both.
func (s *streaming) withFanmail(ctx context.Context, do func() error) (err error) {
	cfg := s.Config
	if cfg.Data, err = os.MkdirTemp(s.Dir, "fanmail-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cfg.Data)) }()
	cfg.Addr, cfg.Log.Level, cfg.Log.Format = "127.0.0.1:0", "info", "json"
	if s.OnMongoDB() {
		cfg.MongoDB.Database += "_bench_streams"
		if err := app.Init(ctx, cfg, false, s.Logger); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, app.Drop(context.WithoutCancel(ctx), cfg, s.Logger)) }()
	}
	text, err := cfg.YAML()
	if err != nil {
		return err
	}
	file := filepath.Join(cfg.Data, "bench.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	return s.with(ctx, func() error {
		if s.client, err = client.New(s.server.url, client.Options{}); err != nil {
			return err
		}
		defer s.client.Close()
		s.fleet.path = func(user, cursor string) string {
			return "/v1/users/" + user + "/inbox/events?cursor=" + url.QueryEscape(cursor)
		}
		s.publish = s.publishFanmail
		return do()
	}, fanmailServer, "--config", file)
}

// with starts a server and ends it.
func (s *streaming) with(ctx context.Context, do func() error, kind string, args ...string) (err error) {
	if s.server, err = startServer(ctx, kind, args...); err != nil {
		return err
	}
	s.fleet = newFleet(s.server.url, func(user, _ string) string { return "/events?user=" + user })
	err = errors.Join(do(), s.fleet.close(), s.server.stop())
	for _, complaint := range s.server.complaints {
		s.Tell(complaint)
	}
	return err
}

// publishFanmail publishes messages to users, or to all followers.
func (s *streaming) publishFanmail(ctx context.Context, to ...[]string) ([]string, error) {
	drafts := make([]message.Draft, len(to))
	for i, users := range to {
		drafts[i] = message.Draft{From: "ann", Body: s.body()}
		for _, user := range users {
			drafts[i].To = append(drafts[i].To, message.UserID(user))
		}
		if users == nil {
			drafts[i].From, drafts[i].Audience = streamAuthor, message.AudienceFollowers
		}
	}
	if len(to) == 1 {
		receipt, err := s.client.Publish(ctx, drafts[0], "")
		return []string{receipt.ID.String()}, err
	}
	answers, err := s.client.PublishBatch(ctx, drafts, "")
	ids := make([]string, len(answers))
	for i, a := range answers {
		ids[i] = a.ID.String()
		err = errors.Join(err, a.Err)
	}
	return ids, err
}

func (s *streaming) body() string { return strings.Repeat("x", s.Body) }

// people makes users active who follow the author.
func (s *streaming) people(ctx context.Context, followers []string, others ...string) error {
	s.Tell(fmt.Sprintf("making %d followers", len(followers)))
	now := s.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2)
	for some := range slices.Chunk(slices.Concat(followers, others), client.MaxCountedUsers) {
		group.Go(func() error {
			seen, edges := make([]client.Seen, len(some)), make([]follow.Pair, 0, len(some))
			for i, user := range some {
				seen[i] = client.Seen{User: message.UserID(user), LastViewed: now}
				if !slices.Contains(others, user) {
					edges = append(edges, follow.Pair{Follower: message.UserID(user), Followee: message.UserID(streamAuthor).Source()})
				}
			}
			result, err := s.client.SetSeenBatch(ctx, seen)
			result2, err2 := s.client.FollowBatch(ctx, edges)
			if err := errors.Join(err, err2); err != nil {
				return err
			}
			if n := len(result.Rejected) + len(result2.Rejected); n > 0 {
				return fmt.Errorf("%d lines were rejected", n)
			}
			return nil
		})
	}
	return group.Wait()
}

// fanmail measures the parts with one server.
func (s *streaming) fanmail(ctx context.Context) error {
	if err := s.people(ctx, s.users); err != nil {
		return err
	}
	if err := s.parts(ctx, ""); err != nil || !s.asked("resume") {
		return err
	}
	cursor := func(w *watcher) string { return string(w.cursor) }
	return s.resume(ctx, "", cursor, "unknown", func(first []byte) (bool, error) {
		var frame client.Frame
		err := json.Unmarshal(first, &frame)
		return !frame.Reset, err
	})
}

// raw writes the last frame to as many bare connections, one after the other. It adds to the row of all streams how many times as long they took.
func (s *streaming) raw(ctx context.Context) error {
	row := slices.IndexFunc(s.report.Rows, func(r Row) bool { return r.Case == allRow(s.o.Streams) })
	data, last := s.frame, s.last
	err := s.with(ctx, func() error {
		s.publish = func(ctx context.Context, _ ...[]string) ([]string, error) {
			return nil, s.post(ctx, pushed{Data: data})
		}
		return errors.Join(s.open(ctx, rawServer+", "), s.toAll(ctx, rawServer+", "))
	}, rawServer)
	s.report.Rows[row].Figures = append(s.report.Rows[row].Figures, figure("times raw", last/s.last, ""))
	return err
}

// position is where a client of centrifuge goes on in a channel.
type position struct {
	Recover bool   `json:"recover"`
	Epoch   string `json:"epoch"`
	Offset  uint64 `json:"offset"`
}

// beside measures centrifuge, with a channel for each stream. At last all streams have one channel.
func (s *streaming) beside(ctx context.Context) error {
	s.report.Conclusions = append(s.report.Conclusions,
		Fact{Name: "centrifuge", Value: "server-sent events, as Fanmail's streams, in memory, history of " + strconv.Itoa(s.o.History) + " in each channel"},
		Fact{Name: "does not compare", Value: "Fanmail stores each message in the inbox of each recipient before it is in a stream; centrifuge does no such work, so there is no fan-out beside it"})
	return s.with(ctx, func() error {
		s.fleet.path = func(user, at string) string {
			command := `{"id":1,"connect":{}}`
			if at != "" {
				command = fmt.Sprintf(`{"id":1,"connect":{"subs":{%q:%s}}}`, user, at)
			}
			return "/events?user=" + user + "&cf_connect=" + url.QueryEscape(command)
		}
		all, sent := s.users, atomic.Int64{}
		s.publish = func(ctx context.Context, to ...[]string) ([]string, error) {
			ids, messages := make([]string, len(to)), make([]pushed, len(to))
			for i, users := range to {
				if users == nil {
					users = all
				}
				ids[i] = fmt.Sprintf("%036d", sent.Add(1)) // as long as Fanmail's
				messages[i] = pushed{users, fmt.Appendf(nil, `{"id":%q,"from":"ann","body":%q}`, ids[i], s.body())}
			}
			return ids, s.post(ctx, messages...)
		}
		if err := s.parts(ctx, "centrifuge, "); err != nil {
			return err
		}
		if s.asked("resume") {
			if err := s.resumeCentrifuge(ctx); err != nil {
				return err
			}
		}
		if !s.asked("all") {
			return nil
		}
		all = []string{"everybody"}
		if err := errors.Join(s.fleet.close(), s.fleet.open(ctx, slices.Repeat(all, len(s.users)))); err != nil {
			return err
		}
		return s.toAll(ctx, "centrifuge, one channel, ")
	}, centrifugeServer, "--history", strconv.Itoa(s.o.History))
}

func (s *streaming) resumeCentrifuge(ctx context.Context) error {
	type reply struct {
		Connect struct {
			Subs map[string]struct {
				position
				Recovered bool `json:"recovered"`
			} `json:"subs"`
		} `json:"connect"`
	}
	at := func(w *watcher) string {
		var r reply
		_ = json.Unmarshal(w.first, &r) // then the server does not know the position
		text, _ := json.Marshal(position{true, r.Connect.Subs[w.user].Epoch, r.Connect.Subs[w.user].Offset})
		return string(text)
	}
	return s.resume(ctx, "centrifuge, ", at, `{"recover":true,"epoch":"unknown","offset":1}`, func(first []byte) (bool, error) {
		var r reply
		err := json.Unmarshal(first, &r)
		for _, sub := range r.Connect.Subs {
			return sub.Recovered, err
		}
		return false, errors.Join(err, errors.New("the reply has no channel"))
	})
}

// post publishes messages at another server than Fanmail.
func (s *streaming) post(ctx context.Context, messages ...pushed) error {
	text, err := json.Marshal(messages)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.server.url+"/publish", bytes.NewReader(text))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, answer)
	}
	return err
}

// clock returns what durations are measured by.
func (s *streaming) clock() time.Time { return time.Now() } //nolint:forbidigo // what is measured is time

// check returns an error if the options contradict each other or the limits of the process.
func (o *StreamsOptions) check() error {
	for _, part := range o.Parts {
		if !slices.Contains(streamParts, part) {
			return fmt.Errorf("--parts has %q: it must be one of %s", part, strings.Join(streamParts, ", "))
		}
	}
	if o.Watchers > o.Recipients {
		return fmt.Errorf("--watchers is %d: give at most --recipients, %d", o.Watchers, o.Recipients)
	}
	const spare = 1200 // a server keeps so many descriptors for other things, and a quarter of the rest for other requests
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	if most := max(0, int64(min(files.Max, math.MaxInt32))-spare) * 3 / 4; int64(max(o.Streams, o.Watchers)) > most {
		return fmt.Errorf("%d streams are too many: the limit of open files, %d, allows %d (ulimit -n)", max(o.Streams, o.Watchers), files.Max, most)
	}
	return nil
}
