package mongostore

import (
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/message"
)

// A search finds the first messages, in the order of their ids, of all that match a filter.
//
// A server that sorts may have to read every match first. MongoDB does for thousands of ranges of an index, DocumentDB does for
// any query. So a search asks for the ids in a window of time, unsorted, and limits their number to a few times the wanted
// number. It sorts them here. If the window holds more, the search tries a shorter one and estimates its end from the ids it
// found. If the window holds too few, the search continues with the next window. So neither the server nor this process holds
// more than that limit. The result is exact even if clocks are wrong, because clocks only place the first window.
type search struct {
	// parts find the messages. A message may be in several.
	parts []searchPart
	// bounds is the range of ids to search.
	bounds window
	order  message.Order
	limit  int
	// first is the length of the first window; 0 is the whole range.
	first time.Duration
}

// searchPart is one query of a search, repeated for each window.
type searchPart struct {
	// filter matches messages by everything but their ids.
	filter bson.D
	// index is the index to use. A planner with little data about a collection may choose the index of ids instead, and compare
	// every message with thousands of authors.
	index string
	// keep reports whether a message is wanted, by its id and the fields; nil keeps all.
	keep   func(id message.ID, r *refRecord) bool
	fields []string
}

const (
	// recently is the length of a window that holds about one page for a user who follows many authors.
	recently = time.Hour
	// maxWidening is how many times longer than the last window the next may be.
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
	var known []message.Ref // some of the wanted messages in the rest, in order
	crowded := 0            // how many windows in a row held too many
	for len(found) < q.limit && !rest.empty() {
		refs, complete, err := s.read(ctx, q, next)
		if err != nil {
			return nil, err
		}
		refs = q.inOrder(refs)
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

// ahead returns a window of the given length at the end of the rest where the search continues. A search for the newest
// messages starts at the present and goes down. Its first window also holds messages with later ids, which other clocks made.
func (q search) ahead(rest window, length time.Duration, now message.ID) window {
	if q.order == message.NewestFirst {
		return window{greatest(rest.from, message.MinID(least(rest.to, now).Time().Add(-length))), rest.to}
	}
	if end := message.MinID(rest.from.Time().Add(length)); end.Less(least(rest.to, now)) {
		return window{rest.from, end}
	}
	return rest
}

// upTo returns the part of a window from the search position up to and including an id.
func (q search) upTo(w window, id message.ID) window {
	if q.order == message.NewestFirst {
		return window{id, w.to}
	}
	return window{w.from, id.Next()}
}

// beyond returns the remaining range after a window is done.
func (q search) beyond(rest, done window) window {
	if q.order == message.NewestFirst {
		return window{rest.from, done.from}
	}
	return window{done.to, rest.to}
}

// shorter returns a part of a window that holds too many messages. It estimates the part from some wanted messages of the
// window. Usually they are a fair sample: the part that holds just enough of them holds slightly more than enough messages. If
// they are not a fair sample, for example because the server returns the oldest first, that part may be nearly the whole
// window. So every other time shorter takes about half of the window.
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

// widened returns the length of the next window. It is 1.5 times the length that holds the missing number of messages, if the
// next window is as full as the last one.
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

// inOrder sorts refs, and drops those that are there twice.
func (q search) inOrder(refs []message.Ref) []message.Ref {
	slices.SortFunc(refs, func(x, y message.Ref) int {
		if q.order == message.NewestFirst {
			x, y = y, x
		}
		return x.ID.Compare(y.ID)
	})
	return slices.Compact(refs)
}

// refRecord is the part of a message that a search reads.
type refRecord struct {
	ID     bson.Binary     `bson:"_id"`
	From   message.UserID  `bson:"from"`
	Within []message.Topic `bson:"within"`
}

// read returns the wanted messages in a window, in no order, and whether they are all of them.
func (s *Messages) read(ctx context.Context, q search, w window) (refs []message.Ref, complete bool, err error) {
	sample := maxSample
	if q.limit < maxSample/4 {
		sample = max(minSample, 4*q.limit)
	}
	looks := 0
	for _, part := range q.parts {
		limit := int64(sample + 1 - looks)
		projection := append(ascending(fieldID, fieldFrom), ascending(part.fields...)...)
		opts := options.Find().SetProjection(projection).SetHint(part.index).SetLimit(limit).SetBatchSize(int32(limit))
		records, err := allOf[refRecord](ctx, s.c, "search", w.filter(part.filter), opts)
		if err != nil {
			return nil, false, err
		}
		for i := range records {
			id, err := idOf(messagesName, records[i].ID)
			if err != nil {
				return nil, false, err
			}
			if part.keep == nil || part.keep(id, &records[i]) {
				refs = append(refs, message.Ref{From: records[i].From, ID: id})
			}
		}
		if looks += len(records); looks > sample {
			return refs, false, nil
		}
	}
	return refs, true, nil
}
