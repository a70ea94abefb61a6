package bucket

import (
	"context"
	"errors"

	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/message"
)

var (
	// ErrNotFound says that an inbox holds no entry with that id.
	ErrNotFound = errors.New("no such entry in this inbox")
	// ErrContended says that other writers to the same inbox made the store refuse an append too often. The caller may try
	// again.
	ErrContended = errors.New("inbox is contended")
	// ErrTooLarge says that an entry is larger than MaxEntryBytes. Trying again does not help.
	ErrTooLarge = errors.New("entry is too large")
	// ErrNotAlone says that a push holds a tombstone and another entry. Trying again does not help.
	ErrNotAlone = errors.New("a tombstone is pushed alone")
)

// Push is one conditional append to one bucket.
//
// It applies if and only if the bucket exists or may be created by it, has Cap slots, the Decl, and room for all the entries, holds
// no entry or tombstone with any of their ids, and, for a guarded push, has a floor below all their ids.
// Bucket 0 may be created by any push, every other bucket only by one with Create set.
type Push struct {
	Owner    message.UserID
	Sequence uint32
	// Cap is the number of slots that the bucket must have, and gets if the push creates it. Zero stands for Capacity, and for a Base of
	// FormatBase.
	Cap int
	// Decl is the Decl that the bucket must have, and gets if the push creates it. A store without an Index ignores it.
	Decl int
	// Facets are those of the entries for all declarations up to Decl that the caller does not know to be deleted. The push adds them to those
	// of the bucket. A store without an Index ignores them. The slice is shared between pushes.
	Facets []attribute.Facet
	// Entries are 1 to Cap entries, ascending by id, each id once. A tombstone is the only entry of its push. The bucket
	// is afterwards as if the message had been pushed and then deleted, and so are the Deletions. A store may refuse a
	// tombstone because another push to the same bucket is applied at the same time.
	Entries []Entry
	// Guard also demands that the bucket's floor is below the least of the ids. A push with Create needs no Guard: it names the floor.
	Guard bool
	// Create allows the push to create the bucket, with Floor as its floor. The caller sets it only after it has seen the
	// previous bucket full, with Floor as its last.
	Create bool
	// Base is that of the bucket, if Create is set: what the previous bucket says.
	Base int64
	// Floor is the floor of the bucket, if Create is set.
	Floor message.ID
}

// Size returns Cap and Base, or those that a Cap of zero stands for. The Base counts only if the push creates the bucket.
func (p *Push) Size() (capacity int, base int64) {
	switch {
	case p.Cap == 0:
		return Capacity, FormatBase(p.Sequence)
	case p.Create:
		return p.Cap, p.Base
	default:
		return p.Cap, 0
	}
}

// Outcome is the result of a Push.
type Outcome struct {
	// Applied reports whether all the entries were appended, in their order. If Applied is false and Err is nil, the store
	// refused the push, or does not know whether it was applied. The Appender then looks before it continues.
	Applied bool
	// Err wraps ErrTooLarge or ErrNotAlone if this push can never succeed. Otherwise it is nil.
	Err error
	// Seen is the extent of the bucket at the moment when the store refused the push. A store that would have to read again
	// leaves it zero.
	Seen Extent
}

// Extent says how full a bucket is. The zero Extent stands for a bucket that does not exist.
type Extent struct {
	// Slots counts the taken slots.
	Slots int
	// Last, Cap, Base and Decl are those of the bucket: see Bucket.
	Last message.ID
	Cap  int
	Base int64
	Decl int
}

// Ref names a bucket of an owner: the lowest one in which Heads searches for the head, or whose tombstones Deletions returns.
type Ref struct {
	Owner    message.UserID
	Sequence uint32
}

// Span names buckets of an owner for Outlines: those from Low to High, both included.
type Span struct {
	Owner     message.UserID
	Low, High uint32
	// Late, unless it is zero, also names the buckets above High into which a message below Late came late: see Store.Overlapping.
	Late message.ID
}

// Emptied counts what was freed. If a reply of the store was lost, or two callers empty a bucket at the same time, some of it may count
// twice.
type Emptied struct {
	// Buckets counts the buckets that lost entries or became stubs, and Stubs those that became stubs or were removed.
	Buckets, Stubs int
	// Entries counts the entries that lost their contents. Tombstones do not count.
	Entries int
	// Bytes is how much less the store holds, before compression.
	Bytes int64
}

// Add adds o.
func (e *Emptied) Add(o Emptied) {
	e.Buckets += o.Buckets
	e.Stubs += o.Stubs
	e.Entries += o.Entries
	e.Bytes += o.Bytes
}

// Tombstone is the place of a deleted entry.
type Tombstone struct {
	Sequence uint32
	Slot     int
	// Position is that of the slot: see Bucket.Position.
	Position int64
	ID       message.ID
}

// ReadDeletions returns the deletions of one owner: see Store.Deletions.
func ReadDeletions(ctx context.Context, store Store, owner message.UserID, from uint32) (Deletions, error) {
	all, err := store.Deletions(ctx, []Ref{{Owner: owner, Sequence: from}})
	if err != nil {
		return Deletions{}, err
	}
	return all[0], nil
}

// Deletions are the tombstones of an inbox.
type Deletions struct {
	// Total counts all tombstones.
	Total int64
	// Recent are the tombstones in the buckets that the caller asked for, in no particular order.
	Recent []Tombstone
}

// Store holds buckets. All methods are safe for concurrent use. A read sees every write of every process that had returned before
// the read began. It sees each bucket as it is at one moment, but different buckets at different moments. That is why the
// Appender reads them in a fixed order.
type Store interface {
	// Push attempts each push on its own, in no particular order, and returns the outcomes in the order of pushes. Each push
	// is atomic. No two pushes may have the same owner. After an error any push may have been applied or not. A crash
	// before Persist has returned may lose an applied push, but only together with every write to any store of the same
	// database that began after Push had returned. The store keeps no reference to the entries.
	Push(ctx context.Context, pushes []Push) ([]Outcome, error)

	// Persist blocks until every push survives a crash that was applied before the call, by any caller. A store whose pushes
	// are durable when Push returns does nothing. A decorator must forward it: otherwise appends lose their durability.
	Persist(ctx context.Context) error

	// Heads returns, in the order of refs, the outline of each owner's bucket with the highest sequence at or
	// above the one given. Where there is none, the outline has no IDs.
	Heads(ctx context.Context, refs []Ref) ([]Outline, error)

	// Range returns the owner's buckets with sequences from low to high, both included, the highest first. It returns at most
	// limit buckets, the highest ones. Of the contents of each entry it returns the given field only: see Entry.Only. The caller owns the
	// buckets, but shares the entries: see Entry.
	//
	// A store may remove buckets instead of leaving stubs: see Empty. It removes the lowest ones only. One stub then stands for all of
	// them. The Sequence of this stub is the highest one that was removed, its Base and Floor are zero, its Cap is the number of all
	// their slots, and its Last is the floor of the lowest bucket that is left. Range returns this stub, as the last one, if low
	// is not above its Sequence, also if high is below it.
	Range(ctx context.Context, owner message.UserID, low, high uint32, limit int, field Field) ([]Bucket, error)

	// Newest returns the owner's buckets from low up, as Range does, and their deletions, as Deletions does. A page from the
	// head needs both, and a remote store answers both in one round trip.
	Newest(ctx context.Context, owner message.UserID, low uint32, limit int, from uint32) ([]Bucket, Deletions, error)

	// Overlapping returns the owner's buckets above the given sequence into which a message below id came late: it is
	// at or below the floor of its bucket. Entries that were blanked count as well. A store that does not know the floor when it pushes also returns buckets into which such a message came in
	// order. The buckets are in no particular order.
	Overlapping(ctx context.Context, owner message.UserID, above uint32, id message.ID) ([]Bucket, error)

	// Outlines returns, in the order of spans, the outlines of each owner's buckets, the highest first. It finds what Range and Overlapping
	// find, also the stub that stands for removed buckets, and reads no contents. It may return other buckets above High, too. No two
	// spans may have the same owner.
	Outlines(ctx context.Context, spans []Span) ([][]Outline, error)

	// Delete puts a tombstone in place of the entry with that id in that bucket. It is atomic, idempotent,
	// survives a crash once it has returned, and returns ErrNotFound if the bucket has no such id.
	Delete(ctx context.Context, owner message.UserID, sequence uint32, id message.ID) error

	// Blank puts a tombstone without an id in place of the entry in a slot, if the entry has the given id. Otherwise it returns
	// ErrNotFound and changes nothing. Deletions still returns the id. The audit uses it to remove an entry of which the
	// inbox holds another copy. It is atomic and survives a crash once it has returned.
	//
	// A zero id asks Blank to tombstone a slot whose entry was lost, so that counts skip it. Such a slot reads as the zero
	// Entry, or lies above the last entry of a bucket that is not the head.
	Blank(ctx context.Context, owner message.UserID, sequence uint32, slot int, id message.ID) error

	// Empty frees what messages that have expired take up in the buckets from low to high, both included. Every message of the owner up
	// to purged has expired.
	//
	//   - A bucket with all slots taken and a last at or below purged becomes a stub. It keeps its slots, bounds, Cap and Base, and the
	//     number of its tombstones. A store may instead remove such buckets, but only the lowest ones, never the head, and only if the
	//     floor of the bucket above is at or below purged, too. It then refuses every push onto a bucket that it has removed.
	//   - In every other bucket, each entry at or below purged loses its contents. It keeps its id and slot, and becomes Expired.
	//     Tombstones stay as they are.
	//
	// It is atomic for each bucket and idempotent, and any process may call it, in any order. A crash may lose what it did, but
	// then also every write that began after it had returned. The caller first raises the owner's purge point, durably: otherwise
	// a crash loses messages that have not expired. Purged may be any purge point that the owner ever had, however old. The
	// caller calls it only from format level 3 on, because older releases refuse what it leaves.
	Empty(ctx context.Context, owner message.UserID, low, high uint32, purged message.ID) (Emptied, error)

	// Deletions counts each owner's tombstones, but for those of stubs, and returns those in buckets from the given sequence up. The results
	// are in the order of refs. No two refs may have the same owner.
	Deletions(ctx context.Context, refs []Ref) ([]Deletions, error)
}

// Head is a hint for the head of an owner's inbox.
type Head struct {
	Owner message.UserID
	Hint  Hint
}

// Hints stores hints, so that later appends start near the head.
type Hints interface {
	// RaiseHeads raises each owner's hint if the given hint is ahead of it. A store may also keep the Cap of a hint to the same bucket, and
	// a store whose refusals tell the Cap need not keep it. RaiseHeads skips owners whose record is missing or damaged. It is atomic for
	// each owner and need not survive a crash.
	RaiseHeads(ctx context.Context, heads []Head) error
}
