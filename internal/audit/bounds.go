package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// extent is what a look keeps of a bucket, to check the bounds when it knows which messages are from the future.
type extent struct {
	sequence    uint32
	floor, last message.ID
	greatest    message.ID   // of all ids in the bucket
	beyond      []message.ID // the ids above last: usually none
	whole       bool         // every slot has its id
	stub        bool
}

// checkBounds checks the bounds that package bucket states. A bound that is the id of a message from the future is a finding of its own:
// one for all buckets, because writers raise further bounds while the audit looks again.
func (l *look) checkBounds(ctx context.Context) error {
	raised := make(map[message.ID]bool)
	var below *extent
	var honest message.ID // the greatest id so far, without messages from the future
	for i := len(l.extents) - 1; i >= 0; i-- {
		x := &l.extents[i]
		if x.stub { // nothing lowers its bounds, and all that they cover has expired
			future, err := l.fromFuture(ctx, x.last)
			if err != nil {
				return err
			}
			if !future {
				honest = maxID(honest, x.last)
			}
			below = x
			continue
		}
		floorRaised, err := l.fromFuture(ctx, x.floor)
		if err != nil {
			return err
		}
		lastRaised, err := l.fromFuture(ctx, x.last)
		if err != nil {
			return err
		}
		greatest, err := l.greatest(ctx, x)
		if err != nil {
			return err
		}
		for _, bound := range []struct {
			raised bool
			id     message.ID
		}{{floorRaised, x.floor}, {lastRaised, x.last}} {
			if bound.raised && !raised[bound.id] {
				raised[bound.id] = true
				l.find(Finding{Kind: FromFuture, Message: bound.id},
					"the bounds of the buckets from %d up are those of this message, which is from the future", x.sequence)
			}
		}
		if !floorRaised {
			honest = maxID(honest, x.floor)
			l.checkFloor(below, x)
		}
		if !lastRaised {
			l.checkLast(x, maxID(honest, greatest), maxID(x.floor, greatest), floorRaised)
		}
		honest = maxID(honest, greatest)
		below = x
	}
	return nil
}

// checkFloor compares the floor of a bucket with the last of the bucket below it. Both are as they were read, at different moments.
func (l *look) checkFloor(below, x *extent) {
	switch {
	case x.sequence == 0 && !x.floor.IsZero():
		l.outOfOrder(Finding{}, "bucket 0 has a floor, which is %s", x.floor)
	case below != nil && below.sequence+1 == x.sequence && x.floor != below.last && !l.future[below.last]:
		l.outOfOrder(Finding{}, "the floor of bucket %d is %s, and the last of the bucket below it is %s", x.sequence, x.floor, below.last)
	}
}

// checkLast compares the last of a bucket with the greatest id in it and below it, or at its floor.
func (l *look) checkLast(x *extent, honest, most message.ID, floorRaised bool) {
	if floorRaised {
		most = honest
	}
	switch {
	case x.last.Less(most):
		l.outOfOrder(Finding{}, "the last of bucket %d is %s, although it or its floor has %s", x.sequence, x.last, most)
	case x.whole && most.Less(x.last):
		l.outOfOrder(Finding{}, "the last of bucket %d is %s, although the greatest of it and its floor is %s", x.sequence, x.last, most)
	}
}

// greatest returns the greatest id in a bucket that is not that of a message from the future, as far as it matters for the bounds.
func (l *look) greatest(ctx context.Context, x *extent) (message.ID, error) {
	if len(x.beyond) == 0 {
		return x.greatest, nil
	}
	slices.SortFunc(x.beyond, func(a, b message.ID) int { return b.Compare(a) })
	for _, id := range x.beyond {
		future, err := l.fromFuture(ctx, id)
		if err != nil || !future {
			return id, err
		}
	}
	return x.last, nil
}

// fromFuture reports whether an id is that of a message from the future.
func (l *look) fromFuture(ctx context.Context, id message.ID) (bool, error) {
	if future, known := l.future[id]; known {
		return future, nil
	}
	if id.IsZero() || slices.ContainsFunc(l.holds.of(id), func(h held) bool { return h.known }) {
		return false, nil
	}
	m, err := l.stores.Messages.Get(ctx, message.Ref{ID: id})
	if err != nil && !errors.Is(err, message.ErrNotFound) {
		return false, fmt.Errorf("message %s: %w", id, err)
	}
	l.future[id] = err == nil && (m.FromFuture() || l.rules.AcceptedFromFuture(m))
	return l.future[id], nil
}

// checkReadMark finds a read mark that is up to a message from the future. It would not move until that time.
func (l *look) checkReadMark(ctx context.Context) error {
	upTo := l.state.ReadMark.UpTo
	future, err := l.fromFuture(ctx, upTo)
	if err == nil && future {
		l.find(Finding{Kind: FromFuture, Message: upTo}, "the read mark is up to this message, which is from the future")
	}
	return err
}

// void is a bucket.Judge. A message from the future is void as soon as its verdict is stored, so no copy becomes a tombstone before there
// is a dead letter.
func (s *Service) void(ctx context.Context, refs []message.Ref) (map[message.ID]bool, error) {
	void := make(map[message.ID]bool)
	var named []message.Ref
	for _, ref := range refs {
		if ref.From != "" {
			named = append(named, ref)
			continue
		}
		m, err := s.stores.Messages.Get(ctx, ref)
		switch {
		case errors.Is(err, message.ErrNotFound), errors.Is(err, message.ErrCorrupt):
		case err != nil:
			return nil, err
		case m.FromFuture():
			void[ref.ID] = true
		}
	}
	found, err := s.stores.Messages.GetMany(ctx, named)
	for i, f := range found {
		if f.Err == nil && f.Stored.FromFuture() {
			void[named[i].ID] = true
		}
	}
	return void, err
}

// heal heals an inbox that messages from the future have poisoned. Each step may be repeated: first each message gets a dead letter and
// becomes void, then its copies become tombstones and the bounds are lowered, and then the read mark is mended.
func (s *Service) heal(ctx context.Context, user message.UserID, poisoned []*Finding) error {
	for _, f := range poisoned {
		err := s.opts.Condemn(ctx, message.Ref{From: f.From, ID: f.Message})
		if err != nil {
			return err
		}
	}
	if _, err := bucket.Repair(ctx, s.stores.Buckets, user, s.void); err != nil {
		return err
	}
	_, err := s.opts.MendReadMark(ctx, user, s.void)
	return err
}
