package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// watched is the number of inboxes that the reader looks at again and again.
	watched = 100
	// pause is the time between two looks.
	pause = 5 * time.Millisecond
)

// inboxes are the inboxes of a store, as a reader sees them.
type inboxes interface {
	// counts returns how many messages each inbox has, in the order of the owners, who are at most chunk.
	counts(ctx context.Context, owners []string) ([]int, error)
	// bodies returns the bodies of all messages in an inbox, in any order.
	bodies(ctx context.Context, owner string) ([]string, error)
	// settled reports whether all that the inboxes show is as durable as the store makes it.
	settled(ctx context.Context) (bool, error)
}

// sighting is what the reader has seen, and when, in nanoseconds since 1970.
type sighting struct {
	// First is when any message was found, and All when every message was found in every inbox.
	First int64 `json:"first"`
	All   int64 `json:"all"`
	// Counting is how long the count took that found every message.
	Counting int64 `json:"counting"`
	// Complete is for each watched inbox when all messages were found there.
	Complete []int64 `json:"complete"`
}

// tally is the result of counting all inboxes: messages that are there, too few, and too many.
type tally struct {
	Found   int `json:"found"`
	Missing int `json:"missing"`
	Extra   int `json:"extra"`
}

// read is the reader's process. It reports when it is ready, when it has found everything, and, when the parent asks, what it counts.
func read(ctx context.Context, kind string, o options) error {
	up := newParent()
	store, stop, err := openInboxes(ctx, kind, o)
	if err != nil {
		return err
	}
	defer stop()
	followers := followersOf(o.followers)
	if before, err := count(ctx, store, followers, o.messages); err != nil {
		return err
	} else if before.Found > 0 {
		return fmt.Errorf("%d messages are there before any was published", before.Found)
	}
	if err := up.send(ready{true}); err != nil {
		return err
	}
	w := watch{inboxes: store, messages: o.messages, now: time.Now, wait: waitFor}
	seen, err := w.until(ctx, followers)
	if err != nil {
		return err
	}
	if err := up.send(seen); err != nil {
		return err
	}
	if asked, err := up.receive(new(ready)); err != nil || !asked {
		return errors.Join(err, errors.New("nothing asked for the count"))
	}
	if err := checkBodies(ctx, store, followers, o); err != nil {
		return err
	}
	counted, err := count(ctx, store, followers, o.messages)
	if err != nil {
		return err
	}
	return up.send(counted)
}

// waitFor waits, unless the context ends before.
func waitFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// watch looks into inboxes until they have all messages.
type watch struct {
	inboxes  inboxes
	messages int
	now      func() time.Time
	wait     func(context.Context, time.Duration) error
}

// until looks at some inboxes until each has all messages, then counts all inboxes until nothing is missing, and then waits until the
// store has settled. A message counts as found when the answer has come.
func (w watch) until(ctx context.Context, owners []string) (sighting, error) {
	var some []string
	for _, place := range places(watched, len(owners)) {
		some = append(some, owners[place])
	}
	seen := sighting{Complete: make([]int64, len(some))}
	for {
		counts, err := w.inboxes.counts(ctx, some)
		if err != nil {
			return sighting{}, err
		}
		now := w.now().UnixNano()
		for i, n := range counts {
			if n > 0 && seen.First == 0 {
				seen.First = now
			}
			if n >= w.messages && seen.Complete[i] == 0 {
				seen.Complete[i] = now
			}
		}
		if !slices.Contains(seen.Complete, 0) {
			break
		}
		if err := w.wait(ctx, pause); err != nil {
			return sighting{}, err
		}
	}
	for {
		start := w.now()
		counted, err := count(ctx, w.inboxes, owners, w.messages)
		if err != nil {
			return sighting{}, err
		}
		if seen.Counting = w.now().Sub(start).Nanoseconds(); counted.Missing == 0 {
			break
		}
		if err := w.wait(ctx, pause); err != nil {
			return sighting{}, err
		}
	}
	for {
		if settled, err := w.inboxes.settled(ctx); err != nil {
			return sighting{}, err
		} else if settled {
			seen.All = w.now().UnixNano()
			return seen, nil
		}
		if err := w.wait(ctx, pause); err != nil {
			return sighting{}, err
		}
	}
}

// count counts all inboxes, each of which should have the given number of messages.
func count(ctx context.Context, in inboxes, owners []string, messages int) (tally, error) {
	var t tally
	for some := range slices.Chunk(owners, chunk) {
		counts, err := in.counts(ctx, some)
		if err != nil {
			return tally{}, err
		}
		for _, n := range counts {
			t.Found += n
			t.Missing += max(0, messages-n)
			t.Extra += max(0, n-messages)
		}
	}
	return t, nil
}

// checkBodies requires that the watched inboxes have the bodies that were published, each once.
func checkBodies(ctx context.Context, in inboxes, owners []string, o options) error {
	var want []string
	for n := range o.messages {
		want = append(want, newPost(n+1, o.body).Body)
	}
	slices.Sort(want)
	for _, place := range places(watched, len(owners)) {
		got, err := in.bodies(ctx, owners[place])
		if err != nil {
			return err
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("the inbox of %s has %d messages that are not those that were published", owners[place], len(got))
		}
	}
	return nil
}

// openInboxes opens the inboxes of a store. The caller calls the function that it returns.
func openInboxes(ctx context.Context, kind string, o options) (inboxes, func(), error) {
	switch kind {
	case "redis":
		client := o.openRedis()
		return redisInboxes{client}, func() { _ = client.Close() }, nil
	case "postgres":
		pool, err := o.openPostgres(ctx, 1, "plan_cache_mode=force_custom_plan") // a plan for the empty table would be kept
		if err != nil {
			return nil, nil, err
		}
		return postgresInboxes{pool}, pool.Close, nil
	case "fanmail":
		fanmail, err := o.openFanmail()
		if err != nil {
			return nil, nil, err
		}
		return fanmailInboxes{fanmail, followersOf(1)[0]}, fanmail.Close, nil
	default:
		return nil, nil, fmt.Errorf("there is no store %q", kind)
	}
}
