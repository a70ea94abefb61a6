package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// draft is a message that is to be published.
type draft struct {
	From     string   `json:"from"`
	To       []string `json:"to,omitempty"`
	Audience string   `json:"audience,omitempty"`
	Body     string   `json:"body"`
}

// accepted is a line of the log: a message that the server has answered with 202.
type accepted struct {
	Line int    `json:"line"`
	ID   string `json:"id"`
	// Tries counts the requests that it took.
	Tries int `json:"tries"`
	draft
}

// summary tells how publishing went.
type summary struct {
	Accepted    int     `json:"accepted"`
	Connections int     `json:"connections"`
	Seconds     float64 `json:"seconds"`
	PerSecond   float64 `json:"per_second"`
	// Busy counts answers that asked to come back later, Broken requests that were not answered.
	Busy   int `json:"busy"`
	Broken int `json:"broken"`
}

func publishFile(ctx context.Context, args []string, p program) error {
	flags := newFlags(p, "publish", "driver publish publishes the messages of a file, one JSON object a line, each with an idempotency key of its own, and logs\n"+
		"every message that was accepted with what was sent. While the server is away or busy it goes on trying, so that in the\n"+
		"end each line was published exactly once. It stops at any other answer than 202.")
	url := flags.String("server", "http://127.0.0.1:8080", "URL of the server")
	file := flags.String("file", "", "`file` of messages (required)")
	log := flags.String("log", "", "`file` to log accepted messages to (required; replaced)")
	connections := flags.Int("connections", 16, "how many requests are under way at a time")
	first := flags.Int("first", 0, "publish only so many messages, the first of the file; 0 means all")
	key := flags.String("key", "", "what every idempotency key begins with: with the same one, nothing is published twice (default random)")
	timeout := flags.Duration("timeout", 30*time.Minute, "how long it may take")
	asJSON := flags.Bool("json", false, "print the summary as JSON")
	switch err := parse(flags, args); {
	case err != nil:
		return err
	case *file == "" || *log == "":
		return wrong(flags, "give --file and --log")
	case *connections < 1:
		return wrong(flags, "--connections must be 1 or more")
	}
	if *key == "" {
		*key = rand.Text()
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	out, err := os.Create(*log)
	if err != nil {
		return err
	}
	r := &publishing{
		sender: newSender(strings.TrimRight(*url, "/"), *key, *connections), now: p.now, log: json.NewEncoder(out), stderr: p.stderr,
	}
	result, err := r.run(ctx, *file, *first, *connections)
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	if *asJSON {
		return json.NewEncoder(p.stdout).Encode(result)
	}
	_, err = fmt.Fprintf(p.stdout, "%d messages accepted over %d connections in %.2f s: %.0f a second; %d answers were busy, %d requests broke\n",
		result.Accepted, result.Connections, result.Seconds, result.PerSecond, result.Busy, result.Broken)
	return err
}

// errEnough ends reading a file of which only a part is to be published.
var errEnough = errors.New("enough")

// numbered is a line of the file.
type numbered struct {
	line  int
	draft draft
}

// publishing publishes one file.
type publishing struct {
	sender *sender
	now    func() time.Time
	stderr io.Writer

	mu       sync.Mutex
	log      *json.Encoder // not buffered: whoever reads the log meanwhile sees everything that was accepted
	accepted int
	reported time.Time
}

func (r *publishing) run(ctx context.Context, file string, first, connections int) (summary, error) {
	begun := r.now()
	r.reported = begun
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan numbered)
	var sending sync.WaitGroup
	for range connections {
		sending.Go(func() {
			for n := range queue {
				if err := r.publish(ctx, n); err != nil {
					cancel(fmt.Errorf("%s:%d: %w", file, n.line, err))
				}
			}
		})
	}
	count := 0
	err := eachLine(file, func(number int, text []byte) error {
		var d draft
		if err := json.Unmarshal(text, &d); err != nil {
			return err
		}
		select {
		case queue <- numbered{number, d}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if count++; count == first {
			return errEnough
		}
		return nil
	})
	close(queue)
	sending.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return summary{}, cause
	}
	if err != nil && !errors.Is(err, errEnough) {
		return summary{}, err
	}
	took := r.now().Sub(begun).Seconds()
	return summary{
		Accepted: r.accepted, Connections: connections, Seconds: took, PerSecond: float64(r.accepted) / took,
		Busy: int(r.sender.busy.Load()), Broken: int(r.sender.broken.Load()),
	}, nil
}

func (r *publishing) publish(ctx context.Context, n numbered) error {
	id, tries, err := r.sender.send(ctx, n.line, n.draft)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.log.Encode(accepted{Line: n.line, ID: id, Tries: tries, draft: n.draft}); err != nil {
		return err
	}
	r.accepted++
	if now := r.now(); now.Sub(r.reported) >= reportEvery {
		r.reported = now
		say(r.stderr, "%d messages accepted so far\n", r.accepted)
	}
	return nil
}

// reportEvery is how often it is told how far publishing is.
const reportEvery = 10 * time.Second
