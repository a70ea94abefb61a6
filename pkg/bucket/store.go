package bucket

import (
	"context"
	"errors"

	"github.com/fanmail/fanmail/pkg/message"
)

var (
	// ErrNotFound says that an inbox holds no entry of that id.
	ErrNotFound = errors.New("no such entry in this inbox")
	// ErrContended says that an append was refused over and over by other writers to the same inbox. It can
	// be tried again.
	ErrContended = errors.New("inbox is contended")
	// ErrTooLarge says that an entry is larger than MaxEntryBytes. Trying again does not help.
	ErrTooLarge = errors.New("entry is too large")
)

// Push is one conditional append to one bucket.
//
// It applies if and only if the bucket exists or may be created by it, has room for all the entries, holds
// no entry or tombstone with any of their ids, and, for a guarded push, has a floor below all their ids.
// Bucket 0 may be created by any push, every other bucket only by one with Create set.
type Push struct {
	Owner    message.UserID
	Sequence uint32
	// Entries are 1 to Capacity entries, ascending by id, each id once.
	Entries []Entry
	// Guard also demands that the bucket's floor is below the least of the ids.
	Guard bool
	// Create allows the push to create the bucket, with Floor as its floor. Whoever sets it has seen the
	// bucket before it full, with Floor as its last.
	Create bool
	// Floor is the new bucket's floor. It means nothing unless the push creates the bucket.
	Floor message.ID
}

// Outcome is what became of a Push.
type Outcome struct {
	// Applied tells that all the entries were appended, in their order. Otherwise, Err being nil, the push
	// was refused, or it is not known whether it was applied: the appender looks before it goes on.
	Applied bool
	// Err is why this push can never succeed (ErrTooLarge), or nil.
	Err error
	// Seen is the bucket as it was at the moment in which it refused the push. A store that would have to read
	// again to know it leaves it zero.
	Seen Extent
}

// Extent is how much there is in a bucket that exists. The zero Extent is that of none.
type Extent struct {
	// Slots counts the slots that are taken.
	Slots int
	// Last is the greatest id in the bucket or in any earlier one.
	Last message.ID
}

// Ref names an owner's bucket at or above which something is looked for.
type Ref struct {
	Owner    message.UserID
	Sequence uint32
}

// Tombstone is the place of a deleted entry.
type Tombstone struct {
	Sequence uint32
	Slot     int
	ID       message.ID
}

// Deletions tells what was deleted from an inbox.
type Deletions struct {
	// Total counts all of its tombstones.
	Total int64
	// Recent are the tombstones in the buckets that were asked for, in no particular order.
	Recent []Tombstone
}

// Store holds buckets. All methods are safe for concurrent use. A read sees every write that had returned
// before the read began, whoever wrote, and sees one bucket as it is at one moment; it promises nothing of
// the kind about several buckets, which is why Appender reads them in the order that it does.
type Store interface {
	// Push attempts every push on its own, in no particular order, and returns their outcomes in the order
	// of pushes. Each is atomic. No two may be for the same owner. What was applied need not survive a crash before
	// Persist has returned; if it is lost, then together with every write to any store of the same database that began
	// after Push had returned. After an error any of them may have been applied or not. The store keeps no reference
	// to the entries.
	Push(ctx context.Context, pushes []Push) ([]Outcome, error)

	// Persist returns when everything survives a crash that had been applied, by whomever, before it was called. A store
	// whose pushes are durable when they return has nothing to do.
	Persist(ctx context.Context) error

	// Heads returns, in the order of refs, the outline of each owner's bucket with the highest sequence at or
	// above the one given. Where there is none, the outline has no IDs.
	Heads(ctx context.Context, refs []Ref) ([]Outline, error)

	// Range returns the owner's buckets with sequences from low to high, both included, the highest first,
	// and at most limit of them, the highest. The caller owns them but for what Entry says.
	Range(ctx context.Context, owner message.UserID, low, high uint32, limit int) ([]Bucket, error)

	// Newest returns the owner's buckets as Range does from low up, and their deletions as Deletions does: what a page from
	// the head takes, for which a store that is far away is asked once.
	Newest(ctx context.Context, owner message.UserID, low uint32, limit int, from uint32) ([]Bucket, Deletions, error)

	// Overlapping returns the owner's buckets above the given sequence that hold an entry which is at or
	// below their own floor and below id, or did before it was blanked: those in which a message came late. In
	// no particular order.
	Overlapping(ctx context.Context, owner message.UserID, above uint32, id message.ID) ([]Bucket, error)

	// Delete puts a tombstone in place of the entry with that id in that bucket. It is atomic, idempotent,
	// survives a crash once it has returned, and returns ErrNotFound if the bucket has no such id.
	Delete(ctx context.Context, owner message.UserID, sequence uint32, id message.ID) error

	// Blank puts a tombstone without an id in place of the entry in a slot, provided that the entry has the given id;
	// otherwise it returns ErrNotFound and changes nothing. Among the Deletions the tombstone keeps the id. It is how an
	// entry is removed of which the inbox holds another copy. It is atomic and survives a crash once it has returned.
	//
	// The zero id stands for a slot that has lost its entry, which reads as the zero Entry, or is above the last that is there
	// in a bucket that is not the head: so it is not counted any more.
	Blank(ctx context.Context, owner message.UserID, sequence uint32, slot int, id message.ID) error

	// Deletions counts the owner's tombstones, and returns those in buckets from the given sequence up.
	Deletions(ctx context.Context, owner message.UserID, from uint32) (Deletions, error)
}

// Head is an owner with where the head of their inbox was seen.
type Head struct {
	Owner message.UserID
	Hint  Hint
}

// Hints keeps hints for others to start from.
type Hints interface {
	// RaiseHeads raises each owner's hint if the one given is ahead of it. An owner whom the store does not
	// know is passed over. It is atomic for each owner and need not survive a crash.
	RaiseHeads(ctx context.Context, heads []Head) error
}
