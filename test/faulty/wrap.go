package main

import (
	"context"
	"sync"
	"time"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// fetchedTogether bounds the events that are routed together, so that a test with a few dozen messages comes to the same point several
// times, however many of them were there when the router first looked.
const fetchedTogether = 8

// companyPoll is the pause between two looks for more tasks.
const companyPoll = 10 * time.Millisecond

// wrap stands between the roles and the parts that they are built on.
func (f *failpoint) wrap(p app.Parts) app.Parts {
	p.Messages = messages{p.Messages, f}
	u := &users{Store: p.Users, failpoint: f, sweeping: make(map[message.UserID]bool)}
	p.Users, p.Inbox = u, inbox{p.Inbox, u, f}
	p.Progress = fanouts{p.Progress, f}
	p.Walk, p.Edges = walk{p.Walk, f}, edges{p.Edges, f}
	p.Bus = &carrier{Bus: p.Bus, failpoint: f, emitted: make(map[place]bool)}
	return p
}

type messages struct {
	message.Store
	failpoint *failpoint
}

func (m messages) Insert(ctx context.Context, all []message.Message, timing message.Timing) (stamps []message.Stamp, err error) {
	err = m.failpoint.pass(pointStore, len(all), func(n int) error {
		stamps, err = m.Store.Insert(ctx, all[:n], timing)
		return err
	})
	return stamps, err
}

type inbox struct {
	bucket.Store
	users     *users
	failpoint *failpoint
}

func (i inbox) Push(ctx context.Context, pushes []bucket.Push) (outcomes []bucket.Outcome, err error) {
	if len(pushes) == 1 && pushes[0].Entries[0].Recovered {
		return i.pushRecovered(ctx, pushes[0])
	}
	err = i.failpoint.pass(pointAppend, len(pushes), func(n int) error {
		outcomes, err = i.Store.Push(ctx, pushes[:n])
		return err
	})
	return outcomes, err
}

// pushRecovered is the push of a rehydration, which has only one owner: its parts are the entries.
func (i inbox) pushRecovered(ctx context.Context, push bucket.Push) (outcomes []bucket.Outcome, err error) {
	point := pointRebuild
	if i.users.isSweeping(push.Owner) {
		point = pointSweep
	}
	entries := push.Entries
	err = i.failpoint.pass(point, len(entries), func(n int) error {
		push.Entries = entries[:n]
		outcomes, err = i.Store.Push(ctx, []bucket.Push{push})
		return err
	})
	return outcomes, err
}

func (i inbox) Empty(ctx context.Context, owner message.UserID, low, high uint32, purged message.ID) (emptied bucket.Emptied, err error) {
	err = i.failpoint.pass(pointEmpty, 1, func(int) error {
		emptied, err = i.Store.Empty(ctx, owner, low, high, purged)
		return err
	})
	return emptied, err
}

type fanouts struct {
	progress.Store
	failpoint *failpoint
}

func (s fanouts) Plan(ctx context.Context, id message.ID, lane string, partitions []int, now time.Time) (planned progress.Fanout, err error) {
	err = s.failpoint.pass(pointPlan, 1, func(int) error {
		planned, err = s.Store.Plan(ctx, id, lane, partitions, now)
		return err
	})
	return planned, err
}

func (s fanouts) Step(ctx context.Context, steps []progress.Move, now time.Time) (stepped []progress.Moved, err error) {
	err = s.failpoint.pass(pointRecord, len(steps), func(n int) error {
		stepped, err = s.Store.Step(ctx, steps[:n], now)
		return err
	})
	return stepped, err
}

// place is where a task is for.
type place struct {
	id        message.ID
	partition int
}

type carrier struct {
	bus.Bus
	failpoint *failpoint

	mu sync.Mutex
	// emitted are the places that tasks were emitted for: another one for the same place is a continuation.
	emitted map[place]bool
}

func (c *carrier) EmitPublished(ctx context.Context, events []event.Published, fresh bool) error {
	return c.failpoint.pass(pointEmitPublished, len(events), func(n int) error {
		return c.Bus.EmitPublished(ctx, events[:n], fresh)
	})
}

func (c *carrier) EmitTasks(ctx context.Context, tasks []event.Task) error {
	point := pointEmitTasks
	if c.known(tasks) {
		point = pointContinue
	}
	return c.failpoint.pass(point, len(tasks), func(n int) error { return c.Bus.EmitTasks(ctx, tasks[:n]) })
}

func (c *carrier) FetchPublished(ctx context.Context, limit int) ([]bus.Received, error) {
	events, err := c.Bus.FetchPublished(ctx, min(limit, fetchedTogether))
	for i, e := range events {
		events[i] = received{e, c.failpoint}
	}
	return events, err
}

func (c *carrier) Take(ctx context.Context, lane event.Lane, partition int) (bus.Held, error) {
	task, err := c.Bus.Take(ctx, lane, partition)
	if err != nil {
		return nil, err
	}
	return held{task, c.failpoint}, nil
}

func (c *carrier) Poll(ctx context.Context, lane event.Lane, partition int, wait time.Duration) (bus.Held, error) {
	task, err := c.Bus.Poll(ctx, lane, partition, wait)
	if task == nil {
		return nil, err
	}
	return held{task, c.failpoint}, err
}

// known reports whether tasks were emitted for all of these places before, and takes note of them.
func (c *carrier) known(tasks []event.Task) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := true
	for _, task := range tasks {
		at := place{task.ID, task.Partition}
		known = known && c.emitted[at]
		c.emitted[at] = true
	}
	return known
}

type received struct {
	bus.Received
	failpoint *failpoint
}

func (r received) Ack() error {
	return r.failpoint.pass(pointAckPublished, 1, func(int) error { return r.Received.Ack() })
}

type held struct {
	bus.Held
	failpoint *failpoint
}

// Waiting waits until so many tasks wait that the batch can come to the failpoint: a server that keeps up would work on each task
// alone.
func (h held) Waiting(ctx context.Context, limit int) ([]event.Delivery, error) {
	for {
		tasks, err := h.Held.Waiting(ctx, limit)
		if err != nil || len(tasks) >= min(limit, h.failpoint.company()) {
			return tasks, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(companyPoll):
		}
	}
}

func (h held) Remove(ctx context.Context, tasks []event.Delivery) error {
	return h.failpoint.pass(pointRemove, len(tasks), func(n int) error { return h.Held.Remove(ctx, tasks[:n]) })
}

func (h held) Done(ctx context.Context) error {
	return h.failpoint.pass(pointAckTask, 1, func(int) error { return h.Held.Done(ctx) })
}
