package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/verdict"
)

// held describes a slot of an inbox. It is small, because a look keeps all slots in memory.
type held struct {
	id message.ID
	// says is a hash of the entry's content. Two different entries have the same hash once in 2^64.
	says     uint64
	sequence uint32
	slot     uint16
	deleted  bool // or emptied, because it has expired
	// known reports whether the look has found the message of the slot.
	known bool
}

func (h held) at() Place { return Place{Sequence: h.sequence, Slot: int(h.slot)} }

// contents are the slots of an inbox, by id and then by place.
type contents []held

// of returns the slots of a message: usually one or none.
func (c contents) of(id message.ID) contents {
	first, _ := slices.BinarySearchFunc(c, id, func(h held, id message.ID) int { return h.id.Compare(id) })
	end := first
	for end < len(c) && c[end].id == id {
		end++
	}
	return c[first:end]
}

// newest returns the greatest id in the inbox.
func (c contents) newest() message.ID {
	if len(c) == 0 {
		return message.ID{}
	}
	return c[len(c)-1].id
}

// address returns whom an entry says that its message is for.
func address(e bucket.Entry) string {
	return fmt.Sprintf("%q %d %q %q", e.To, e.ToCount, e.Audience, e.Topics)
}

// says returns a hash of an entry's content.
func says(e bucket.Entry) uint64 {
	h := xxhash.New()
	for _, part := range []string{string(e.From), e.Body, e.ContentType, string(e.Attrs), address(e)} {
		_, _ = fmt.Fprintf(h, "%d:", len(part)) // a hash takes everything
		_, _ = h.WriteString(part)
	}
	return h.Sum64()
}

// readInbox reads the inbox, bucket by bucket from the head down, and checks the invariants of the buckets.
func (l *look) readInbox(ctx context.Context) error {
	var above *bucket.Bucket
	hinted, err := l.eachBucket(ctx, l.user, l.state.Head.Sequence, func(b *bucket.Bucket) bool {
		l.checkBucket(above, b)
		for slot, e := range b.Entries {
			switch {
			case !e.ID.IsZero():
				l.holds = append(l.holds, held{
					id: e.ID, says: says(e), sequence: b.Sequence, slot: uint16(slot), deleted: e.Deleted || e.Expired,
				})
			case !e.Deleted:
				l.lostSlot(b.Sequence, slot)
			}
		}
		above = b
		return true
	})
	if err != nil {
		return fmt.Errorf("inbox of %s: %w", l.user, err)
	}
	if hint := l.state.Head.Sequence; !hinted && hint > 0 {
		l.outOfOrder(Finding{}, "the hint says that the head is bucket %d or a later one, and there is none", hint)
	}
	if above != nil && !lowest(above) {
		l.find(Finding{Kind: verdict.Damaged}, "the buckets below bucket %d are missing", above.Sequence)
	}
	slices.SortFunc(l.holds, func(x, y held) int {
		return cmp.Or(x.id.Compare(y.id), cmp.Compare(x.sequence, y.sequence), cmp.Compare(x.slot, y.slot))
	})
	for _, h := range l.holds { // by now it is known what has expired
		if !h.deleted && l.expired.Less(h.id) {
			l.entries++
		}
	}
	return nil
}

// checkBucket checks the slots of a bucket, and keeps its bounds. above is nil if b is the head.
func (l *look) checkBucket(above, b *bucket.Bucket) {
	x := extent{sequence: b.Sequence, floor: b.Floor, last: b.Last, whole: true, stub: b.Stub}
	for _, e := range b.Entries {
		x.greatest = message.Later(x.greatest, e.ID)
		x.whole = x.whole && !e.ID.IsZero()
	}
	if l.expired = message.Later(l.expired, b.Purged); b.Stub {
		l.expired, x.whole = message.Later(l.expired, b.Last), false
	}
	l.extents = append(l.extents, x)
	switch size := int(l.stores.Buckets.Size()); {
	case b.Slots > size:
		l.outOfOrder(Finding{}, "bucket %d has %d slots, and room for %d", b.Sequence, b.Slots, size)
	case above != nil:
		for slot := b.Slots; slot < size; slot++ {
			l.lostSlot(b.Sequence, slot)
		}
	}
	if above != nil && above.Sequence > b.Sequence+1 {
		l.find(Finding{Kind: verdict.Damaged}, "the buckets between %d and %d are missing", b.Sequence, above.Sequence)
	}
}

// lostSlot finds a slot without a record below slots with records. Slots are filled in order, so its record was lost.
func (l *look) lostSlot(sequence uint32, slot int) {
	l.outOfOrder(Finding{At: Place{sequence, slot}, Placed: true, empty: true}, "the slot has lost its record, and is counted all the same")
}

func (l *look) outOfOrder(f Finding, format string, args ...any) {
	f.Kind = verdict.OutOfOrder
	l.find(f, format, args...)
}

// findDoubles finds messages that are in the inbox more than once. A tombstone is the one to stay, for the owner has
// deleted the message; otherwise the earliest is.
func (l *look) findDoubles() {
	for rest := l.holds; len(rest) > 0; {
		copies := rest.of(rest[0].id)
		rest = rest[len(copies):]
		if len(copies) < 2 {
			continue
		}
		stays := max(0, slices.IndexFunc(copies, func(h held) bool { return h.deleted }))
		for i, h := range copies {
			if i != stays {
				l.find(Finding{Kind: verdict.DoubleEntry, Message: h.id, At: h.at(), Placed: true}, "the message is in %s as well", copies[stays].at())
			}
		}
	}
}

// differences returns the names of the fields in which an entry differs from its message.
func differences(entry, want bucket.Entry) []string {
	var fields []string
	for _, field := range []struct {
		name      string
		got, want string
	}{
		{"from", string(entry.From), string(want.From)},
		{"body", entry.Body, want.Body},
		{"content_type", entry.ContentType, want.ContentType},
		{"attrs", string(entry.Attrs), string(want.Attrs)},
		{"address", address(entry), address(want)},
	} {
		if field.got != field.want {
			fields = append(fields, field.name)
		}
	}
	return fields
}
