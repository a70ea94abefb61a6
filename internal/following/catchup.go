package following

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// catchUp is the second half of a call of Follow. The first half has opened the spans, at now.
type catchUp struct {
	*Service
	rules userstate.Rules
	now   time.Time
	// damaged is the first error of a follower whose records are damaged. The others get their messages all the same.
	damaged error
}

// run appends the messages that were sent by the edges' authors, or to their topics, since their last spans began. It searches together for the edges
// that began at about the same time, because mostly there are no messages.
func (c *catchUp) run(ctx context.Context, edges []follow.Edge) error {
	for _, some := range c.overlapping(edges) {
		if err := c.together(ctx, some); err != nil {
			return fmt.Errorf("catch up: %w", err)
		}
	}
	return c.damaged
}

// overlapping groups edges so that the windows of different groups do not overlap. A search for all edges would read, for each of their sources,
// what was sent since the first of them began: that may be years ago.
func (c *catchUp) overlapping(edges []follow.Edge) (groups [][]follow.Edge) {
	edges = slices.Clone(edges)
	slices.SortStableFunc(edges, func(x, y follow.Edge) int {
		first, _ := c.window(x)
		second, _ := c.window(y)
		return first.Compare(second)
	})
	var end time.Time
	for _, e := range edges {
		since, until := c.window(e)
		if len(groups) == 0 || since.After(end) {
			groups, end = append(groups, nil), until
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], e)
		if until.After(end) {
			end = until
		}
	}
	return groups
}

// together appends the messages of edges that it searches for together.
func (c *catchUp) together(ctx context.Context, edges []follow.Edge) error {
	const page = 200
	ranges := c.ranges(edges)
	for {
		stored, err := c.messages.ToFollowers(ctx, ranges, message.OldestFirst, page)
		if err != nil {
			return err
		}
		if err := c.appendTo(ctx, edges, stored); err != nil {
			return err
		}
		if len(stored) < page {
			return nil
		}
		for i := range ranges {
			if newest := stored[page-1].ID; ranges[i].After.Less(newest) {
				ranges[i].After = newest
			}
		}
	}
}

// ranges returns a range for each source, which holds the windows of its edges.
func (c *catchUp) ranges(edges []follow.Edge) []message.Range {
	var ranges []message.Range
	of := make(map[message.Source]int)
	for _, e := range edges {
		since, until := c.window(e)
		in := message.Range{From: e.Followee, After: message.LastBefore(since), Before: message.MaxID}
		if until.Before(farFuture) {
			in.Before = message.MinID(until.Add(time.Millisecond))
		}
		i, known := of[e.Followee]
		if !known {
			of[e.Followee] = len(ranges)
			ranges = append(ranges, in)
			continue
		}
		if in.After.Less(ranges[i].After) {
			ranges[i].After = in.After
		}
		if ranges[i].Before.Less(in.Before) {
			ranges[i].Before = in.Before
		}
	}
	return ranges
}

// farFuture is later than every message.
var farFuture = message.MaxID.Time()

// window returns the first and the last send time of messages that fan-out may have missed on an edge. If the span of the edge began
// now, fan-out may miss every later message. Otherwise this call repeats an earlier call of Follow, whose process may have died. That
// edge became visible within PublishSlack after its span began, and fan-out has seen it since.
func (c *catchUp) window(e follow.Edge) (since, until time.Time) {
	since = e.Spans[len(e.Spans)-1].Since
	if since.Before(c.now.UTC().Truncate(time.Millisecond)) {
		return since, since.Add(c.rules.PublishSlack)
	}
	return since, farFuture
}

// appendTo appends the messages that fan-out may have missed to the inbox of each edge's follower.
func (c *catchUp) appendTo(ctx context.Context, edges []follow.Edge, stored []message.Stored) error {
	reaching := make(map[message.Source][]message.Stored)
	for _, m := range stored {
		for _, source := range m.Sources() {
			reaching[source] = append(reaching[source], m)
		}
	}
	followed := make(map[message.UserID][]follow.Edge)
	var pairs []follow.Pair
	for _, e := range edges {
		if len(reaching[e.Followee]) > 0 {
			followed[e.Follower] = append(followed[e.Follower], e)
			pairs = append(pairs, follow.Pair{Follower: e.Follower, Followee: e.Followee})
		}
	}
	if len(pairs) == 0 {
		return nil
	}
	// The edges are read again after the messages, because a follower may have unfollowed before a message was sent.
	read, err := c.edges.Get(ctx, pairs)
	if err != nil {
		return err
	}
	current := make(map[follow.Pair]follow.Edge, len(read))
	for i, e := range read {
		current[pairs[i]] = e
	}
	followers := slices.Sorted(maps.Keys(followed))
	looked, err := c.users.Lookup(ctx, followers)
	if err != nil {
		return err
	}
	var appends []bucket.Append
	var owed []userstate.State
	for i, follower := range followers {
		if err := looked[i].Err; err != nil {
			c.damaged = cmp.Or(c.damaged, err)
			continue
		}
		state := looked[i].State
		var entries []bucket.Entry
		leftToGap := false
		for _, e := range followed[follower] {
			since, until := c.window(e)
			missed, left := c.missed(current[follow.Pair{Follower: follower, Followee: e.Followee}], state, reaching[e.Followee], since, until)
			entries, leftToGap = append(entries, missed...), leftToGap || left
		}
		if leftToGap {
			owed = append(owed, state)
		}
		if len(entries) > 0 {
			appends = append(appends, bucket.Append{Owner: follower, Hint: state.Head, Entries: eachOnce(entries)})
		}
	}
	if err := userstate.Owe(ctx, c.users, owed, c.now, false); err != nil {
		return err
	}
	results, err := c.appender.Append(ctx, appends)
	if err != nil {
		return err
	}
	for i, r := range results {
		if errors.Is(r.Err, message.ErrCorrupt) {
			c.damaged = cmp.Or(c.damaged, r.Err)
			continue
		}
		if r.Err != nil {
			return fmt.Errorf("inbox of %s: %w", appends[i].Owner, r.Err)
		}
	}
	return nil
}

// eachOnce sorts entries by id, and removes what is there twice, because a message reached the follower through several sources.
func eachOnce(entries []bucket.Entry) []bucket.Entry {
	slices.SortFunc(entries, func(x, y bucket.Entry) int { return x.ID.Compare(y.ID) })
	return slices.CompactFunc(entries, func(x, y bucket.Entry) bool { return x.ID == y.ID })
}

// missed returns the entries of the messages in the window that are for the edge's follower, and whether others are in a gap.
func (c *catchUp) missed(
	e follow.Edge, state userstate.State, stored []message.Stored, since, until time.Time,
) (entries []bucket.Entry, leftToGap bool) {
	for _, m := range stored {
		sent := m.Sent()
		inWindow := !sent.Before(since) && !sent.After(until)
		switch {
		case !inWindow || m.Void || !follow.For(m.Message, e.Follower, e):
		case state.Deliver(sent):
			entries = append(entries, bucket.EntryOfStored(m))
		default:
			leftToGap = leftToGap || state.InGap(sent)
		}
	}
	return entries, leftToGap
}
