package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// longest is how long a run of a row may take.
const longest = 5 * time.Minute

// compare runs the rows and prints the report.
func compare(ctx context.Context, o options) error {
	if o.root == "" || o.data == "" || o.binary == "" {
		return errors.New("start it by bench/peers/run, which installs the servers")
	}
	var rows []peer
	for _, p := range peers {
		if strings.Contains(p.name, o.only) {
			rows = append(rows, p)
		}
	}
	if len(rows) == 0 {
		return fmt.Errorf("--only %q: no row has this in its name", o.only)
	}
	if err := o.portsFree(ctx); err != nil {
		return err
	}
	facts, err := o.facts(ctx)
	if err != nil {
		return err
	}
	results := make([][]measured, len(rows))
	for n := range o.runs {
		for turn := range rows { // in each run, another row is first
			i := (turn + n) % len(rows)
			result, err := o.measure(ctx, rows[i])
			if err != nil {
				return fmt.Errorf("%s: %w", rows[i].name, err)
			}
			results[i] = append(results[i], result)
			fmt.Fprintf(os.Stderr, "run %d of %d, %s: %s\n", n+1, o.runs, rows[i].name, seconds(result.all))
		}
	}
	r := report{Facts: facts, Followers: o.followers, Messages: o.messages, Body: o.body, Runs: o.runs}
	for i, p := range rows {
		r.Rows = append(r.Rows, newRow(p, o.followers*o.messages, results[i]))
	}
	return r.print(os.Stdout, o.json)
}

// measure runs a row once, with servers and data of its own. If it fails, it prints what the processes have written.
func (o options) measure(ctx context.Context, p peer) (result measured, err error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	log, err := os.CreateTemp(filepath.Dir(o.data), "log-")
	if err != nil {
		return measured{}, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w; the processes wrote:\n%s", err, tail(log.Name()))
		}
		_ = log.Close()
		_ = os.Remove(log.Name())
	}()
	s := &servers{options: o, log: log}
	defer func() { err = errors.Join(err, s.end()) }()
	if err := s.startFor(ctx, p); err != nil {
		return measured{}, err
	}
	return o.deliver(ctx, p, log)
}

// startFor starts and fills the servers that a row needs.
func (s *servers) startFor(ctx context.Context, p peer) error {
	if p.appendfsync != "" {
		if err := s.startRedis(ctx, p.appendfsync); err != nil {
			return err
		}
		if err := fillRedis(ctx, s.options); err != nil {
			return err
		}
	}
	if p.postgres {
		if err := s.startPostgres(ctx); err != nil {
			return err
		}
		if err := fillPostgres(ctx, s.options); err != nil {
			return err
		}
	}
	if p.store == "fanmail" {
		if err := s.startFanmail(ctx); err != nil {
			return err
		}
		return fillFanmail(ctx, s.options)
	}
	return nil
}

// deliver starts reader and worker, publishes the messages, and returns what the reader has seen. The count at the end, after the
// worker has stopped, must find each message once in each inbox.
func (o options) deliver(ctx context.Context, p peer, log io.Writer) (result measured, err error) {
	self, err := os.Executable()
	if err != nil {
		return measured{}, err
	}
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	flags := o.childFlags(p)
	reader, err := startChild(ctx, log, "the reader", append([]string{self, "read", p.store}, flags...)...)
	if err != nil {
		return measured{}, err
	}
	defer func() {
		if err != nil {
			kill() // a reader that waits for messages does not see that its input ends
			_ = reader.end()
			return
		}
		err = reader.end()
	}()
	command := append([]string{self, "work", p.kind}, flags...)
	if p.kind == "bullmq" {
		command = o.as("daemon", "/usr/bin/node", "/opt/bullmq/worker.mjs", strconv.Itoa(o.redis), strconv.Itoa(o.postgres))
	}
	worker, err := startChild(ctx, log, "the worker", command...)
	if err != nil {
		return measured{}, err
	}
	start := time.Now().UnixNano()
	seen, err := o.publish(worker, reader)
	if err = errors.Join(err, worker.end()); err != nil {
		return measured{}, err
	}
	var counted tally
	if err := errors.Join(reader.send(ready{true}), reader.receive(&counted)); err != nil {
		return measured{}, err
	}
	if want := (tally{Found: o.followers * o.messages}); counted != want {
		return measured{}, fmt.Errorf("the inboxes have %d messages, %d too many and %d too few", counted.Found, counted.Extra, counted.Missing)
	}
	result = measured{all: since(start, seen.All), first: since(start, seen.First), counting: since(0, seen.Counting)}
	for _, moment := range seen.Complete {
		result.complete = append(result.complete, since(start, moment))
	}
	return result, nil
}

// publish publishes the messages, and waits until the reader has found them.
func (o options) publish(worker, reader *child) (sighting, error) {
	for n := range o.messages {
		if err := worker.send(newPost(n+1, o.body)); err != nil {
			return sighting{}, err
		}
		if err := worker.receive(new(ready)); err != nil {
			return sighting{}, err
		}
	}
	var seen sighting
	return seen, reader.receive(&seen)
}

// childFlags are the flags of reader and worker.
func (o options) childFlags(p peer) []string {
	var flags []string
	for name, value := range map[string]int{
		"followers": o.followers, "messages": o.messages, "body": o.body, "per-job": max(1, p.perJob),
		"redis-port": o.redis, "postgres-port": o.postgres, "fanmail-port": o.fanmail,
	} {
		flags = append(flags, fmt.Sprintf("--%s=%d", name, value))
	}
	return flags
}

// tail returns the end of a file.
func tail(path string) string {
	const most = 4000
	text, _ := os.ReadFile(path)
	return strings.TrimSpace(string(text[max(0, len(text)-most):]))
}
