package pebblestore

import (
	"context"
	"fmt"
	"slices"

	"github.com/fanmail/fanmail/pkg/bucket"
)

// Outlines implements bucket.Store. It finds the late buckets first, and then reads each inbox as it is at one moment.
func (s *Inbox) Outlines(ctx context.Context, spans []bucket.Span) (_ [][]bucket.Outline, err error) {
	call, err := s.db.begin(ctx, "inbox.outlines")
	if err != nil {
		return nil, err
	}
	defer call.end(ctx, &err)
	outlines := make([][]bucket.Outline, len(spans))
	for i, span := range spans {
		var err error
		if outlines[i], err = s.outlines(span); err != nil {
			return nil, fmt.Errorf("outlines of %s: %w", span.Owner, err)
		}
	}
	return outlines, nil
}

func (s *Inbox) outlines(span bucket.Span) (outlines []bucket.Outline, err error) {
	var late []uint32
	if !span.Late.IsZero() {
		if late, err = s.late(span.Owner, span.High, span.Late); err != nil {
			return nil, err
		}
	}
	prefix := s.prefix(spaceInbox, span.Owner)
	it, err := s.db.iterate(prefix)
	if err != nil {
		return nil, err
	}
	defer closeIter(it, &err)
	gone, err := s.skipRemoved(it, span.Owner)
	if err != nil {
		return nil, err
	}
	// between adds the outlines of the buckets from high down to low.
	between := func(low, high uint32) error {
		for found := it.SeekLT(appendPlace(slices.Clip(prefix), high, pastSlots)); found; {
			sequence, _ := placeOf(it.Key())
			if sequence < low {
				break
			}
			o, err := outline(it, prefix)
			if err != nil {
				return err
			}
			outlines = append(outlines, o)
			found = it.SeekLT(appendPlace(slices.Clip(prefix), sequence, 0))
		}
		return it.Error()
	}
	for _, sequence := range slices.Backward(late) {
		if err := between(sequence, sequence); err != nil {
			return nil, err
		}
	}
	if err := between(span.Low, span.High); err != nil {
		return nil, err
	}
	if span.Low < gone.lowest {
		outlines = append(outlines, gone.stub(span.Owner).Outline())
	}
	return outlines, nil
}

// Deletions implements bucket.Store.
func (s *Inbox) Deletions(ctx context.Context, refs []bucket.Ref) (_ []bucket.Deletions, err error) {
	call, err := s.db.begin(ctx, "inbox.deletions")
	if err != nil {
		return nil, err
	}
	defer call.end(ctx, &err)
	deletions := make([]bucket.Deletions, len(refs))
	for i, ref := range refs {
		if deletions[i], err = s.deletions(ref.Owner, ref.Sequence); err != nil {
			return nil, fmt.Errorf("deletions of %s: %w", ref.Owner, err)
		}
	}
	return deletions, nil
}
