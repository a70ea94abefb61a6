package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// notRepaired tells why findings of a kind are never repaired.
var notRepaired = map[Kind]string{
	DifferentEntry: "not repaired: an entry is never rewritten, and the message cannot be appended while its id is in the inbox",
	OutOfOrder:     "not repaired: the bounds of a bucket never change, and whoever appends relies on that",
	GapCount:       "not repaired: a gap never changes once it was made",
	GapOverlap:     "not repaired: the gap counts the message, and so would the tombstone that is left of the entry",
}

// lostSlot tells why a slot that has lost its record is not repaired.
const lostSlot = "not repaired: the store has no way to fill a slot again, which counts as one message too many"

// appendAtOnce is how many messages are appended together.
const appendAtOnce = bucket.Capacity

// repair mends what can be mended of the findings of a look, and notes in the others why it is not. Each repair may be
// repeated, and does no harm to what was right: whoever deletes the message or appends it meanwhile has done the same. A
// repair that fails is noted, too: an inbox may be so damaged that nothing can be appended to it.
func (s *Service) repair(ctx context.Context, l *look, findings []Finding) {
	var missing []*Finding
	for i := range findings {
		f := &findings[i]
		var err error
		switch {
		case f.Kind == MissingEntry:
			missing = append(missing, f)
		case f.Kind == ExtraEntry:
			err = s.stores.Buckets.Delete(ctx, l.user, f.At.Sequence, f.Message)
		case f.Kind == DoubleEntry:
			err = s.stores.Buckets.Blank(ctx, l.user, f.At.Sequence, f.At.Slot, f.Message)
		case f.empty:
			// It reads as an entry without an id, and is blanked as one.
			if err = s.stores.Buckets.Blank(ctx, l.user, f.At.Sequence, f.At.Slot, message.ID{}); errors.Is(err, bucket.ErrNotFound) {
				f.Note = lostSlot
			}
		default:
			f.Note = notRepaired[f.Kind]
		}
		if err != nil && !errors.Is(err, bucket.ErrNotFound) { // what is not there any more, the next look does not find
			f.Note = failed(err)
		}
	}
	slices.SortFunc(missing, func(x, y *Finding) int { return x.Message.Compare(y.Message) })
	for part := range slices.Chunk(missing, appendAtOnce) {
		if err := s.restore(ctx, l, part); err != nil {
			for _, f := range part {
				f.Note = failed(err)
			}
		}
	}
}

func failed(err error) string { return fmt.Sprintf("not repaired: %v", err) }

// restore appends missing messages, which are ascending, as fan-out would have done.
func (s *Service) restore(ctx context.Context, l *look, missing []*Finding) error {
	restored := bucket.Append{Owner: l.user, Hint: l.state.Head}
	for _, f := range missing {
		m, err := s.stores.Messages.Get(ctx, message.Ref{From: f.From, ID: f.Message})
		if err != nil {
			return err
		}
		restored.Entries = append(restored.Entries, bucket.EntryOf(m.Message))
	}
	results, err := s.stores.Appender.Append(ctx, []bucket.Append{restored})
	if err != nil {
		return err
	}
	return results[0].Err
}
