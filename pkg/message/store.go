package message

import (
	"context"
	"time"
)

// Stored is a message as the canonical store holds it.
type Stored struct {
	Message
	Stamp
	// Named, unless it is zero, counts the users whom the message names, and To does not have all of them.
	Named int
}

// MaxNames is how many names a message has at most where many are read, and its copy in an inbox. It may name thousands.
const MaxNames = 16

// Short returns the message without its names if they are more than MaxNames, but for a user if it names them.
func (s Stored) Short(user UserID) Stored {
	if len(s.To) > MaxNames {
		names := s.Names(user)
		if s.Named, s.To = len(s.To), nil; names {
			s.To = []UserID{user}
		}
	}
	return s
}

// Ahead returns how far the time in the message's id was ahead of the store's clock when the store stored it. It is negative if that
// time had passed.
func (s Stored) Ahead() time.Duration { return s.Sent().Sub(s.StoredAt) }

// FromFuture reports whether the message is void because the time in its id was too far ahead of the store's clock.
func (s Stored) FromFuture() bool { return s.Void && s.Ahead() > 0 }

// Found is the result of looking for one message of several.
type Found struct {
	// Stored is the message if Err is nil.
	Stored Stored
	// Err wraps ErrNotFound if there is no such message, and ErrCorrupt if its record is damaged.
	Err error
}

// AnyAfterLooks is how many messages AnyAfter reads at most. Ids above a user's horizon are usually those of few void messages or none.
const AnyAfterLooks = 100

// Range selects the messages that reach the users with edges to one source, with ids above After and below Before.
type Range struct {
	From          Source
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

// Store is the canonical store, which holds each message once. All methods are safe for concurrent use. A read sees every write of
// every process that had returned before the read began; only Unfinished, Oldest and Newest may answer from a state seconds older, and Get and GetMany
// may return a message that was removed seconds before.
type Store interface {
	// Insert stores messages and returns, in their order, the stamp of each. The store decides by timing and its own
	// clock, in the atomic write that stores the message. Insert is idempotent by id: it does not change a message that is
	// already stored, and returns the stamp of the first insert, whatever timing says now. Each message is stored wholly or
	// not at all. After an error any message may be stored or not. After Insert has returned without an error, the messages
	// survive a crash. A new message is unfinished. Only a message from the future is finished at once, because the resumer
	// would not reach its id before that time.
	Insert(ctx context.Context, messages []Message, timing Timing) ([]Stamp, error)

	// Get returns one message, or ErrNotFound. With an empty ref.From it searches by id alone. A sharded store then asks every
	// shard.
	Get(ctx context.Context, ref Ref) (Stored, error)

	// GetMany returns the messages of refs, in the order of refs. Every ref has to name its author, and may occur more
	// than once. A message that is missing or damaged has its error in Found.Err, so it does not fail the others. Any
	// other failure fails the call.
	GetMany(ctx context.Context, refs []Ref) ([]Found, error)

	// ToFollowers returns the messages in the ranges: see Message.Reaches. It returns at most limit messages, each once: the oldest,
	// ascending, or the newest, descending. Ranges of one source must not overlap. It also returns void messages. The messages are Short.
	ToFollowers(ctx context.Context, ranges []Range, order Order, limit int) ([]Stored, error)

	// CountToFollowers counts the messages that ToFollowers would return without a limit, except void messages.
	CountToFollowers(ctx context.Context, ranges []Range) (int64, error)

	// Naming returns messages that name user in To and have ids above after and below before. It returns at most limit
	// messages: the oldest, ascending, or the newest, descending. It also returns void messages. The messages are
	// Short for the user. A sharded store asks every shard.
	Naming(ctx context.Context, user UserID, after, before ID, order Order, limit int) ([]Stored, error)

	// AnyAfter reports whether there is a message with an id above after that is not void. If
	// many void messages have such ids, it may report true although there is no other. A sharded store asks every shard, unless after is
	// about an hour above all ids that were ever stored.
	AnyAfter(ctx context.Context, after ID) (bool, error)

	// Unfinished returns messages that are not finished and have ids above after and below before, in ascending order, at
	// most limit.
	Unfinished(ctx context.Context, after, before ID, limit int) ([]Ref, error)

	// Oldest returns messages with ids above after, up to and including upTo, in ascending order, at most limit. A sharded store asks
	// every shard.
	Oldest(ctx context.Context, after, upTo ID, limit int) ([]Old, error)

	// Newest returns messages with ids below before, in descending order, at most limit; only those of one author, unless from is empty. It may return
	// fewer although there are more, because it looks at a limited number of messages. There are more below rest, unless rest is zero. A sharded
	// store asks every shard if from is empty.
	Newest(ctx context.Context, from UserID, before ID, limit int) (refs []Ref, rest ID, err error)

	// Remove removes messages, and all that finds them. It is atomic for each message, idempotent, and skips messages that are not
	// stored. It need not survive a crash. A read that is under way may still return a removed message, and a cache may for longer.
	// The refs have to name the authors.
	Remove(ctx context.Context, refs []Ref) error

	// Endings returns how the fan-outs of messages ended, in the order of refs. With an empty Ref.From it searches by id alone. A sharded store then
	// asks every shard. A damaged record has its error in Ending.Err, so it does not fail the others.
	Endings(ctx context.Context, refs []Ref) ([]Ending, error)

	// Conclude records how the fan-out of each message ended, and finishes the message. The first Ending of a message stays: a repetition
	// changes nothing. Conclude skips messages that are not stored. Each Ending has a Ref, and counts as concluded. It is atomic for each message, and survives a crash once it has
	// returned.
	Conclude(ctx context.Context, endings []Ending) error
}

// Key is an idempotency key, and the message for which it is reserved.
type Key struct {
	// From is the sender. Two senders may use the same key independently.
	From UserID
	// Key is the string that the sender chose.
	Key string
	// ID is the id of the message. The message may not be stored yet.
	ID ID
	// Digest is the message's.
	Digest Digest
	// Expires is when Forget may remove the key, in UTC, to the millisecond.
	Expires time.Time
}

// KeyStore holds idempotency keys. All methods are atomic and safe for concurrent use. A write survives a crash once it has
// returned.
type KeyStore interface {
	// Reserve reserves k if its sender has no such key, or if that key had expired by now. It returns the reserved key: k, or
	// the key that was reserved before.
	Reserve(ctx context.Context, k Key, now time.Time) (Key, error)

	// Find returns the reservation of a sender's key, and whether there is one that has not expired by now. It may not survive a crash.
	Find(ctx context.Context, from UserID, key string, now time.Time) (Key, bool, error)

	// Replace gives a reserved key another message id, if the reservation still equals old. Otherwise it changes nothing and
	// returns ErrKeyChanged.
	Replace(ctx context.Context, old Key, id ID) error

	// Forget removes keys that had expired by now, at most limit, and returns how many it removed.
	Forget(ctx context.Context, now time.Time, limit int) (int, error)
}
