package message

import (
	"context"
	"time"
)

// Stored is a message as the canonical store holds it.
type Stored struct {
	Message
	// StoredAt is when the store stored it, by the store's own clock, in UTC, to the millisecond.
	StoredAt time.Time
}

// Void tells whether the message was stored more than slack after it was sent. A void message counts for
// nobody: no fan-out delivers it, no reader shows it.
func (s Stored) Void(slack time.Duration) bool { return s.StoredAt.Sub(s.Sent()) > slack }

// Found is the result of looking for one message of several.
type Found struct {
	// Stored is the message if Err is nil.
	Stored Stored
	// Err wraps ErrNotFound if there is no such message, and ErrCorrupt if its record is damaged.
	Err error
}

// Range is a stretch of one author's messages: those with ids above After and below Before.
type Range struct {
	From          UserID
	After, Before ID
}

// Order is the order of messages by their ids, which is the order in which they were sent.
type Order int

const (
	// OldestFirst is ascending.
	OldestFirst Order = iota
	// NewestFirst is descending.
	NewestFirst
)

// Store is the canonical store of messages: each is in it once. All methods are safe for concurrent use, and
// every read sees every write that had returned before the read began, whoever wrote.
type Store interface {
	// Insert stores messages and returns, in their order, when each was stored. It is idempotent by id: a
	// message that is there already is left as it is, and its first time is returned. Each message is
	// stored wholly or not at all; after an error some may be stored and some not. What Insert returned
	// for without an error survives a crash. A new message is unfinished.
	Insert(ctx context.Context, messages []Message) ([]time.Time, error)

	// Get returns one message, or ErrNotFound. An empty ref.From asks for it by id alone, which in a
	// sharded store asks every shard.
	Get(ctx context.Context, ref Ref) (Stored, error)

	// GetMany returns the messages of refs, in the order of refs. Every ref has to name its author, and may occur more
	// than once. A message that is missing or damaged has its error in Found.Err, so it does not fail the others. Any
	// other failure fails the call.
	GetMany(ctx context.Context, refs []Ref) ([]Found, error)

	// ToFollowers returns messages for the followers of their authors, in any of the ranges, at most limit: the
	// oldest of them, ascending, or the newest, descending. Ranges of one author do not overlap. It returns
	// void messages too.
	ToFollowers(ctx context.Context, ranges []Range, order Order, limit int) ([]Stored, error)

	// CountToFollowers counts the messages that ToFollowers would return without a limit, but for those that
	// are void by the given slack.
	CountToFollowers(ctx context.Context, ranges []Range, slack time.Duration) (int64, error)

	// Naming returns messages that name user in To, with ids above after and below before, at most limit: the
	// oldest of them, ascending, or the newest, descending. It returns void messages too. In a sharded store
	// it asks every shard.
	Naming(ctx context.Context, user UserID, after, before ID, order Order, limit int) ([]Stored, error)

	// Unfinished returns messages that are not finished and have ids above after, in ascending order, at
	// most limit.
	Unfinished(ctx context.Context, after ID, limit int) ([]Ref, error)

	// Finish records that there is nothing left to deliver of these messages. It is idempotent; a message
	// that is not there is passed over. It need not survive a crash: whoever finds a message unfinished
	// with all its deliveries done finishes it again.
	Finish(ctx context.Context, refs []Ref) error
}

// Key is an idempotency key, and the message it is reserved for.
type Key struct {
	// From is the sender: keys of different senders have nothing to do with each other.
	From UserID
	// Key is what the sender chose.
	Key string
	// ID is the id under which the message is, or is going to be, stored.
	ID ID
	// Digest is the message's.
	Digest Digest
	// Expires is when the key may be forgotten, in UTC, to the millisecond.
	Expires time.Time
}

// KeyStore holds idempotency keys. All methods are atomic, safe for concurrent use, and survive a crash
// once they have returned.
type KeyStore interface {
	// Reserve reserves k if its sender has no such key, or one that had expired by now, and returns the key
	// that holds after the call: k, or the one that was there.
	Reserve(ctx context.Context, k Key, now time.Time) (Key, error)

	// Replace gives a reserved key another message id, provided that old is what is reserved now. Otherwise it
	// changes nothing and returns ErrKeyChanged.
	Replace(ctx context.Context, old Key, id ID) error

	// Forget removes keys that had expired by now, at most limit, and returns how many it removed.
	Forget(ctx context.Context, now time.Time, limit int) (int, error)
}
