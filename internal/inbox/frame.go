package inbox

import (
	"context"
	"slices"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

const (
	// frameMessages and frameBytes are where a frame ends. The next one goes on from there.
	frameMessages = 200
	frameBytes    = 1 << 20
	// frameBuckets is how many of the newest buckets have their states in a frame.
	frameBuckets = 4
	// frameGone is how many deletions a frame names: the newest ones.
	frameGone = 200
	// framePage is how many messages a reset shows: those of a page.
	framePage = 50
)

// Frame is what has changed in an inbox since a position. The inbox is its own log: a frame is computed from what is stored, for a position of any age.
//
// test/proof checks exhaustively, for small instances, that a client that takes every frame shows what the inbox has.
type Frame struct {
	// Page has the new messages, in the order of arrival, and the counts, marks and position after the frame. With Reset, it is a first page.
	Page

	// Gone are messages that were deleted, now or earlier.
	Gone []message.ID
	// States are those of messages that were there before and may have changed.
	States []State
	// Older says that other messages may have changed, which States and Gone do not name.
	Older bool
	// Reset is why the client must forget everything it knows, or empty.
	Reset Reset
	// More says that the next frame has more already.
	More bool
}

// State is the state of a message.
type State struct {
	ID             message.ID
	Read, Archived bool
}

// Reset is a reason to begin anew.
type Reset string

// The reasons.
const (
	// ResetStart is that the client has no position.
	ResetStart Reset = "start"
	// ResetEpoch is that the store was restored, or that an embedded store was not closed: slots may hold other messages.
	ResetEpoch Reset = "epoch"
	// ResetAhead is that the position is above what there is: somebody made it up.
	ResetAhead Reset = "ahead"
	// ResetGap is that a rehydration has left a gap. Its messages have no slots.
	ResetGap Reset = "gap"
)

// Resets returns all reasons.
func Resets() []Reset { return []Reset{ResetStart, ResetEpoch, ResetAhead, ResetGap} }

// FrameRequest asks for a frame.
type FrameRequest struct {
	// Cursor is that of a page or frame, or empty for a reset.
	Cursor string
	// Peek makes the request not count as a view.
	Peek bool
	// First says that the client has seen nothing of an inbox that is not complete. The frame then also has the messages of a first page that fan out
	// on read answers. They come again when they have slots.
	First bool
}

// current returns the service with stores that answer from no older state.
func (s *Service) current() *Service {
	c := *s
	c.stores.Shown = Shown{Buckets: s.stores.Buckets, Index: s.stores.Shown.Index, Users: s.stores.Users, Flags: s.stores.Flags}
	return &c
}

// Changes returns what has changed in an inbox since a position. It returns a *message.InvalidError for a cursor of another inbox. Otherwise it is as
// Read.
func (s *Service) Changes(ctx context.Context, user message.UserID, req FrameRequest) (Frame, error) {
	s, began := s.current(), s.opts.Now()
	from, err := parsePosition(user, req.Cursor)
	if err != nil {
		return Frame{}, &message.InvalidError{Field: "cursor", Reason: "is not from a page or a frame of this inbox: leave it out for everything"}
	}
	if req.Cursor == "" {
		return s.reset(ctx, user, ResetStart, req.Peek)
	}
	for reads := 1; ; reads++ {
		f, err := s.since(ctx, user, from, req)
		if err != nil {
			return Frame{}, err
		}
		if f.Reset != "" {
			return s.reset(ctx, user, f.Reset, req.Peek)
		}
		if settled(&f.Tally, reads) {
			s.metrics.looks.Observe(s.opts.Now().Sub(began).Seconds())
			return f, nil
		}
	}
}

func (s *Service) reset(ctx context.Context, user message.UserID, why Reset, peek bool) (Frame, error) {
	page, err := s.Read(ctx, user, Request{Limit: framePage, Peek: peek})
	if err == nil {
		s.metrics.resets.WithLabelValues(string(why)).Inc()
	}
	return Frame{Page: page, Reset: why}, err
}

// since reads, in this order, the user's record, the flags, the deletions, the slots, and then what they say is new. So a change that comes in between
// is above the new position, and comes with the next frame.
func (s *Service) since(ctx context.Context, user message.UserID, from Position, req FrameRequest) (Frame, error) {
	rules := s.opts.Rules()
	state, err := s.look(ctx, user, rules, req.Peek)
	if err != nil {
		return Frame{}, err
	}
	v, err := s.view(ctx, state)
	if err != nil {
		return Frame{}, err
	}
	counted, err := bucket.ReadCounts(ctx, s.stores.Shown.Buckets, []bucket.CountRequest{{Owner: user, Hint: state.Head, Basis: state.Basis(v.flags)}})
	if err == nil {
		err = counted[0].Err
	}
	if err != nil {
		return Frame{}, err
	}
	to := s.position(rules, state, v.flags.Revision, counted[0].Slots, counted[0].Deleted)
	f := Frame{Page: Page{
		Tally: counted[0].Tally, Complete: s.complete(state, rules), ReadUpTo: state.ReadMark.UpTo, ExpiredUpTo: state.Purged,
	}}
	switch {
	case from.Epoch != to.Epoch:
		f.Reset = ResetEpoch
	case from.ahead(to):
		f.Reset = ResetAhead
	case from.Gaps != to.Gaps:
		f.Reset = ResetGap
	}
	if f.Reset != "" {
		return f, nil
	}
	if to.Slots, err = s.added(ctx, v, &f, from.Slots, to.Slots); err != nil {
		return Frame{}, err
	}
	if err = s.states(ctx, v, &f, from, to); err != nil {
		return Frame{}, err
	}
	if to.Deleted != from.Deleted {
		if err = s.gone(ctx, state, &f); err != nil {
			return Frame{}, err
		}
	}
	if req.First && !f.Complete {
		if err = s.provisional(ctx, user, &f); err != nil {
			return Frame{}, err
		}
	}
	f.At, f.Version, f.Cursor = to, to.version(), to.encode(user)
	return f, nil
}

// added adds the messages in the slots from one to another, and returns the slot that it came to. Each call of the store reads a bucket, so that it ends
// near frameBytes.
func (s *Service) added(ctx context.Context, v view, f *Frame, from, to int64) (int64, error) {
	bytes := 0
	for from < to {
		sequence := v.sequence(from)
		buckets, err := bucket.ReadSection(ctx, s.stores.Shown.Buckets, bucket.Section{Owner: v.state.User, Low: sequence, High: sequence}, bucket.AllFields)
		if err != nil {
			return from, err
		}
		end := v.size.Position(sequence+1, 0)
		for _, b := range buckets { // one
			if b.Stub { // it may stand for others above
				end = v.size.Position(max(b.Sequence, sequence)+1, 0)
			}
			for slot, e := range b.Entries {
				at := v.size.Position(sequence, slot)
				if at < from || at >= to {
					continue
				}
				if len(f.Entries) == frameMessages || bytes >= frameBytes {
					f.More = true
					return at, nil
				}
				if live(v.state, e) {
					bytes += e.Size()
					f.Entries = append(f.Entries, v.message(bucket.Found{Entry: e, Sequence: sequence, Position: at}))
				}
			}
		}
		from = min(end, to)
	}
	return to, nil
}

// live reports whether a slot holds a message that the owner may see.
func live(state userstate.State, e bucket.Entry) bool {
	return !e.ID.IsZero() && !e.Deleted && !e.Expired && state.Purged.Less(e.ID)
}

// states adds the states of messages below the first position whose flags have changed, or all of them if a mark has moved: those in the newest
// buckets. Further down, it is Older.
func (s *Service) states(ctx context.Context, v view, f *Frame, from, to Position) error {
	moved, dropped := to.Marked != from.Marked, v.flags.DroppedAt > from.Flags
	inGaps := moved && len(v.state.Gaps) > 0 // these messages have no slots; a late one may be new there
	if from.Slots == 0 || !moved && to.Flags == from.Flags {
		f.Older = inGaps || to.Flags > from.Flags
		return nil
	}
	high := v.sequence(from.Slots - 1)
	low := high - min(high, frameBuckets-1)
	all := moved || dropped // a bucket that has lost its last flag is not known any more
	f.Older = inGaps || v.flags.MessagesAt > from.Flags || all && low > v.state.Oldest
	changed := func(b flag.Bucket) bool { return b.At > from.Flags }
	for _, b := range v.flags.Buckets {
		f.Older = f.Older || b.Sequence < low && changed(b)
	}
	if !all && !slices.ContainsFunc(v.flags.Buckets, func(b flag.Bucket) bool { return b.Sequence >= low && b.Sequence <= high && changed(b) }) {
		return nil
	}
	buckets, err := bucket.ReadSection(ctx, s.stores.Shown.Buckets, bucket.Section{Owner: v.state.User, Low: low, High: high}, bucket.NoFields)
	if err != nil {
		return err
	}
	for _, b := range buckets {
		if !all && !changed(v.flags.In(b.Sequence)) {
			continue
		}
		for slot, e := range b.Entries {
			if at := v.size.Position(b.Sequence, slot); at < from.Slots && live(v.state, e) {
				m := v.message(bucket.Found{Entry: e, Sequence: b.Sequence, Position: at})
				f.States = append(f.States, State{ID: m.ID, Read: m.Read, Archived: m.Archived})
			}
		}
	}
	return nil
}

// gone adds the deletions: not only the new ones, because nobody records which these are.
func (s *Service) gone(ctx context.Context, state userstate.State, f *Frame) error {
	deletions, err := bucket.ReadDeletions(ctx, s.stores.Shown.Buckets, state.User, state.Oldest)
	if err != nil {
		return err
	}
	all := slices.DeleteFunc(deletions.Recent, func(t bucket.Tombstone) bool { return !state.Purged.Less(t.ID) })
	slices.SortFunc(all, func(x, y bucket.Tombstone) int { return int(y.Position - x.Position) })
	if len(all) > frameGone {
		all, f.Older = all[:frameGone], true
	}
	for _, t := range all {
		f.Gone = append(f.Gone, t.ID)
	}
	return nil
}

// provisional adds the messages of a first page that are in no bucket.
func (s *Service) provisional(ctx context.Context, user message.UserID, f *Frame) error {
	page, err := s.Read(ctx, user, Request{Limit: framePage, Peek: true, Filter: Filter{Archived: ArchivedToo}})
	for _, m := range page.Entries {
		if m.Absent {
			f.Entries = append(f.Entries, m)
		}
	}
	return err
}
