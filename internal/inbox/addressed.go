package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// Addressed says whom the message of an entry is for. It is zero if the message was removed or is damaged.
type Addressed struct {
	// To are users whom the message names, at most maxNames: first the reader, if the message names them, then the others in ascending order.
	To []message.UserID
	// Named counts all users whom the message names.
	Named    int
	Audience message.Audience
	Topics   []message.Topic
}

// maxNames bounds how many names a page shows of each message. A message may name thousands.
const maxNames = 16

// Addressed returns, in the order of entries, whom the messages of a page are for. Entries do not hold that: a message that names many users would
// be copied with all the names into each inbox. It reads all messages by one call of the store. A message that is missing or damaged fails
// no page; damage is logged.
func (s *Service) Addressed(ctx context.Context, reader message.UserID, entries []bucket.Entry) ([]Addressed, error) {
	addressed := make([]Addressed, len(entries))
	if len(entries) == 0 {
		return addressed, nil
	}
	refs := make([]message.Ref, len(entries))
	for i, e := range entries {
		refs[i] = message.Ref{From: e.From, ID: e.ID}
	}
	found, err := s.stores.Messages.GetMany(ctx, refs)
	if err != nil {
		return nil, fmt.Errorf("whom the messages of a page are for: %w", err)
	}
	for i, f := range found {
		switch {
		case f.Err == nil:
			m := f.Stored.Message
			addressed[i] = Addressed{To: names(m, reader), Named: len(m.To), Audience: m.Audience, Topics: m.Topics}
		case !errors.Is(f.Err, message.ErrNotFound):
			s.damaged.message(f.Err, refs[i].ID)
		}
	}
	return addressed, nil
}

// names returns the names that the page of a reader shows.
func names(m message.Message, reader message.UserID) []message.UserID {
	if !m.Names(reader) {
		return m.To[:min(len(m.To), maxNames)]
	}
	shown := []message.UserID{reader}
	for _, user := range m.To {
		if user != reader && len(shown) < maxNames {
			shown = append(shown, user)
		}
	}
	return shown
}
