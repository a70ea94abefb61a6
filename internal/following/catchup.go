package following

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// run appends the messages that were sent by the edges' authors, or to their topics, since their last spans began.
func (c *catchUp) run(ctx context.Context, edges []follow.Edge) error {
	bySource := make(map[message.Source][]follow.Edge)
	for _, e := range edges {
		bySource[e.Followee] = append(bySource[e.Followee], e)
	}
	for source, edges := range bySource {
		if err := c.source(ctx, source, edges); err != nil {
			return fmt.Errorf("catch up with %s: %w", source, err)
		}
	}
	return c.damaged
}

// source appends the messages of one source.
func (c *catchUp) source(ctx context.Context, source message.Source, edges []follow.Edge) error {
	const page = 200
	slices.SortFunc(edges, func(x, y follow.Edge) int { return strings.Compare(string(x.Follower), string(y.Follower)) })
	first, last := c.window(edges[0])
	for _, e := range edges[1:] {
		since, until := c.window(e)
		if since.Before(first) {
			first = since
		}
		if until.After(last) {
			last = until
		}
	}
	for after := message.LastBefore(first); ; {
		since := []message.Range{{From: source, After: after, Before: message.MaxID}}
		stored, err := c.messages.ToFollowers(ctx, since, message.OldestFirst, page)
		if err != nil {
			return err
		}
		if err := c.appendTo(ctx, edges, stored); err != nil {
			return err
		}
		if len(stored) < page || stored[page-1].Sent().After(last) {
			return nil
		}
		after = stored[page-1].ID
	}
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

// appendTo appends the messages that fan-out may have missed to the inbox of each edge's follower. The edges are ascending by follower.
func (c *catchUp) appendTo(ctx context.Context, edges []follow.Edge, stored []message.Stored) error {
	if len(stored) == 0 {
		return nil
	}
	// The edges are read again after the messages, because a follower may have unfollowed before a message was sent.
	pairs, followers := make([]follow.Pair, len(edges)), make([]message.UserID, len(edges))
	for i, e := range edges {
		followers[i] = e.Follower
		pairs[i] = follow.Pair{Follower: e.Follower, Followee: e.Followee}
	}
	current, err := c.edges.Get(ctx, pairs)
	if err != nil {
		return err
	}
	looked, err := c.users.Lookup(ctx, followers)
	if err != nil {
		return err
	}
	var appends []bucket.Append
	var owed []userstate.State
	for i, e := range edges {
		if err := looked[i].Err; err != nil {
			c.damaged = cmp.Or(c.damaged, err)
			continue
		}
		state := looked[i].State
		since, until := c.window(e)
		entries, leftToGap := c.missed(current[i], state, stored, since, until)
		if leftToGap {
			owed = append(owed, state)
		}
		if len(entries) > 0 {
			appends = append(appends, bucket.Append{Owner: e.Follower, Hint: state.Head, Entries: entries})
		}
	}
	if err := userstate.Owe(ctx, c.users, c.rules, owed, c.now, false); err != nil {
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

// missed returns the entries of the messages in the window that are for the edge's follower, and whether others are in a gap.
func (c *catchUp) missed(
	e follow.Edge, state userstate.State, stored []message.Stored, since, until time.Time,
) (entries []bucket.Entry, leftToGap bool) {
	for _, m := range stored {
		sent := m.Sent()
		inWindow := !sent.Before(since) && !sent.After(until)
		switch {
		case !inWindow || c.rules.Void(m) || !follow.For(m.Message, e.Follower, e):
		case c.rules.Deliver(state, sent):
			entries = append(entries, bucket.EntryOf(m.Message))
		default:
			leftToGap = leftToGap || state.InGap(sent)
		}
	}
	return entries, leftToGap
}
