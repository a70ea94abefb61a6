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
// The bucket must exist, or the push may create it. Any push may create bucket 0, and only one with Create another bucket.
// The push applies if the bucket has the Decl, and room for all entries, and holds no entry or tombstone with any of their ids.
// A guarded push also needs a floor below all their ids.
type Push struct {
	Owner    message.UserID
	Sequence uint32
	// Decl is the Decl that the bucket must have, and gets if the push creates it. A store without an Index ignores it.
	Decl int
	// Facets are those of the entries for all declarations up to Decl that the caller does not know to be deleted. The push adds them to those
	// of the bucket. A store without an Index ignores them. The slice is shared between pushes.
	Facets []attribute.Facet
	// Entries are as many as a bucket has slots, or fewer, ascending by id, each id once. A tombstone is the only entry of its push. The bucket
	// is afterwards as if the message had been pushed and then deleted, and so are the Deletions. A store may refuse a
	// tombstone because another push to the same bucket is applied at the same time.
	Entries []Entry
	// Guard also demands that the bucket's floor is below the least of the ids. A push with Create needs no Guard: it names the floor.
	Guard bool
	// Create allows the push to create the bucket, with Floor as its floor. The caller sets it only after it has seen the
	// previous bucket full, with Floor as its last.
	Create bool
	// Floor is the floor of the bucket, if Create is set.
	Floor message.ID
}

// Outcome is the result of a Push.
type Outcome struct {
	// Applied reports whether all the entries were appended, in their order. If Applied is false and Err is nil, the store
	// refused the push, or does not know whether it was applied. The Appender then looks before it continues.
	Applied bool
	// Err wraps ErrTooLarge or ErrNotAlone if this push can never succeed. Otherwise it is nil.
	Err error
	// Seen is the bucket at the moment when the store refused the push. Its Floor may be missing. A store that would have to read again
	// leaves Seen zero.
	Seen Outline
}

// Head names a bucket of an owner by a hint.
type Head struct {
	Owner message.UserID
	Hint  Hint
}

// Section names buckets of an owner: those from Low to High, both included.
type Section struct {
	Owner     message.UserID
	Low, High uint32
	// Limit, unless it is zero, is how many of these buckets are read at most: the highest ones.
	Limit int
	// Bytes, unless it is zero, ends the read: of these buckets, no more are read below the one with which the contents reach about so many bytes.
	Bytes int
	// Late, unless it is zero, also names the buckets above High into which a message below Late came late. Such a message is at or below the
	// floor of its bucket. Entries that were blanked count as well. A store that does not know the floor when it pushes also finds buckets
	// into which such a message came in order.
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
	// Position is that of the slot: see Size.Position.
	Position int64
	ID       message.ID
}

// ReadDeletions returns the deletions of one owner: see Store.Deletions.
func ReadDeletions(ctx context.Context, store Store, owner message.UserID, from uint32) (Deletions, error) {
	all, err := store.Deletions(ctx, []Head{{Owner: owner, Hint: Hint{Sequence: from}}})
	if err != nil {
		return Deletions{}, err
	}
	return all[0], nil
}

// ReadSection returns the buckets of one section: see Store.Range.
func ReadSection(ctx context.Context, store Store, section Section, field Field) ([]Bucket, error) {
	all, err := store.Range(ctx, []Section{section}, field)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// Deletions are the tombstones of an inbox.
type Deletions struct {
	// Total counts all tombstones but those of stubs. Ever also counts those, and so it only rises.
	Total, Ever int64
	// Recent are the tombstones in the buckets that the caller asked for, in no particular order.
	Recent []Tombstone
}

// Store holds buckets. All methods are safe for concurrent use. A read sees every write of every process that had returned before
// the read began. It sees each bucket as it is at one moment, but different buckets at different moments. That is why the
// Appender reads them in a fixed order.
type Store interface {
	// Size returns how many slots each bucket has.
	Size() Size

	// Push attempts each push on its own, in no particular order, and returns the outcomes in the order of pushes. Each push is atomic. No
	// two pushes may have the same owner. After an error any push may have been applied or not. A crash before Persist has returned may
	// lose an applied push. It then also loses every write to the same database that began after Push had returned. The store keeps no
	// reference to the entries.
	Push(ctx context.Context, pushes []Push) ([]Outcome, error)

	// Persist blocks until every push survives a crash that was applied before the call, by any caller. A store whose pushes
	// are durable when Push returns does nothing. A decorator must forward it: otherwise appends lose their durability.
	Persist(ctx context.Context) error

	// Heads returns, in the order of hints, each owner's bucket with the highest sequence at or above that of the hint. Its entries have no
	// contents. Where there is none, the bucket has no slots.
	Heads(ctx context.Context, hints []Head) ([]Bucket, error)

	// Range returns, in the order of sections, the buckets of each, the highest first. Of the contents of each entry it returns the given field
	// only: see Entry.Only. No two sections may have the same owner. The caller owns the buckets, but shares the entries: see Entry.
	//
	// A store may remove buckets instead of leaving stubs: see Empty. It removes the lowest ones only. One stub then stands for all of
	// them. The Sequence of this stub is the highest one that was removed, and its Floor is zero. Its Last is the floor of the lowest
	// bucket that is left. Range returns this stub, as the last one, if Low is not above its Sequence, also if High is below it.
	Range(ctx context.Context, sections []Section, field Field) ([][]Bucket, error)

	// Newest returns the owner's buckets from low up, at most limit, as Range does, and their deletions, as Deletions does. A page from the
	// head needs both, and a remote store answers both in one round trip. It ends the read at ReadBytes. It reads the deletions first, or both as of
	// one moment: otherwise a page could show a message whose deletion it knows, and its tag would promise that nothing has changed.
	Newest(ctx context.Context, owner message.UserID, low uint32, limit int, from uint32) ([]Bucket, Deletions, error)

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
	//   - A bucket with all slots taken and a last at or below purged becomes a stub. It keeps its slots and bounds, and the
	//     number of its tombstones. A store may instead remove such buckets, but only the lowest ones, and never the head. The floor of
	//     the bucket above must be at or below purged, too. It then refuses every push onto a bucket that it has removed.
	//   - In every other bucket, each entry at or below purged loses its contents. It keeps its id and slot, and becomes Expired.
	//     Tombstones stay as they are.
	//
	// It is atomic for each bucket and idempotent, and any process may call it, in any order. A crash may lose what it did, but
	// then also every write that began after it had returned. The caller first raises the owner's purge point, durably: otherwise
	// a crash loses messages that have not expired. Purged may be any purge point that the owner ever had, however old.
	Empty(ctx context.Context, owner message.UserID, low, high uint32, purged message.ID) (Emptied, error)

	// Deletions counts each owner's tombstones, and returns those in buckets from the sequence of its hint up. The results
	// are in the order of from. No two of these may have the same owner.
	Deletions(ctx context.Context, from []Head) ([]Deletions, error)
}

// Hints stores hints, so that later appends start near the head.
type Hints interface {
	// RaiseHeads raises each owner's hint if the given hint is ahead of it. A store with an Index also keeps the Decl of a hint to the same
	// bucket. RaiseHeads skips owners whose record is missing or damaged. It is atomic for
	// each owner and need not survive a crash.
	RaiseHeads(ctx context.Context, heads []Head) error
}
