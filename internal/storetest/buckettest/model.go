package buckettest

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"

	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// Model is a bucket.Store in memory that follows the contract in the simplest way. It is the executable specification. NewModel
// creates one; the zero value cannot be used.
type Model struct {
	// Silent makes Push leave out Outcome.Seen, like a store that would have to read again to know it.
	Silent bool
	// Removes makes Empty remove buckets, and not leave stubs.
	Removes bool

	size    bucket.Size
	mu      sync.Mutex
	inboxes map[message.UserID]map[uint32]*bucket.Bucket
	blanked map[slotOf]message.ID            // the ids that entries had before they were blanked
	late    map[slotOf]message.ID            // the least id of each bucket that was at or below the floor when it was pushed; slot is 0
	removed map[message.UserID]bucket.Bucket // the stub that stands for the buckets that were removed
	facets  map[slotOf][]attribute.Facet     // those of each bucket; slot is 0
	gone    map[message.UserID]int64         // how many tombstones were in buckets that were emptied
}

// slotOf names a slot of an owner's inbox.
type slotOf struct {
	owner    message.UserID
	sequence uint32
	slot     int
}

// NewModel returns an empty Model with buckets of a size.
func NewModel(size bucket.Size) *Model {
	return &Model{
		size: size, inboxes: map[message.UserID]map[uint32]*bucket.Bucket{}, blanked: map[slotOf]message.ID{}, late: map[slotOf]message.ID{},
		removed: map[message.UserID]bucket.Bucket{}, facets: map[slotOf][]attribute.Facet{}, gone: map[message.UserID]int64{},
	}
}

// Size implements bucket.Store.
func (m *Model) Size() bucket.Size { return m.size }

// Push implements bucket.Store.
func (m *Model) Push(_ context.Context, pushes []bucket.Push) ([]bucket.Outcome, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	outcomes := make([]bucket.Outcome, len(pushes))
	for i, p := range pushes {
		if slices.ContainsFunc(p.Entries, tooLarge) {
			outcomes[i].Err = bucket.ErrTooLarge
			continue
		}
		if len(p.Entries) > 1 && slices.ContainsFunc(p.Entries, func(e bucket.Entry) bool { return e.Deleted }) {
			outcomes[i].Err = bucket.ErrNotAlone
			continue
		}
		outcomes[i].Applied = m.push(p)
		if b, exists := m.inboxes[p.Owner][p.Sequence]; exists && !outcomes[i].Applied && !m.Silent {
			outcomes[i].Seen = b.Outline
		}
	}
	return outcomes, nil
}

// tooLarge reports whether a store must refuse an entry because of its size. The Model has no encoding, so it counts only the
// contents.
func tooLarge(e bucket.Entry) bool {
	return len(e.From)+len(e.Body)+len(e.ContentType)+len(e.Attrs) > bucket.MaxEntryBytes
}

func (m *Model) push(p bucket.Push) bool {
	b, exists := m.inboxes[p.Owner][p.Sequence]
	if !exists {
		if p.Sequence > 0 && !p.Create || m.isRemoved(p.Owner, p.Sequence) {
			return false
		}
		b = &bucket.Bucket{Owner: p.Owner, Outline: bucket.Outline{Sequence: p.Sequence, Decl: p.Decl}}
		if p.Create {
			b.Floor, b.Last = p.Floor, p.Floor
		}
	}
	if b.Decl != p.Decl || p.Guard && !b.Floor.Less(p.Entries[0].ID) || b.Slots+len(p.Entries) > int(m.size) {
		return false
	}
	for _, e := range p.Entries {
		if slotWith(b, e.ID) >= 0 {
			return false
		}
	}
	for _, e := range p.Entries {
		if e.Deleted {
			e = bucket.Entry{ID: e.ID, Deleted: true}
		}
		e.Attrs = slices.Clone(e.Attrs)
		b.Entries = append(b.Entries, e)
		b.Slots++
		if b.Last.Less(e.ID) {
			b.Last = e.ID
		}
		m.markLate(b, e.ID)
	}
	if m.inboxes[p.Owner] == nil {
		m.inboxes[p.Owner] = map[uint32]*bucket.Bucket{}
	}
	m.inboxes[p.Owner][p.Sequence] = b
	at := slotOf{owner: p.Owner, sequence: p.Sequence}
	m.facets[at] = append(m.facets[at], p.Facets...)
	return true
}

// slotWith returns the slot of the entry with an id, or -1.
func slotWith(b *bucket.Bucket, id message.ID) int {
	return slices.IndexFunc(b.Entries, func(e bucket.Entry) bool { return e.ID == id })
}

func (m *Model) markLate(b *bucket.Bucket, id message.ID) {
	at := slotOf{owner: b.Owner, sequence: b.Sequence}
	if least, late := m.late[at]; !b.Floor.Less(id) && (!late || id.Less(least)) {
		m.late[at] = id
	}
}

// id returns the id that the entry in a slot has, or had before it was blanked.
func (m *Model) id(b bucket.Bucket, slot int) message.ID {
	if id := b.Entries[slot].ID; !id.IsZero() {
		return id
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.blanked[slotOf{b.Owner, b.Sequence, slot}]
}

// between returns copies of an owner's buckets from low to high, the highest first.
func (m *Model) between(owner message.UserID, low, high uint32) []bucket.Bucket {
	m.mu.Lock()
	defer m.mu.Unlock()
	var buckets []bucket.Bucket
	if m.isRemoved(owner, low) {
		buckets = append(buckets, m.removed[owner])
	}
	for sequence, b := range m.inboxes[owner] {
		if sequence >= low && sequence <= high {
			clone := *b
			clone.Entries = slices.Clone(b.Entries)
			buckets = append(buckets, clone)
		}
	}
	slices.SortFunc(buckets, func(x, y bucket.Bucket) int { return int(y.Sequence) - int(x.Sequence) })
	return buckets
}

// Persist implements bucket.Store. A Model loses nothing, so Persist does nothing.
func (*Model) Persist(context.Context) error { return nil }

// Heads implements bucket.Store.
func (m *Model) Heads(_ context.Context, hints []bucket.Head) ([]bucket.Bucket, error) {
	heads := make([]bucket.Bucket, len(hints))
	for i, h := range hints {
		if buckets := m.between(h.Owner, h.Hint.Sequence, math.MaxUint32); len(buckets) > 0 {
			heads[i] = without(buckets[0], bucket.NoFields)
		}
	}
	return heads, nil
}

// Range implements bucket.Store.
func (m *Model) Range(_ context.Context, sections []bucket.Section, field bucket.Field) ([][]bucket.Bucket, error) {
	all := make([][]bucket.Bucket, len(sections))
	for i, section := range sections {
		if !section.Late.IsZero() && section.High < math.MaxUint32 {
			all[i] = m.lateIn(section)
		}
		if section.Low <= section.High {
			buckets := m.between(section.Owner, section.Low, section.High)
			buckets = buckets[:min(cmp.Or(section.Limit, len(buckets)), len(buckets))]
			for k, bytes := 0, 0; k < len(buckets); k++ {
				if bytes += without(buckets[k], field).Bytes(); section.Bytes > 0 && bytes >= section.Bytes {
					buckets = buckets[:k+1]
				}
			}
			all[i] = append(all[i], buckets...)
		}
		for k, b := range all[i] {
			all[i][k] = without(b, field)
		}
	}
	return all, nil
}

func (m *Model) lateIn(section bucket.Section) []bucket.Bucket {
	buckets := m.between(section.Owner, section.High+1, math.MaxUint32)
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(buckets, func(b bucket.Bucket) bool {
		least, late := m.late[slotOf{owner: section.Owner, sequence: b.Sequence}]
		return b.Stub || !late || !least.Less(section.Late)
	})
}

// Delete implements bucket.Store.
func (m *Model) Delete(_ context.Context, owner message.UserID, sequence uint32, id message.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, exists := m.inboxes[owner][sequence]
	if !exists {
		return bucket.ErrNotFound
	}
	slot := slotWith(b, id)
	if slot < 0 {
		return bucket.ErrNotFound
	}
	b.Entries[slot] = bucket.Entry{ID: id, Deleted: true}
	return nil
}

// Blank implements bucket.Store.
func (m *Model) Blank(_ context.Context, owner message.UserID, sequence uint32, slot int, id message.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, exists := m.inboxes[owner][sequence]
	if !exists || slot < 0 || slot >= len(b.Entries) || id.IsZero() || b.Entries[slot].ID != id {
		return bucket.ErrNotFound
	}
	b.Entries[slot] = bucket.Entry{Deleted: true}
	m.blanked[slotOf{owner, sequence, slot}] = id
	return nil
}

// Newest implements bucket.Store.
func (m *Model) Newest(
	ctx context.Context, owner message.UserID, low uint32, limit int, from uint32,
) (buckets []bucket.Bucket, d bucket.Deletions, err error) {
	d, err = bucket.ReadDeletions(ctx, m, owner, from)
	if limit > 0 {
		buckets, _ = bucket.ReadSection(ctx, m, bucket.Section{Owner: owner, Low: low, High: math.MaxUint32, Limit: limit, Bytes: bucket.ReadBytes}, bucket.AllFields)
	}
	return buckets, d, err
}

func (m *Model) deletions(owner message.UserID, from uint32) (d bucket.Deletions) {
	for _, b := range m.between(owner, 0, math.MaxUint32) {
		for slot, e := range b.Entries {
			if !e.Deleted {
				continue
			}
			d.Total++
			if b.Sequence >= from {
				d.Recent = append(d.Recent, bucket.Tombstone{Sequence: b.Sequence, Slot: slot, Position: m.size.Position(b.Sequence, slot), ID: m.id(b, slot)})
			}
		}
	}
	d.Ever = d.Total + m.gone[owner]
	return d
}

// Deletions implements bucket.Store.
func (m *Model) Deletions(_ context.Context, from []bucket.Head) ([]bucket.Deletions, error) {
	deletions := make([]bucket.Deletions, len(from))
	for i, f := range from {
		deletions[i] = m.deletions(f.Owner, f.Hint.Sequence)
	}
	return deletions, nil
}

// WithFacets implements bucket.Index.
func (m *Model) WithFacets(
	_ context.Context, owner message.UserID, ranges []attribute.FacetRange, low, high uint32, limit int,
) ([]bucket.Bucket, error) {
	buckets := slices.DeleteFunc(m.between(owner, low, high), func(b bucket.Bucket) bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return b.Stub || !slices.ContainsFunc(m.facets[slotOf{owner: owner, sequence: b.Sequence}], func(f attribute.Facet) bool {
			return slices.ContainsFunc(ranges, func(r attribute.FacetRange) bool { return r.Holds(f) })
		})
	})
	return buckets[:min(limit, len(buckets))], nil
}
