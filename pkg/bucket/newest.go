package bucket

import (
	"context"
	"fmt"
	"math"

	"github.com/fanmail/fanmail/pkg/message"
)

// NewestRequest asks for the newest messages of an inbox, with one field of their contents.
type NewestRequest struct {
	Owner message.UserID
	// Hint is a hint for the head. It may be behind the head.
	Hint Hint
	// Purged is the owner's purge point.
	Purged message.ID
	// Field is the field to read.
	Field Field
	// Limit is the greatest number of messages.
	Limit int
	// Absent are the stretches whose messages may be missing in the buckets, in no particular order.
	Absent []Stretch
	// Keep says which messages count; nil says all.
	Keep func(Found) bool
	// Buckets, Messages and OnRead are those of a Filter.
	Buckets  int
	Messages int
	OnRead   func(ctx context.Context, s Stretch, limit int) (entries []Entry, left Stretch, read int, err error)
}

// Newest are the newest messages of an inbox.
type Newest struct {
	// Found are the messages, the newest first. Deleted ones are not among them.
	Found []Found
	// Whole reports whether these are all messages of the inbox. It is false if ReadNewest has not looked at the rest.
	Whole bool
	// Buckets counts the buckets that were read, and Messages the messages that OnRead has read.
	Buckets  int
	Messages int
}

// ReadNewest reads the newest messages of an inbox by their ids, whatever their order in the buckets. If the request's numbers of buckets or
// messages do not suffice, it returns fewer than Limit, but none is missing between those that it returns.
//
// It usually takes one call of the store, because it looks for no tombstones or expired messages below those that it returns.
func ReadNewest(ctx context.Context, store Store, req NewestRequest) (Newest, error) {
	filter := &Filter{
		Keep:    func(f Found) bool { return req.Keep == nil || req.Keep(f) },
		Buckets: req.Buckets, Messages: req.Messages,
		OnRead: func(ctx context.Context, s Stretch, limit int) ([]Entry, Stretch, int, error) {
			entries, left, read, err := req.OnRead(ctx, s, limit)
			for i, e := range entries {
				entries[i] = e.Only(req.Field)
			}
			return entries, left, read, err
		},
	}
	w := newWalk(store, PageRequest{
		Owner: req.Owner, Hint: req.Hint, Basis: Basis{Purged: req.Purged}, Filter: filter, Absent: req.Absent,
		Limit: req.Limit + 1, // one more tells whether these are all
	}, newestFirst)
	w.field = req.Field
	r := newFiltering(w)
	page, err := Page{}, r.beginWithout(ctx)
	if err == nil {
		page, err = r.read(ctx)
	}
	if err != nil {
		return Newest{}, fmt.Errorf("newest messages of %s: %w", req.Owner, err)
	}
	return Newest{
		Found: page.Entries[:min(req.Limit, len(page.Entries))], Whole: page.Next == nil && len(page.Entries) <= req.Limit,
		Buckets: w.buckets(), Messages: page.Messages,
	}, nil
}

// beginWithout reads the first buckets from the head down, without the deletions.
func (r *filtering) beginWithout(ctx context.Context) error {
	n := r.first()
	section := Section{Owner: r.Owner, Low: r.Hint.Sequence - min(r.Hint.Sequence, n-1), High: math.MaxUint32, Limit: int(n), Bytes: ReadBytes}
	buckets, err := ReadSection(ctx, r.store, section, r.field)
	if err != nil {
		return err
	}
	if len(buckets) > 0 {
		r.head = buckets[0]
	}
	return r.add(buckets)
}
