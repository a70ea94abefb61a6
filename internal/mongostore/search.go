package mongostore

import (
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/message"
)

// A search finds the first messages, in the order of their ids, of all that a filter finds.
//
// A server that is asked to sort may do so only after it has read everything: thousands of ranges of an index, in MongoDB,
// and any query at all in DocumentDB. So it is asked for the ids in a window, in no order and not more than a few times as
// many as are wanted, and they are sorted here. If a window holds more, a shorter one is tried, whose end is chosen by what
// was found; if it holds too few, another one beyond follows. So neither the server nor this process ever has more in hand
// than that, and what is returned is exact, whatever clocks say: they only place the first window.
type search struct {
	// filters find the messages, apart from their ids. No message is found by two of them.
	filters []bson.D
	// index is the one to use: planners that know little of a collection yet may choose the one of ids instead, and look for
	// each of thousands of authors in every message.
	index string
	// keep tells which of them are wanted; nil is all.
	keep func(message.Ref) bool
	// bounds are those of the ids.
	bounds window
	order  message.Order
	limit  int
	// first is how long the first window is; 0 is all there is within the bounds.
	first time.Duration
}

const (
	// recently is the length of a window that holds about a page for somebody who follows many.
	recently = time.Hour
	// maxWidening is how many times longer than the last one a window may be.
	maxWidening = 512
	// minSample and maxSample bound how many ids of a window are read.
	minSample = 1000
	maxSample = 10_000
)

func (s *Messages) search(ctx context.Context, q search) (found []message.Ref, err error) {
	now := message.MinID(s.c.db.opts.Now())
	rest, next := q.bounds, q.bounds
	if q.first > 0 {
		next = q.ahead(rest, q.first, now)
	}
	var known []message.Ref // some of those in the rest, in order
	crowded := 0            // how many windows in a row have held too many
	for len(found) < q.limit && !rest.empty() {
		refs, complete, err := s.read(ctx, q, next)
		if err != nil {
			return nil, err
		}
		refs = q.wanted(refs)
		want := q.limit - len(found)
		if !complete {
			crowded++
			known = refs
			next = q.shorter(next, known, want, crowded, now)
			continue
		}
		crowded = 0
		found = append(found, refs[:min(len(refs), want)]...)
		rest = q.beyond(rest, next)
		known = slices.DeleteFunc(known, func(ref message.Ref) bool { return !rest.holds(ref.ID) })
		if want -= len(refs); 0 < want && want <= len(known) {
			next = q.upTo(rest, known[want-1].ID)
			continue
		}
		next = q.ahead(rest, widened(next.length(now), len(refs), want), now)
	}
	return found, nil
}

// ahead returns a window of a length at that end of the rest where the search goes on. The newest are looked for from now on
// downward; what was sent later, by other clocks, is in the same window as what was sent now.
func (q search) ahead(rest window, length time.Duration, now message.ID) window {
	if q.order == message.NewestFirst {
		return window{greatest(rest.from, message.MinID(least(rest.to, now).Time().Add(-length))), rest.to}
	}
	if end := message.MinID(rest.from.Time().Add(length)); end.Less(least(rest.to, now)) {
		return window{rest.from, end}
	}
	return rest
}

// upTo returns the part of a window where the search goes on, up to and including an id.
func (q search) upTo(w window, id message.ID) window {
	if q.order == message.NewestFirst {
		return window{id, w.to}
	}
	return window{w.from, id.Next()}
}

// beyond returns what is left of the rest when a window is done.
func (q search) beyond(rest, done window) window {
	if q.order == message.NewestFirst {
		return window{rest.from, done.from}
	}
	return window{done.to, rest.to}
}

// shorter returns a part of a window that holds too many, by some of those that are wanted of it. Mostly these are a fair
// sample of it: the part that holds just enough of them holds a few more. Where they are not, as if a server begins with those
// that are the oldest, that part may be nearly all: so every other time it takes about half of the window.
func (q search) shorter(w window, known []message.Ref, want, crowded int, now message.ID) window {
	if crowded%2 == 1 && want <= len(known) {
		return q.upTo(w, known[want-1].ID)
	}
	low, high := w.from, w.to
	if low.Less(now) {
		high = least(high, now)
	}
	if len(known) > 1 {
		first, last := known[0].ID, known[len(known)-1].ID
		low = least(first, last)
		if q.order == message.OldestFirst || high.Less(low) {
			high = greatest(first, last)
		}
	}
	if q.order == message.NewestFirst {
		return window{middle(low, high), w.to}
	}
	return window{w.from, middle(low, high)}
}

// widened returns how long the next window should be: half as much again as it takes to hold what is still wanted, if it is
// as full as the last one.
func widened(length time.Duration, found, want int) time.Duration {
	const longest = time.Duration(1 << 62)
	times := float64(maxWidening)
	if found > 0 {
		times = min(times, 1.5*float64(want)/float64(found))
	}
	if wider := times * float64(length); wider < float64(longest) {
		return max(time.Millisecond, time.Duration(wider))
	}
	return longest
}

// wanted returns those of the refs that are wanted, in order.
func (q search) wanted(refs []message.Ref) []message.Ref {
	if q.keep != nil {
		refs = slices.DeleteFunc(slices.Clone(refs), func(ref message.Ref) bool { return !q.keep(ref) })
	}
	slices.SortFunc(refs, func(x, y message.Ref) int {
		if q.order == message.NewestFirst {
			x, y = y, x
		}
		return x.ID.Compare(y.ID)
	})
	return refs
}

// refRecord is what a search reads of a message.
type refRecord struct {
	ID   bson.Binary    `bson:"_id"`
	From message.UserID `bson:"from"`
}

// read returns messages in a window, in no order, and whether that is all of them.
func (s *Messages) read(ctx context.Context, q search, w window) (refs []message.Ref, complete bool, err error) {
	sample := maxSample
	if q.limit < maxSample/4 {
		sample = max(minSample, 4*q.limit)
	}
	for _, filter := range q.filters {
		limit := int64(sample + 1 - len(refs))
		opts := options.Find().SetProjection(ascending(fieldID, fieldFrom)).SetHint(q.index).SetLimit(limit).SetBatchSize(int32(limit)) //nolint:gosec // at most maxSample
		records, err := allOf[refRecord](ctx, s.c, "search", w.filter(filter), opts)
		if err != nil {
			return nil, false, err
		}
		for _, r := range records {
			id, err := idOf(messagesName, r.ID)
			if err != nil {
				return nil, false, err
			}
			refs = append(refs, message.Ref{From: r.From, ID: id})
		}
		if len(refs) > sample {
			return refs, false, nil
		}
	}
	return refs, true, nil
}
