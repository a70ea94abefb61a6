package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/verdict"
)

// notRepaired has the reasons why findings of some kinds are never repaired.
var notRepaired = map[verdict.Kind]string{
	verdict.DifferentEntry: "not repaired: an entry is never rewritten, and the message cannot be appended while its id is in the inbox",
	verdict.OutOfOrder:     "not repaired: the bounds of a bucket never change, because appends rely on them",
	verdict.Damaged:        "not repaired: only a backup can bring the record back; see docs/operations.md",
	verdict.Counts:         "not repaired: no count is stored, and only a backup can bring back the record that they rest on",
	verdict.PurgedAhead:    "not repaired: a purge point never falls; only a backup can bring back what has expired",
	// Pages show the message. A tombstone would hide it, although its user may never have deleted it.
	verdict.GapOverlap: "not repaired: it may be a delivery, and a tombstone would delete the message; if its user deletes it, it counts no more",
}

// lostSlot is the reason why a slot that has lost its record is not repaired.
const lostSlot = "not repaired: the store has no way to fill a slot again, which counts as one message too many"

// appendAtOnce is how many messages are appended together.
const appendAtOnce = bucket.Capacity

// repair repairs the findings of a look, and notes in each of the others why it was not repaired. Each repair is idempotent and does not
// harm correct entries, also if another process appends or deletes the message meanwhile. A failed repair is noted and is no
// error, because an inbox may be too damaged for an append.
func (s *Service) repair(ctx context.Context, l *look, findings []Finding) {
	var missing, counts []*Finding
	recount := false
	for i := range findings {
		f := &findings[i]
		var err error
		// The tombstones that replace entries may lie in gaps.
		recount = recount || len(l.state.Gaps) > 0 && slices.Contains([]verdict.Kind{verdict.GapCount, verdict.ExtraEntry, verdict.DoubleEntry}, f.Kind)
		switch {
		case f.Kind == verdict.GapCount:
			counts = append(counts, f)
		case f.Kind == verdict.MissingEntry:
			missing = append(missing, f)
		case f.Kind == verdict.ExtraEntry:
			err = s.stores.Buckets.Delete(ctx, l.user, f.At.Sequence, f.Message)
		case f.Kind == verdict.DoubleEntry:
			err = s.stores.Buckets.Blank(ctx, l.user, f.At.Sequence, f.At.Slot, f.Message)
		case f.empty:
			// It reads as an entry without an id, and is blanked as one.
			if err = s.stores.Buckets.Blank(ctx, l.user, f.At.Sequence, f.At.Slot, message.ID{}); errors.Is(err, bucket.ErrNotFound) {
				f.Note = lostSlot
			}
		default:
			f.Note = notRepaired[f.Kind]
		}
		if err != nil && !errors.Is(err, bucket.ErrNotFound) { // if the entry is gone, the next look does not find it
			f.Note = failed(err)
		}
	}
	if recount {
		if err := s.opts.Recount(ctx, l.user, s.stores.Buckets); err != nil {
			for _, f := range counts {
				f.Note = failed(err)
			}
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

// restore appends missing messages as fan-out does. The messages are ascending.
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
