// Package damage does to a store what no store would do: it removes, doubles and spoils records behind its back. It knows how they are
// kept from docs/data-model.md, and imports nothing of the stores.
package damage

import (
	"context"
	"errors"

	"github.com/fanmail/fanmail/pkg/message"
)

// ErrNotFound says that an inbox has no entry of an id.
var ErrNotFound = errors.New("no such entry")

// Store is what can be damaged.
type Store interface {
	// Remove removes an entry from an inbox, as if it had never been written.
	Remove(ctx context.Context, owner message.UserID, id message.ID) error
	// Double writes an entry of an inbox once more, behind the last one.
	Double(ctx context.Context, owner message.UserID, id message.ID) error
	// Spoil makes the record of a user unreadable. The returned function restores it.
	Spoil(ctx context.Context, user message.UserID) (Mend, error)
	// Lose removes a bucket. The returned function restores it.
	Lose(ctx context.Context, owner message.UserID, sequence uint32) (Mend, error)
}
