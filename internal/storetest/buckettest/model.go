package buckettest

import (
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

	mu      sync.Mutex
	inboxes map[message.UserID]map[uint32]*bucket.Bucket
	blanked map[place]message.ID             // the ids that entries had before they were blanked
	late    map[place]message.ID             // the least id of each bucket that was at or below the floor when it was pushed; slot is 0
	removed map[message.UserID]bucket.Bucket // the stub that stands for the buckets that were removed
	facets  map[place][]attribute.Facet      // those of each bucket; slot is 0
}

// place is a slot of an owner's inbox.
type place struct {
	owner    message.UserID
	sequence uint32
	slot     int
}

// NewModel returns an empty Model.
func NewModel() *Model {
	return &Model{
		inboxes: map[message.UserID]map[uint32]*bucket.Bucket{}, blanked: map[place]message.ID{}, late: map[place]message.ID{},
		removed: map[message.UserID]bucket.Bucket{}, facets: map[place][]attribute.Facet{},
	}
}

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
			outcomes[i].Seen = bucket.Extent{Slots: b.Slots(), Last: b.Last, Cap: b.Cap, Base: b.Base, Decl: b.Decl}
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
	capacity, base := p.Size()
	if !exists {
		if p.Sequence > 0 && !p.Create || m.isRemoved(p.Owner, p.Sequence) {
			return false
		}
		b = &bucket.Bucket{Owner: p.Owner, Sequence: p.Sequence, Cap: capacity, Base: base, Decl: p.Decl}
		if p.Create {
			b.Floor, b.Last = p.Floor, p.Floor
		}
	}
	if b.Decl != p.Decl || p.Guard && !b.Floor.Less(p.Entries[0].ID) || b.Cap != capacity || b.Slots()+len(p.Entries) > b.Cap {
		return false
	}
	for _, e := range p.Entries {
		if slices.Contains(b.Outline().IDs, e.ID) {
			return false
		}
	}
	for _, e := range p.Entries {
		if e.Deleted {
			e = bucket.Entry{ID: e.ID, Deleted: true}
		}
		e.Attrs = slices.Clone(e.Attrs)
		b.Entries = append(b.Entries, e)
		if b.Last.Less(e.ID) {
			b.Last = e.ID
		}
		m.markLate(b, e.ID)
	}
	if m.inboxes[p.Owner] == nil {
		m.inboxes[p.Owner] = map[uint32]*bucket.Bucket{}
	}
	m.inboxes[p.Owner][p.Sequence] = b
	at := place{owner: p.Owner, sequence: p.Sequence}
	m.facets[at] = append(m.facets[at], p.Facets...)
	return true
}

func (m *Model) markLate(b *bucket.Bucket, id message.ID) {
	at := place{owner: b.Owner, sequence: b.Sequence}
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
	return m.blanked[place{b.Owner, b.Sequence, slot}]
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
func (m *Model) Heads(_ context.Context, refs []bucket.Ref) ([]bucket.Outline, error) {
	heads := make([]bucket.Outline, len(refs))
	for i, ref := range refs {
		if buckets := m.between(ref.Owner, ref.Sequence, math.MaxUint32); len(buckets) > 0 {
			heads[i] = buckets[0].Outline()
		}
	}
	return heads, nil
}

// Range implements bucket.Store.
func (m *Model) Range(_ context.Context, owner message.UserID, low, high uint32, limit int, field bucket.Field) ([]bucket.Bucket, error) {
	buckets := m.between(owner, low, high)
	buckets = buckets[:min(limit, len(buckets))]
	for _, b := range buckets {
		for i, e := range b.Entries {
			b.Entries[i] = e.Only(field)
		}
	}
	return buckets, nil
}

// Overlapping implements bucket.Store.
func (m *Model) Overlapping(_ context.Context, owner message.UserID, above uint32, id message.ID) ([]bucket.Bucket, error) {
	if above == math.MaxUint32 {
		return nil, nil
	}
	buckets := m.between(owner, above+1, math.MaxUint32)
	buckets = slices.DeleteFunc(buckets, func(b bucket.Bucket) bool { return b.Stub })
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(buckets, func(b bucket.Bucket) bool {
		least, late := m.late[place{owner: owner, sequence: b.Sequence}]
		return !late || !least.Less(id)
	}), nil
}

// Outlines implements bucket.Store.
func (m *Model) Outlines(ctx context.Context, spans []bucket.Span) ([][]bucket.Outline, error) {
	outlines := make([][]bucket.Outline, len(spans))
	for i, span := range spans {
		buckets := m.between(span.Owner, span.Low, span.High)
		if !span.Late.IsZero() {
			late, _ := m.Overlapping(ctx, span.Owner, span.High, span.Late)
			buckets = append(late, buckets...)
		}
		for _, b := range buckets {
			outlines[i] = append(outlines[i], b.Outline())
		}
	}
	return outlines, nil
}

// Delete implements bucket.Store.
func (m *Model) Delete(_ context.Context, owner message.UserID, sequence uint32, id message.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, exists := m.inboxes[owner][sequence]
	if !exists {
		return bucket.ErrNotFound
	}
	slot := slices.Index(b.Outline().IDs, id)
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
	m.blanked[place{owner, sequence, slot}] = id
	return nil
}

// Newest implements bucket.Store.
func (m *Model) Newest(
	ctx context.Context, owner message.UserID, low uint32, limit int, from uint32,
) (buckets []bucket.Bucket, d bucket.Deletions, err error) {
	if buckets, err = m.Range(ctx, owner, low, math.MaxUint32, limit, bucket.AllFields); err != nil {
		return nil, d, err
	}
	d, err = bucket.ReadDeletions(ctx, m, owner, from)
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
				d.Recent = append(d.Recent, bucket.Tombstone{Sequence: b.Sequence, Slot: slot, Position: b.Position(slot), ID: m.id(b, slot)})
			}
		}
	}
	return d
}

// Deletions implements bucket.Store.
func (m *Model) Deletions(_ context.Context, refs []bucket.Ref) ([]bucket.Deletions, error) {
	deletions := make([]bucket.Deletions, len(refs))
	for i, ref := range refs {
		deletions[i] = m.deletions(ref.Owner, ref.Sequence)
	}
	return deletions, nil
}

// Candidates implements bucket.Index.
func (m *Model) Candidates(
	_ context.Context, owner message.UserID, ranges []attribute.FacetRange, low, high uint32, limit int,
) ([]bucket.Bucket, error) {
	buckets := slices.DeleteFunc(m.between(owner, low, high), func(b bucket.Bucket) bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return b.Stub || !slices.ContainsFunc(m.facets[place{owner: owner, sequence: b.Sequence}], func(f attribute.Facet) bool {
			return slices.ContainsFunc(ranges, func(r attribute.FacetRange) bool { return r.Holds(f) })
		})
	})
	return buckets[:min(limit, len(buckets))], nil
}

// Decl implements bucket.Index.
func (m *Model) Decl(_ context.Context, owner message.UserID, sequence uint32) (int, bool, error) {
	buckets := m.between(owner, sequence, sequence)
	if len(buckets) == 0 {
		return 0, false, nil
	}
	return buckets[0].Decl, true, nil
}
