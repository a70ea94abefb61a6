package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/startstop"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// BurstOptions configure Env.Burst.
type BurstOptions struct {
	// Celebrities is the number of authors. Messages is the number of messages that each author publishes.
	Celebrities, Messages int
	// Followers is the size of the largest audience. If Graded is set, the nth author has n times as many followers as the first.
	// Otherwise all authors have the same number.
	Followers int
	Graded    bool
	// Overlap is the share of each audience, from 0 to 1, that is taken from a pool of users common to all authors.
	Overlap float64
	// Apart is the time between the starts of two authors.
	Apart time.Duration
}

// rawOwners bounds the number of inboxes in the measurement of the raw limits. Pushing to all inboxes one by one would take longer than
// the burst.
const rawOwners = 10_000

// Burst measures the concurrent fan-out of messages by several authors whose audiences overlap.
func (e Env) Burst(ctx context.Context, o BurstOptions) (_ Report, err error) {
	w, err := e.Open(ctx)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, w.Close(ctx)) }()
	expected := make(map[message.UserID]int)
	var recipients []message.UserID
	audiences := make([]int, o.Celebrities)
	for c := range o.Celebrities {
		audience := o.audience(c)
		audiences[c] = len(audience)
		e.Tell(fmt.Sprintf("making %d followers of %s", len(audience), User("celebrity", c)))
		if err := w.Follow(ctx, User("celebrity", c).Source(), audience); err != nil {
			return Report{}, err
		}
		for _, u := range audience {
			if expected[u] == 0 {
				recipients = append(recipients, u)
			}
			expected[u] += o.Messages
		}
	}
	if err := w.See(ctx, e.Now(), recipients); err != nil {
		return Report{}, err
	}
	e.Tell("measuring the raw limits, one by one and all at once")
	messages := min(o.Celebrities*o.Messages, bucket.Capacity)
	raw, err := w.RawBatches(ctx, min(rawOwners, len(recipients)), messages, 1)
	if err != nil {
		return Report{}, err
	}
	together, err := w.RawBatches(ctx, min(rawOwners, len(recipients)), 1, messages)
	if err != nil {
		return Report{}, err
	}
	e.Tell(fmt.Sprintf("fanning out %d messages", o.Celebrities*o.Messages))
	if err := w.settle(ctx); err != nil {
		return Report{}, err
	}
	appliedBefore, entriesBefore := w.pushes.applied.Load(), w.pushes.entries.Load()
	began := time.Now() //nolint:forbidigo // what is measured is time
	done, total, err := w.burst(ctx, o)
	if err != nil {
		return Report{}, err
	}
	took := time.Since(began)
	want, possible := int64(0), int64(0)
	for c := range audiences {
		want += int64(audiences[c] * o.Messages)
	}
	for _, n := range expected {
		possible += int64((n + bucket.Capacity - 1) / bucket.Capacity)
	}
	if total.Delivered != want || total.Skipped != 0 {
		return Report{}, fmt.Errorf("delivered %d and skipped %d, want %d and 0", total.Delivered, total.Skipped, want)
	}
	entries, applied := w.pushes.entries.Load()-entriesBefore, w.pushes.applied.Load()-appliedBefore
	perPush, most := float64(entries)/float64(applied), float64(want)/float64(possible)
	rate := float64(want) / took.Seconds()
	first, last := done.Percentile(0), done.Percentile(100)
	return Report{Benchmark: "burst", Store: e.Config.Store, Rows: []Row{{
		Case: fmt.Sprintf("%d by %d celebrities", o.Celebrities*o.Messages, o.Celebrities),
		Figures: []Figure{
			{"deliveries", rate, "/s"},
			{"raw, one by one", raw, "/s"},
			{"times that", rate / raw, ""},
			{"raw, all at once", together, "/s"},
			{"of that", rate / together, ""},
			{"entries per push", perPush, ""},
			{"at most", most, ""},
			{"of it", perPush / most, ""},
			{"first done", first, "ms"},
			{"last done", last, "ms"},
			{"last to first", last / first, ""},
		},
	}}}, nil
}

// audience returns the followers of the nth author: the given share from the common pool, and the rest only theirs.
func (o BurstOptions) audience(n int) []message.UserID {
	size := o.Followers
	if o.Graded {
		size = o.Followers * (n + 1) / o.Celebrities
	}
	common := int(o.Overlap * float64(size))
	return append(Users("user", 0, common), Users(fmt.Sprintf("own-%03d", n), 0, size-common)...)
}

// burst lets all authors publish. For each author, it returns the time from publishing until the fan-out of their messages is done.
func (w *World) burst(ctx context.Context, o BurstOptions) (done Times, total client.Fanout, err error) {
	done = make(Times, o.Celebrities)
	totals := make([]client.Fanout, o.Celebrities)
	group, ctx := errgroup.WithContext(ctx)
	for c := range o.Celebrities {
		group.Go(func() error {
			startstop.Pause(ctx, time.Duration(c)*o.Apart)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			drafts := make([]message.Draft, o.Messages)
			for i := range drafts {
				drafts[i] = w.ToFollowers(User("celebrity", c))
			}
			began := time.Now() //nolint:forbidigo // what is measured is time
			ids, err := w.Publish(ctx, drafts...)
			if err != nil {
				return err
			}
			totals[c], err = w.Await(ctx, ids)
			done[c] = time.Since(began)
			return err
		})
	}
	err = group.Wait()
	for _, t := range totals {
		total.Delivered += t.Delivered
		total.Skipped += t.Skipped
	}
	return done, total, err
}
