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

// summary is the summary of the command "publish".
type summary struct {
	Accepted int `json:"accepted"`
	// Changed counts the lines that changed edges.
	Changed     int     `json:"changed"`
	Connections int     `json:"connections"`
	Seconds     float64 `json:"seconds"`
	PerSecond   float64 `json:"per_second"`
	// Busy counts answers that asked for a later try, Ahead those of a server whose clock is ahead, Broken requests without an answer.
	Busy   int `json:"busy"`
	Ahead  int `json:"ahead"`
	Broken int `json:"broken"`
}

func publishFile(ctx context.Context, args []string, p program) error {
	flags := newFlags(p, "publish", "driver publish publishes the messages of a file, one JSON object a line, each with an idempotency key of its own, and logs\n"+
		"every message that was accepted with what was sent. While the server is away or busy, or its clock is ahead, it goes on trying, so that in the\n"+
		"end each line was published exactly once. It stops at any other answer than 202.\n\n"+
		"A line may also be {\"follow\":[{\"follower\",\"followee\"}]}, which is one request, or {\"unfollow\":[…]}. These are carried out in\n"+
		"their order, beside the messages, and logged as well.")
	url := flags.String("server", "http://127.0.0.1:8080", "URL of the server")
	file := flags.String("file", "", "`file` of messages (required)")
	log := flags.String("log", "", "`file` to log accepted messages to (required; replaced)")
	connections := flags.Int("connections", 16, "how many requests are under way at a time")
	first := flags.Int("first", 0, "publish only so many messages, the first of the file; 0 means all")
	pace := flags.Float64("pace", 0, "publish at most so many lines a second; 0 means as many as possible")
	apart := flags.Duration("apart", 10*time.Millisecond, "how far the end of an edge is kept from messages of its author")
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
		sender: &sender{caller: newCaller(strings.TrimRight(*url, "/"), *connections+1), key: *key},
		quiet:  quiet{apart: *apart, authors: make(map[string]*sync.RWMutex)},
		now:    p.now, log: json.NewEncoder(out), stderr: p.stderr, every: every(*pace),
	}
	result, err := r.run(ctx, *file, *first, *connections)
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	if *asJSON {
		return json.NewEncoder(p.stdout).Encode(result)
	}
	_, err = fmt.Fprintf(p.stdout, "%d messages accepted and %d changes of edges made over %d connections in %.2f s: %.0f a second; %d answers were busy, %d of a clock ahead, %d requests broke\n",
		result.Accepted, result.Changed, result.Connections, result.Seconds, result.PerSecond, result.Busy, result.Ahead, result.Broken)
	return err
}

// errEnough ends the reading of a file after the last line to publish.
var errEnough = errors.New("enough")

// numbered is a line of the file and its number.
type numbered struct {
	line int
	step step
}

// publishing is the state of publishing one file.
type publishing struct {
	sender *sender
	quiet  quiet
	now    func() time.Time
	every  time.Duration // the minimum time between two lines
	stderr io.Writer

	mu       sync.Mutex
	log      *json.Encoder // not buffered, so that a concurrent reader sees every accepted message
	accepted int
	changed  int
	reported time.Time
}

// waitingChanges is the number of changes that may wait in the queue before the reader of the file blocks.
const waitingChanges = 1000

func (r *publishing) run(ctx context.Context, file string, first, connections int) (summary, error) {
	begun := r.now()
	r.reported = begun
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var sending sync.WaitGroup
	work := func(queue <-chan numbered, do func(context.Context, numbered) error) {
		sending.Go(func() {
			for n := range queue {
				if err := do(ctx, n); err != nil {
					cancel(fmt.Errorf("%s:%d: %w", file, n.line, err))
				}
			}
		})
	}
	messages, changes := make(chan numbered), make(chan numbered, waitingChanges)
	work(changes, r.change) // one worker, because the order of changes matters
	for range connections {
		work(messages, r.publish)
	}
	err := r.read(ctx, file, first, messages, changes)
	close(messages)
	close(changes)
	sending.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return summary{}, cause
	}
	if err != nil {
		return summary{}, err
	}
	took := r.now().Sub(begun).Seconds()
	return summary{
		Accepted: r.accepted, Changed: r.changed, Connections: connections, Seconds: took, PerSecond: float64(r.accepted) / took,
		Busy: int(r.sender.busy.Load()), Ahead: int(r.sender.ahead.Load()), Broken: int(r.sender.broken.Load()),
	}, nil
}

// read sends the lines of a file to the publishing goroutines.
func (r *publishing) read(ctx context.Context, file string, first int, messages, changes chan<- numbered) error {
	count := 0
	err := eachLine(file, func(number int, text []byte) error {
		n := numbered{line: number}
		if err := json.Unmarshal(text, &n.step); err != nil {
			return err
		}
		queue := messages
		if n.step.kinds() > 0 {
			queue = changes
		}
		select {
		case queue <- n:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if count++; count == first {
			return errEnough
		}
		if r.every > 0 {
			return rest(ctx, r.every)
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

func (r *publishing) publish(ctx context.Context, n numbered) error {
	line := accepted{draft: n.step.draft}
	err := r.quiet.publish(line.draft, func() error {
		return r.record(n.line, &line.done, func() (err error) {
			line.ID, line.Tries, err = r.sender.send(ctx, n.line, line.draft)
			return err
		})
	})
	if err != nil {
		return err
	}
	return r.write(line, &r.accepted)
}

func (r *publishing) change(ctx context.Context, n numbered) error {
	line := changed{change: n.step.change}
	if line.kinds() > 1 {
		return errors.New("the line has several kinds of changes, such as both follow and unfollow: write two")
	}
	err := r.quiet.end(ctx, line.change, func() error {
		return r.record(n.line, &line.done, func() (err error) {
			line.Tries, err = r.sender.change(ctx, line.change)
			return err
		})
	})
	if err != nil {
		return err
	}
	return r.write(line, &r.changed)
}

// record executes a line, and records its times.
func (r *publishing) record(line int, d *done, do func() error) error {
	d.Line, d.Asked = line, r.now().UTC()
	err := do()
	d.Answered = r.now().UTC()
	return err
}

// write writes a line of the log and increments the count.
func (r *publishing) write(line any, count *int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.log.Encode(line); err != nil {
		return err
	}
	*count++
	if now := r.now(); now.Sub(r.reported) >= reportEvery {
		r.reported = now
		say(r.stderr, "%d messages accepted so far\n", r.accepted)
	}
	return nil
}

// reportEvery is the interval between reports of progress.
const reportEvery = 10 * time.Second
