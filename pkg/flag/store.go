package flag

import (
	"context"

	"github.com/fanmail/fanmail/pkg/message"
)

// Looked is what a read found of one inbox.
type Looked struct {
	Record Record
	// Err wraps message.ErrCorrupt if the record is damaged. Record then has only the owner. Otherwise Err is nil.
	Err error
}

// Store holds the flags of inboxes. All methods are safe for concurrent use. A read sees every write of every process that had returned
// before the read began.
type Store interface {
	// Lookup returns one result for each owner, in their order. No owner is named twice. Without a record, it has the owner only.
	Lookup(ctx context.Context, owners []message.UserID) ([]Looked, error)

	// Replace stores a record if the stored one has the revision before. It reports whether the stored record is the given one afterwards. It is
	// atomic, and what it reports as stored survives a crash. It returns an error that wraps message.ErrCorrupt if the stored record is damaged.
	Replace(ctx context.Context, r Record) (bool, error)
}

// Get returns the flags of one inbox.
func Get(ctx context.Context, store Store, owner message.UserID) (Record, error) {
	looked, err := store.Lookup(ctx, []message.UserID{owner})
	if err != nil {
		return Record{}, err
	}
	return looked[0].Record, looked[0].Err
}
