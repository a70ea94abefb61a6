// Package follow holds who follows whom, and who is subscribed to what, and when.
//
// An edge is one user following another, or being subscribed to a topic. It records the spans of time in which it held. Unfollowing ends the
// last span, and following again opens a new one. So For can decide at any later time whether a message was for a follower when it was sent. What
// is said of followers and followees holds of subscribers and topics, too. All stages use For. A block is an edge, too: to the block of a user.
package follow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
)

// ErrSelf says that follower and followee are the same user.
var ErrSelf = errors.New("a user cannot follow themselves")

// MaxSpans bounds the spans of an edge, because fan-out reads all spans of every follower.
const MaxSpans = 256

// RefusedError has the pairs that a call refused, at least one, and for each a *FullError or a *BlockedError.
type RefusedError map[Pair]error

// Error has one of the reasons.
func (e RefusedError) Error() string {
	return fmt.Sprintf("%d pairs are refused: %v", len(e), e.Unwrap()[0])
}

// Unwrap returns the reasons, in no order.
func (e RefusedError) Unwrap() []error { return slices.Collect(maps.Values(e)) }

// FullError says that an edge is full (see Edge.Full), or that its follower has as many edges as a user may have.
type FullError struct {
	Pair Pair
	// Max is how many edges the user may have; 0 if the edge is full.
	Max int
}

// Error names the user, the limit, and the way out.
func (e *FullError) Error() string {
	if e.Max > 0 {
		return fmt.Sprintf("%s has %d follows, subscriptions and blocks, which is the limit (following.max): end some. One that has ended makes room a "+
			"few minutes later if nothing was sent while it held, and otherwise when that has expired", e.Pair.Follower, e.Max)
	}
	ended, of := "unfollowed", string(e.Pair.Followee)
	if t, ok := e.Pair.Followee.Topic(); ok {
		ended, of = "unsubscribed from", string(t)
	}
	return fmt.Sprintf("%s has %s %s %d times, which is the limit: a time in which nothing was sent stops counting a few minutes later",
		e.Pair.Follower, ended, of, MaxSpans)
}

// BlockedError says that one user of a pair blocks the other. It does not say which.
type BlockedError struct{ Pair Pair }

// Error names the pair.
func (e *BlockedError) Error() string {
	return fmt.Sprintf("%s cannot follow %s, because one of them blocks the other", e.Pair.Follower, e.Pair.Followee)
}

// Span is a time range in which an edge held: from Since, included, to Until, excluded. Times are in UTC, to
// the millisecond. A zero Until is open: the edge still holds.
type Span struct {
	Since time.Time
	Until time.Time
}

// Open reports whether the span has no end yet.
func (s Span) Open() bool { return s.Until.IsZero() }

// Holds reports whether a time is in the span.
func (s Span) Holds(t time.Time) bool {
	return !t.Before(s.Since) && (s.Open() || t.Before(s.Until))
}

func (s Span) equal(o Span) bool { return s.Since.Equal(o.Since) && s.Until.Equal(o.Until) }

// Edge is one user following another, or being subscribed to a topic, now or in the past.
type Edge struct {
	Follower message.UserID
	Followee message.Source
	// Spans are in the order of time, at least one, and do not overlap. Only the last may be open.
	Spans []Span
	// Number is that of the topic with which the open span began. It is zero if no span is open, or the followee is an author.
	Number topic.Number
}

// Open reports whether the edge holds now.
func (e Edge) Open() bool { return len(e.Spans) > 0 && e.Spans[len(e.Spans)-1].Open() }

// EndedBy reports whether the edge exists, and its last span had ended by a time.
func (e Edge) EndedBy(t time.Time) bool {
	return len(e.Spans) > 0 && !e.Open() && !e.Spans[len(e.Spans)-1].Until.After(t)
}

// Equal reports whether two edges are the same.
func (e Edge) Equal(o Edge) bool {
	return e.Follower == o.Follower && e.Followee == o.Followee && e.Number == o.Number && slices.EqualFunc(e.Spans, o.Spans, Span.equal)
}

// Full reports whether the edge has ended and has no room for another span.
func (e Edge) Full() bool { return len(e.Spans) >= MaxSpans && !e.Open() }

// Holds reports whether the edge held at a time.
func (e Edge) Holds(t time.Time) bool {
	for _, span := range slices.Backward(e.Spans) {
		if span.Holds(t) {
			return true
		}
	}
	return false
}

// Follow returns the edge with a span that is open since at, and whether the edge changed. It does not change an open or a
// full edge. If the last span ended after at, because a clock lags, the new span begins where the last one ended.
func (e Edge) Follow(at time.Time) (Edge, bool) {
	if e.Open() || e.Full() {
		return e, false
	}
	since := at.UTC().Truncate(time.Millisecond)
	if n := len(e.Spans); n > 0 && since.Before(e.Spans[n-1].Until) {
		since = e.Spans[n-1].Until
	}
	spans := make([]Span, 0, len(e.Spans)+1)
	e.Spans = append(append(spans, e.Spans...), Span{Since: since})
	return e, true
}

// Subscribe is Follow of a topic that has the given number.
func (e Edge) Subscribe(number topic.Number, at time.Time) (Edge, bool) {
	subscribed, changed := e.Follow(at)
	if changed {
		subscribed.Number = number
	}
	return subscribed, changed
}

// End is Unfollow of a topic that has the given number. It does not change an edge with another number.
func (e Edge) End(number topic.Number, at time.Time) (Edge, bool) {
	if e.Number != number {
		return e, false
	}
	return e.Unfollow(at)
}

// Unfollow returns the edge with its open span ended at the given time, and whether the edge changed. A span never ends before it
// began.
func (e Edge) Unfollow(at time.Time) (Edge, bool) {
	if !e.Open() {
		return e, false
	}
	last := len(e.Spans) - 1
	until := at.UTC().Truncate(time.Millisecond)
	if until.Before(e.Spans[last].Since) {
		until = e.Spans[last].Since
	}
	spans := make([]Span, 0, len(e.Spans))
	e.Spans = append(spans, e.Spans...)
	e.Spans[last].Until = until
	e.Number = 0
	return e, true
}

// Drop returns the edge without the given spans, and whether the edge changed. The newest span stays, because Follow and Unfollow need
// its end.
func (e Edge) Drop(spans []Span) (Edge, bool) {
	var kept []Span
	for i, s := range e.Spans {
		if i == len(e.Spans)-1 || !slices.ContainsFunc(spans, s.equal) {
			kept = append(kept, s)
		}
	}
	changed := len(kept) < len(e.Spans)
	e.Spans = kept
	return e, changed
}

// For reports whether a message is for a user, as far as one edge of the user says. That is so if the message names the user. So it is if
// the message reaches the users with edges to this followee, and the edge held when the message was sent. A message to topics can reach a
// user by several edges: it is for the user if For says so of any. The zero Edge never held.
func For(m message.Message, user message.UserID, edge Edge) bool {
	return m.Names(user) || edge.Holds(m.Sent()) && m.Reaches(edge.Followee)
}

// ForAny reports whether For holds with any of a user's edges, or without one.
func ForAny(m message.Message, user message.UserID, edges []Edge) bool {
	return For(m, user, Edge{}) || slices.ContainsFunc(edges, func(e Edge) bool { return For(m, user, e) })
}

// Pairs returns the pairs of the edges that decide whether a message is for a user: ForAny needs no other. There are none if the message names
// the user.
func Pairs(m message.Message, user message.UserID) []Pair {
	if m.Names(user) {
		return nil
	}
	var pairs []Pair
	for _, s := range m.Sources() {
		if s != user.Source() { // no user follows themselves
			pairs = append(pairs, Pair{Follower: user, Followee: s})
		}
	}
	return pairs
}

// Pair is a follower and a followee: an author, or a topic.
type Pair struct {
	Follower message.UserID
	Followee message.Source
}

// Subscription is a pair whose followee is a topic, with the number of the topic.
type Subscription struct {
	Pair
	Number topic.Number
}

// Reverse returns the pair in which each follows the other; the followee must be an author.
func (p Pair) Reverse() Pair {
	return Pair{Follower: p.Followee.Author(), Followee: p.Follower.Source()}
}

// Block returns the edge that says that the pair's follower blocks its followee, who must be an author.
func (p Pair) Block() Pair { return Pair{Follower: p.Follower, Followee: p.Followee.Author().Block()} }

// Validate returns an *message.InvalidError, ErrSelf, or nil.
func (p Pair) Validate() error {
	if err := p.Follower.Validate("follower"); err != nil {
		return err
	}
	if err := p.Followee.Validate("followee"); err != nil {
		return err
	}
	if p.Follower.Source() == p.Followee {
		return ErrSelf
	}
	return nil
}

// Store holds edges. Reads find them by follower and by followee. All methods are safe for concurrent use and atomic for each edge.
// A read sees every write of every process that had returned before the read began. A write survives a crash once it has
// returned, and repeating it changes nothing.
type Store interface {
	// Follow opens a span at the given time on every edge that is not open or full. It returns the edges after that, in the
	// order of pairs. The pairs must be valid, and no pair may be given twice.
	Follow(ctx context.Context, pairs []Pair, at time.Time) ([]Edge, error)

	// Unfollow ends the open span of an edge at the given time, if there is one.
	Unfollow(ctx context.Context, pair Pair, at time.Time) error

	// Subscribe is Follow for topics. It opens spans with the given numbers, and leaves the number of an open span as it is.
	Subscribe(ctx context.Context, subscriptions []Subscription, at time.Time) ([]Edge, error)

	// End is Unfollow for an edge to a topic: it ends the open span if it has the given number.
	End(ctx context.Context, subscription Subscription, at time.Time) error

	// DropSpans removes the given spans from an edge, except its newest span. It ignores spans that the edge does not have.
	DropSpans(ctx context.Context, pair Pair, spans []Span) error

	// Get returns the edges of pairs, in their order. The edge of a pair that never followed has no spans.
	Get(ctx context.Context, pairs []Pair) ([]Edge, error)

	// Followers returns edges to followee, of followers of one partition with ids above after, ascending by
	// follower, at most limit. It also returns edges that have ended.
	Followers(ctx context.Context, followee message.Source, partition int, after message.UserID, limit int) ([]Edge, error)

	// Audience returns edges to any of the followees, of followers of all partitions, in no order, at most limit. It also returns edges that
	// have ended. A follower with edges to several of the followees has each of them in it.
	Audience(ctx context.Context, followees []message.Source, limit int) ([]Edge, error)

	// Following returns edges from follower, to followees above after, ascending by followee, at most limit: first those to topics, then
	// blocks, then those to authors. It also returns edges that have ended.
	Following(ctx context.Context, follower message.UserID, after message.Source, limit int) ([]Edge, error)

	// Count returns how many edges each of the followers has, at most limit each. It also counts edges that have ended.
	Count(ctx context.Context, followers []message.UserID, limit int) ([]int, error)

	// Ended looks at the next edges from a place on, at most limit, in an order of the store's own. It returns those that had ended by a
	// time, and the place from which the next call goes on: "" is the beginning, and the end. It leaves out damaged edges.
	Ended(ctx context.Context, place string, by time.Time, limit int) (ended []Edge, next string, err error)

	// Remove removes edges that have not changed since Ended has returned them. No reader may need their spans any more. They must have
	// ended for so long that no write of an earlier change can be under way. It need not survive a crash.
	Remove(ctx context.Context, edges []Edge) error
}

// AllOf returns all edges from a user, but for blocks, ascending by followee.
func AllOf(ctx context.Context, store Store, user message.UserID) (edges []Edge, err error) {
	const page = 1000
	for after := message.Source(""); ; after = edges[len(edges)-1].Followee {
		some, err := store.Following(ctx, user, after, page)
		if err != nil {
			return nil, fmt.Errorf("read the authors and topics that %s follows: %w", user, err)
		}
		if edges = append(edges, some...); len(some) < page {
			return slices.DeleteFunc(edges, func(e Edge) bool { return e.Followee.IsBlock() }), nil
		}
	}
}
