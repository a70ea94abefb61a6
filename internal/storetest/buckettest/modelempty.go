package buckettest

import (
	"context"
	"maps"
	"slices"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// Empty implements bucket.Store.
func (m *Model) Empty(_ context.Context, owner message.UserID, low, high uint32, purged message.ID) (freed bucket.Emptied, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	in := m.inboxes[owner]
	for _, sequence := range slices.Sorted(maps.Keys(in)) {
		b := in[sequence]
		switch {
		case sequence < low || sequence > high || b.Stub:
		case b.Slots == int(m.size) && !purged.Less(b.Last) && (!m.Removes || m.removable(b, purged)):
			freed.Add(m.emptyWhole(b))
		default:
			freed.Add(emptyPart(b, purged))
		}
	}
	return freed, nil
}

// isRemoved reports whether a bucket was removed.
func (m *Model) isRemoved(owner message.UserID, sequence uint32) bool {
	stub, some := m.removed[owner]
	return some && sequence <= stub.Sequence
}

// removable reports whether a bucket is the lowest one, and the floor of the one above is at or below purged.
func (m *Model) removable(b *bucket.Bucket, purged message.ID) bool {
	lowest := uint32(0)
	if stub, some := m.removed[b.Owner]; some {
		lowest = stub.Sequence + 1
	}
	above, some := m.inboxes[b.Owner][b.Sequence+1]
	return b.Sequence == lowest && some && !purged.Less(above.Floor)
}

func (m *Model) emptyWhole(b *bucket.Bucket) bucket.Emptied {
	freed := bucket.Emptied{Buckets: 1, Stubs: 1}
	for slot, e := range b.Entries {
		if !e.Deleted && !e.Expired {
			freed.Entries++
			freed.Bytes += sizeOf(e)
		}
		if e.Deleted {
			m.gone[b.Owner]++
		}
		delete(m.blanked, slotOf{b.Owner, b.Sequence, slot})
	}
	delete(m.late, slotOf{owner: b.Owner, sequence: b.Sequence})
	delete(m.facets, slotOf{owner: b.Owner, sequence: b.Sequence})
	if m.Removes {
		above := m.inboxes[b.Owner][b.Sequence+1]
		gone := bucket.Outline{Sequence: b.Sequence, Slots: b.Slots, Last: above.Floor, Stub: true}
		m.removed[b.Owner] = bucket.Bucket{Owner: b.Owner, Outline: gone}
		delete(m.inboxes[b.Owner], b.Sequence)
		return freed
	}
	b.Entries, b.Stub, b.Purged = nil, true, b.Last
	return freed
}

// emptyPart empties the entries up to purged.
func emptyPart(b *bucket.Bucket, purged message.ID) (freed bucket.Emptied) {
	for slot, e := range b.Entries {
		if e.Deleted || e.Expired || e.ID.IsZero() || purged.Less(e.ID) {
			continue
		}
		b.Entries[slot] = bucket.Entry{ID: e.ID, Expired: true}
		if b.Purged.Less(e.ID) {
			b.Purged = e.ID
		}
		freed.Buckets = 1
		freed.Entries++
		freed.Bytes += sizeOf(e)
	}
	return freed
}

// sizeOf returns the length of an entry's contents. The Model has no encoding.
func sizeOf(e bucket.Entry) int64 {
	return int64(len(e.From) + len(e.Body) + len(e.ContentType) + len(e.Attrs))
}
