package following

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// catchUp appends what the edges' followees have sent since their last spans began.
func (s *Service) catchUp(ctx context.Context, edges []follow.Edge, now time.Time) error {
	byAuthor := make(map[message.UserID][]follow.Edge)
	for _, e := range edges {
		byAuthor[e.Followee] = append(byAuthor[e.Followee], e)
	}
	for author, edges := range byAuthor {
		if err := s.catchUpAuthor(ctx, author, edges, now); err != nil {
			return fmt.Errorf("catch up with %s: %w", author, err)
		}
	}
	return nil
}

func (s *Service) catchUpAuthor(ctx context.Context, author message.UserID, edges []follow.Edge, now time.Time) error {
	const page = 200
	slices.SortFunc(edges, func(x, y follow.Edge) int { return strings.Compare(string(x.Follower), string(y.Follower)) })
	first, last := s.window(edges[0], now)
	for _, e := range edges[1:] {
		since, until := s.window(e, now)
		if since.Before(first) {
			first = since
		}
		if until.After(last) {
			last = until
		}
	}
	for after := message.LastBefore(first); ; {
		since := []message.Range{{From: author, After: after, Before: message.MaxID}}
		stored, err := s.messages.ToFollowers(ctx, since, message.OldestFirst, page)
		if err != nil {
			return err
		}
		if err := s.appendTo(ctx, edges, stored, now); err != nil {
			return err
		}
		if len(stored) < page || stored[page-1].Sent().After(last) {
			return nil
		}
		after = stored[page-1].ID
	}
}

// forever is after every message.
var forever = message.MaxID.Time()

// window returns between which times, both included, fan-out may have missed something on an edge. If its span began just
// now, that is everything since. If it had begun before, this call repeats one that may not have come to its end: the
// edge has been visible from some moment within the slack after it began, and fan-out has seen it from then on.
func (s *Service) window(e follow.Edge, now time.Time) (since, until time.Time) {
	since = e.Spans[len(e.Spans)-1].Since
	if since.Before(now.UTC().Truncate(time.Millisecond)) {
		return since, since.Add(s.opts.Slack)
	}
	return since, forever
}

// appendTo appends to each edge's follower those messages that fan-out may have missed. The edges are ascending by follower.
func (s *Service) appendTo(ctx context.Context, edges []follow.Edge, stored []message.Stored, now time.Time) error {
	if len(stored) == 0 {
		return nil
	}
	// The edges are read anew, after the messages: a follower may have unfollowed before one of them was sent.
	pairs, followers := make([]follow.Pair, len(edges)), make([]message.UserID, len(edges))
	for i, e := range edges {
		followers[i] = e.Follower
		pairs[i] = follow.Pair{Follower: e.Follower, Followee: e.Followee}
	}
	current, err := s.edges.Get(ctx, pairs)
	if err != nil {
		return err
	}
	states, err := s.users.Lookup(ctx, followers)
	if err != nil {
		return err
	}
	var appends []bucket.Append
	for i, e := range edges {
		since, until := s.window(e, now)
		if entries := s.missed(current[i], states[i], stored, since, until); len(entries) > 0 {
			appends = append(appends, bucket.Append{Owner: e.Follower, Hint: states[i].Head, Entries: entries})
		}
	}
	results, err := s.appender.Append(ctx, appends)
	if err != nil {
		return err
	}
	for i, r := range results {
		if r.Err != nil {
			return fmt.Errorf("inbox of %s: %w", appends[i].Owner, r.Err)
		}
	}
	return nil
}

// missed returns the entries of those messages in the window that are for the edge's follower.
func (s *Service) missed(e follow.Edge, state userstate.State, stored []message.Stored, since, until time.Time) []bucket.Entry {
	var entries []bucket.Entry
	for _, m := range stored {
		sent := m.Sent()
		inWindow := !sent.Before(since) && !sent.After(until)
		if inWindow && !m.Void(s.opts.Slack) && follow.For(m.Message, e.Follower, e) && s.opts.Policy.Deliver(state, sent) {
			entries = append(entries, bucket.EntryOf(m.Message))
		}
	}
	return entries
}
