package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// publishChunk is the number of messages per request.
	publishChunk = 250
	// busyTries is the number of times that the command sends a chunk to a busy server. busyPause is the pause between them.
	busyTries = 30
	busyPause = time.Second
	// waiters is the number of messages whose status is polled concurrently.
	waiters = 8
)

// published is one line of the result of publishing a file: a receipt, or an error.
type published struct {
	Line int `json:"line"`
	*client.Receipt
	Error string `json:"error,omitempty"`
}

// publishSummary is the last line. Fanout adds up the fan-outs. It is nil without --wait.
type publishSummary struct {
	Published int     `json:"published"`
	Bad       int     `json:"bad"`
	Rejected  int     `json:"rejected"`
	Seconds   float64 `json:"seconds"`
	Fanout    *totals `json:"fanout,omitempty"`
}

// totals adds up fan-outs.
type totals struct {
	Recipients int64 `json:"recipients"`
	Delivered  int64 `json:"delivered"`
	Skipped    int64 `json:"skipped"`
	Blocked    int64 `json:"blocked,omitempty"`
}

func (t *totals) add(f client.Fanout) {
	t.Recipients += f.Recipients
	t.Delivered += f.Delivered
	t.Skipped += f.Skipped
	t.Blocked += f.Blocked
}

func (t *totals) String() string {
	return t.because(0)
}

// because is String of totals with so many recipients who are known to have never been seen.
func (t *totals) because(neverSeen int64) string {
	return fmt.Sprintf("%s: %s delivered, %s skipped%s", plural(t.Recipients, "recipient", "recipients"), count(t.Delivered), count(t.Skipped),
		whySkipped(t.Skipped, neverSeen, t.Blocked))
}

// fileRun publishes one file.
type fileRun struct {
	*publisher
	client *client.Client
	file   *source
	parse  parser[message.Draft]
	// key is the prefix of all idempotency keys of the run. So a repeated request publishes nothing twice.
	key      string
	ids      []message.ID
	rejected []problem
}

func (b *publisher) publishFile(ctx context.Context, c *client.Client) error {
	// The limits come from the environment or the defaults, on the assumption that the server has the same.
	cfg, err := program.Load(config.Options{Env: b.process.Env})
	if err != nil {
		return err
	}
	return withSource(ctx, b.process, b.file, func(file *source) error {
		run := &fileRun{publisher: b, client: c, file: file, key: b.key, parse: parseDraft(message.Limits{
			BodyBytes: int(cfg.Limits.Body), AttrsBytes: int(cfg.Limits.Attrs), Recipients: cfg.Limits.Recipients,
		})}
		if run.key == "" {
			run.key = rand.Text()
		}
		return run.publish(ctx)
	})
}

func (r *fileRun) publish(ctx context.Context) error {
	begun := r.process.Now()
	found, err := examine(ctx, r.process.Stderr, r.file, r.parse, r.skipBad)
	if err != nil {
		return err
	}
	if r.output.json {
		for _, b := range found.bad {
			if err := r.output.line(b); err != nil {
				return err
			}
		}
	}
	if err := r.sendAll(ctx, found.good); err != nil {
		return fmt.Errorf("%w; %s of %s were published: repeat the command with --key %s to publish the others only",
			err, count(len(r.ids)), plural(found.good, "message", "messages"), r.key)
	}
	result := publishSummary{Published: len(r.ids), Bad: len(found.bad), Rejected: len(r.rejected)}
	if r.wait {
		if result.Fanout, err = r.waitAll(ctx); err != nil {
			err = fmt.Errorf("%s were published, but waiting for them failed: %w", plural(len(r.ids), "message", "messages"), err)
		}
	}
	took := r.process.Now().Sub(begun)
	result.Seconds = took.Seconds()
	return cmp.Or(err, r.report(append(found.bad, r.rejected...), result, took))
}

// sendAll sends the good lines of the file, one chunk after another, so that ids ascend in the order of the file.
func (r *fileRun) sendAll(ctx context.Context, total int) error {
	bar := newProgress(r.process, "publishing messages", int64(total))
	defer bar.close()
	return eachChunk(ctx, r.file, r.parse, publishChunk, func(next chunk[message.Draft]) error {
		answers, err := r.send(ctx, next)
		for i, answer := range answers {
			if err := r.record(next.lines[i], answer); err != nil {
				return err
			}
		}
		if err == nil {
			bar.add(len(answers))
		}
		return err
	})
}

// send sends a chunk. It repeats the request while the server is busy. Messages that were published earlier keep their ids.
func (r *fileRun) send(ctx context.Context, next chunk[message.Draft]) ([]client.Answer, error) {
	key := r.key + "/" + strconv.Itoa(next.index)
	for try := 1; ; try++ {
		answers, err := r.client.PublishBatch(ctx, next.values, key)
		if err != nil || try == busyTries || !anyBusy(answers) {
			return answers, err
		}
		pause := time.NewTimer(busyPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil, ctx.Err()
		}
	}
}

func anyBusy(answers []client.Answer) bool {
	for _, answer := range answers {
		if problem, ok := errors.AsType[*client.Problem](answer.Err); ok && problem.Status == http.StatusServiceUnavailable {
			return true
		}
	}
	return false
}

// record counts and prints the result of one line.
func (r *fileRun) record(line int, answer client.Answer) error {
	printed := published{Line: line}
	if answer.Err != nil {
		printed.Error = answer.Err.Error()
		r.rejected = append(r.rejected, problem{Line: line, Error: printed.Error})
		if !r.output.json {
			return nil
		}
	} else {
		printed.Receipt = &answer.Receipt
		r.ids = append(r.ids, answer.ID)
	}
	if r.output.json {
		return r.output.line(printed)
	}
	return printf(r.output.w, "%s\n", answer.ID)
}

func (r *fileRun) waitAll(ctx context.Context) (*totals, error) {
	ctx, cancel := r.limit.within(ctx)
	defer cancel()
	bar := newProgress(r.process, "delivering messages", int64(len(r.ids)))
	defer bar.close()
	fanouts := make([]client.Fanout, len(r.ids))
	var done atomic.Int64
	group, waiting := errgroup.WithContext(ctx)
	group.SetLimit(waiters)
	for i, id := range r.ids {
		group.Go(func() error {
			status, err := r.client.WaitDone(waiting, id, 0)
			if err != nil {
				return err
			}
			fanouts[i] = status.Fanout
			done.Add(1)
			bar.add(1)
			return nil
		})
	}
	err := group.Wait()
	if err != nil && timedOut(ctx) {
		err = fmt.Errorf("%s of them are done after %s; 'fanmail status ID --wait' waits for one of the others: %w",
			count(done.Load()), &r.limit, errTimeout)
	}
	if err != nil {
		return nil, err
	}
	var all totals
	for _, f := range fanouts {
		all.add(f)
	}
	return &all, nil
}

// report prints the summary: as the last line of JSON, or as text on standard error.
func (r *fileRun) report(problems []problem, result publishSummary, took time.Duration) error {
	if r.output.json {
		if err := r.output.line(map[string]publishSummary{"summary": result}); err != nil {
			return err
		}
	} else if err := r.summarize(problems, result, took); err != nil {
		return err
	}
	if result.Rejected > 0 && !r.skipBad {
		return fmt.Errorf("the server rejected %s of %s", plural(result.Rejected, "line", "lines"), r.file.name)
	}
	return nil
}

func (r *fileRun) summarize(problems []problem, result publishSummary, took time.Duration) error {
	w := r.process.Stderr
	if err := showProblems(w, r.file, problems, 0, jsonListsAll); err != nil {
		return err
	}
	text := fmt.Sprintf("published %s in %s", plural(result.Published, "message", "messages"), seconds(took))
	if n := result.Bad + result.Rejected; n > 0 {
		text += ", left out " + plural(n, "line", "lines")
	}
	if result.Fanout != nil {
		text += "; " + result.Fanout.String()
	}
	return printf(w, "%s\n", text)
}
