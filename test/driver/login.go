package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// logins is the summary of the command "login".
type logins struct {
	Users int `json:"users"`
	// Was counts users by the state that the server reported.
	Was map[string]int `json:"was"`
	// Recovered is the sum of the counts that the server reported.
	Recovered int64 `json:"recovered"`
	// Provisional counts first pages that were not complete.
	Provisional int     `json:"provisional"`
	Connections int     `json:"connections"`
	Seconds     float64 `json:"seconds"`
	PerSecond   float64 `json:"per_second"`
	// First and Complete are the times from the beginning of a look until the first page and until the complete inbox.
	First    latencies `json:"first_ms"`
	Complete latencies `json:"complete_ms"`
	// Busy counts answers that asked for a later try, Broken requests without an answer.
	Busy   int `json:"busy"`
	Broken int `json:"broken"`
}

// latencies are quantiles in milliseconds.
type latencies struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func latenciesOf(millis []float64) latencies {
	if len(millis) == 0 {
		return latencies{}
	}
	slices.Sort(millis)
	at := func(share float64) float64 { return millis[int(share*float64(len(millis)-1))] }
	return latencies{P50: at(0.5), P99: at(0.99), Max: at(1)}
}

func (l latencies) String() string {
	return fmt.Sprintf("p50 %.1f ms, p99 %.1f ms, max %.1f ms", l.P50, l.P99, l.Max)
}

// The ways in which "driver login" lets users look.
const eitherWay = "either"

func loginAll(ctx context.Context, args []string, p program) error {
	flags := newFlags(p, "login", "driver login lets the users of a file come back, waits until each inbox is complete, and logs what they saw: the first\n"+
		"page as well, before it was complete where they opened their inbox. While the server is away or busy it goes on trying.")
	url := flags.String("server", "http://127.0.0.1:8080", "URL of the server")
	file := flags.String("file", "", "`file` of users: on each line a user, or a user and a tab and anything, or an object with \"user\" (required)")
	log := flags.String("log", "", "`file` to log to (required; replaced)")
	by := flags.String("by", byLogin, "how they come back: login, inbox (by opening it), or either (by turns)")
	connections := flags.Int("connections", 16, "how many requests are under way at a time")
	pace := flags.Float64("pace", 0, "let at most so many come back a second; 0 means as many as possible")
	size := flags.Int("page", 50, "how many messages the first page is to have")
	timeout := flags.Duration("timeout", 30*time.Minute, "how long it may take")
	asJSON := flags.Bool("json", false, "print the summary as JSON")
	switch err := parse(flags, args); {
	case err != nil:
		return err
	case *file == "" || *log == "":
		return wrong(flags, "give --file and --log")
	case *connections < 1 || *size < 1:
		return wrong(flags, "--connections and --page must be 1 or more")
	case *pace < 0:
		return wrong(flags, "--pace is %g: give 0 or more", *pace)
	case *by != byLogin && *by != byInbox && *by != eitherWay:
		return wrong(flags, "--by is %q: give login, inbox or either", *by)
	}
	users, err := readUsers(*file)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	out, err := os.Create(*log)
	if err != nil {
		return err
	}
	l := &loggingIn{
		viewer: viewer{caller: newCaller(strings.TrimRight(*url, "/"), *connections), now: p.now},
		by:     *by, size: *size, every: every(*pace), log: newLog(out), summary: logins{Was: make(map[string]int), Connections: *connections},
	}
	if err := errors.Join(l.run(ctx, users), out.Close()); err != nil {
		return err
	}
	s := l.summary
	if *asJSON {
		return json.NewEncoder(p.stdout).Encode(s)
	}
	_, err = fmt.Fprintf(p.stdout, "%d users came back over %d connections in %.2f s: %.0f a second; they were %v, %d messages recovered, %d first pages provisional\n"+
		"first page: %s; complete: %s; %d answers were busy, %d requests broke\n",
		s.Users, s.Connections, s.Seconds, s.PerSecond, s.Was, s.Recovered, s.Provisional, s.First, s.Complete, s.Busy, s.Broken)
	return err
}

// every returns the interval between events at a rate per second. It is 0 for a rate of 0, which means no pause.
func every(pace float64) time.Duration {
	if pace == 0 {
		return 0
	}
	return time.Duration(float64(time.Second) / pace)
}

// readUsers returns the users in a file, without duplicates.
func readUsers(path string) ([]string, error) {
	var users []string
	known := make(map[string]bool)
	err := eachLine(path, func(_ int, line []byte) error {
		user, _, _ := strings.Cut(string(line), "\t")
		if strings.HasPrefix(user, "{") {
			var object seen
			if err := json.Unmarshal(line, &object); err != nil {
				return err
			}
			user = object.User
		}
		if user == "" {
			return errors.New("there is no user")
		}
		if !known[user] {
			known[user] = true
			users = append(users, user)
		}
		return nil
	})
	return users, err
}

// looksLog is a log of looks. It is safe for concurrent use.
type looksLog struct {
	mu      sync.Mutex
	encoder *json.Encoder
}

func newLog(w io.Writer) *looksLog { return &looksLog{encoder: json.NewEncoder(w)} }

func (l *looksLog) add(line look) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.encoder.Encode(line)
}

// loggingIn makes users return.
type loggingIn struct {
	viewer
	by   string
	size int
	log  *looksLog
	// every is the interval between two returning users.
	every time.Duration

	mu              sync.Mutex
	first, complete []float64
	summary         logins
}

func (l *loggingIn) run(ctx context.Context, users []string) error {
	begun := l.now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan look)
	var working sync.WaitGroup
	for range l.summary.Connections {
		working.Go(func() {
			for line := range queue {
				if err := l.comeBack(ctx, line); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i, user := range users {
		by := l.by
		if by == eitherWay {
			by = []string{byLogin, byInbox}[i%2]
		}
		queue <- look{User: user, By: by}
		time.Sleep(l.every)
	}
	close(queue)
	working.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	s := &l.summary
	s.Users = len(users)
	s.Seconds = l.now().Sub(begun).Seconds()
	s.PerSecond = float64(s.Users) / s.Seconds
	s.First, s.Complete = latenciesOf(l.first), latenciesOf(l.complete)
	s.Busy, s.Broken = int(l.busy.Load()), int(l.broken.Load())
	return nil
}

func (l *loggingIn) comeBack(ctx context.Context, line look) error {
	line = l.begin(line.User, line.By)
	var err error
	var complete float64
	if line.By == byLogin {
		if err = l.login(ctx, &line); err == nil {
			complete = l.millis(&line)
			err = l.open(ctx, &line, l.size)
		}
		line.FirstMS = l.millis(&line)
	} else {
		err = l.open(ctx, &line, l.size)
		line.FirstMS = l.millis(&line)
		if err == nil {
			err = l.awaitComplete(ctx, line.User)
			complete = l.millis(&line)
		}
	}
	if err != nil {
		return err
	}
	line.CompleteMS, line.Answered = &complete, l.now().UTC()
	l.count(&line)
	return l.log.add(line)
}

func (l *loggingIn) count(line *look) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if line.Was != "" {
		l.summary.Was[line.Was]++
	}
	if line.Recovered != nil {
		l.summary.Recovered += *line.Recovered
	}
	if !line.Read.Complete {
		l.summary.Provisional++
	}
	l.first = append(l.first, line.FirstMS)
	l.complete = append(l.complete, *line.CompleteMS)
}
