package inbox

import (
	"context"
	"fmt"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// MarkRead marks all messages up to and including the given one as read, also those that were marked unread. It returns userstate.ErrNotFound for
// a user never seen. It waits while the inbox is being rebuilt, and returns rehydrate.ErrUnfinished if that takes too long. If there is a
// further mark, it marks messages one by one, and may return flag.ErrTooMany, with nothing changed.
func (s *Service) MarkRead(ctx context.Context, user message.UserID, upTo message.ID) error {
	return s.markRead(ctx, user, func(_ context.Context, _ userstate.State, all reach) (reach, error) {
		if upTo.Less(all.upTo) {
			all.upTo = upTo
		}
		return all, nil
	})
}

// MarkAllRead marks all messages as read that the page with a cursor knew. An empty cursor stands for all messages that
// are there. Otherwise it is as MarkRead. It returns a *message.InvalidError for a cursor of another inbox or epoch.
func (s *Service) MarkAllRead(ctx context.Context, user message.UserID, cursor string) error {
	at, err := s.readPosition(user, cursor)
	if err != nil {
		return err
	}
	return s.markRead(ctx, user, func(ctx context.Context, state userstate.State, all reach) (reach, error) {
		if cursor == "" {
			return all, nil
		}
		return s.knownAt(ctx, state, all, at)
	})
}

// reach says which messages are to be read: those up to an id in the slots below a position, and in the first gaps.
type reach struct {
	upTo  message.ID
	slots int64
	gaps  int
}

// holds reports whether a message is among them.
func (r reach) holds(f bucket.Found, gaps []userstate.Gap) bool {
	return bucket.ReadMark{UpTo: r.upTo, Slots: r.slots, Gaps: r.gaps}.Says(f, gaps)
}

// covers reports whether a read mark with this reach says all that another says.
func (r reach) covers(m bucket.ReadMark) bool {
	return bucket.ReadMark{UpTo: r.upTo, Slots: r.slots, Gaps: r.gaps}.Covers(m)
}

// raise adds the last id that the newest of the gaps can have.
func (r reach) raise(gaps []userstate.Gap) reach {
	if r.gaps > 0 {
		if last := message.LastBefore(gaps[r.gaps-1].Before); r.upTo.Less(last) {
			r.upTo = last
		}
	}
	return r
}

// markRead marks what narrow leaves of all messages. The number of a mark belongs to the gaps as they were read. So the store refuses a mark if
// the user's state has changed since markRead read it. Then markRead makes a new mark.
//
// A mark never goes beyond the messages that are there. So what comes later, or a gap that is recorded later, is above it, except for late messages.
func (s *Service) markRead(
	ctx context.Context, user message.UserID, narrow func(context.Context, userstate.State, reach) (reach, error),
) error {
	for {
		state, err := known(s.rehydrator.Complete(ctx, user))
		if err != nil {
			return err
		}
		head, err := bucket.ReadHead(ctx, s.stores.Buckets, user, state.Head)
		if err != nil {
			return err
		}
		was := state.ReadMark
		to := reach{upTo: head.Last, slots: head.End(s.stores.Buckets.Size()), gaps: len(state.Gaps)}.raise(state.Gaps)
		if to.slots < was.Slots || to.gaps < was.Gaps {
			return fmt.Errorf("read mark of %s: it counts %d slots and %d gaps, and the inbox has %d and %d: %w",
				user, was.Slots, was.Gaps, to.slots, to.gaps, message.ErrCorrupt)
		}
		if to, err = narrow(ctx, state, to); err != nil {
			return err
		}
		switch {
		case !state.Purged.Less(to.upTo): // nothing is there, or all of it has expired
			return nil
		case !to.covers(was):
			return s.readEach(ctx, state, to)
		}
		next, err := s.marked(ctx, state, to)
		if err != nil {
			return err
		}
		if err := s.clearUnread(ctx, state, to); err != nil { // first: afterwards, it would take back what is marked unread after the mark
			return err
		}
		stored, applied, err := s.step(ctx, userstate.Step{From: state, To: next})
		if err != nil || applied || stored.ReadMark.Covers(next.ReadMark) {
			return err
		}
	}
}

// marked returns the state with a read mark. The gap in which the mark lies is counted.
func (s *Service) marked(ctx context.Context, state userstate.State, to reach) (_ userstate.State, err error) {
	if state.ReadMark, err = bucket.NewReadMark(ctx, s.stores.Buckets, state.User, state.Head, to.upTo, to.slots); err != nil {
		return state, err
	}
	state.ReadMark.Gaps = to.gaps
	state.Marks++
	return counted(ctx, s.rehydrator.Feed(state.User, s.opts.Rules()), state, to.upTo)
}

// clearUnread takes back that messages are unread although a read mark that is about to be stored covers them.
func (s *Service) clearUnread(ctx context.Context, state userstate.State, to reach) error {
	if !state.Flagged {
		return nil
	}
	_, err := s.flag(ctx, state, func(c *changes) error {
		return s.eachUnread(ctx, c.record, func(f bucket.Found) {
			if to.holds(f, state.Gaps) {
				c.put(f, flagsOf(c.record, c.size, f)&^flag.Unread)
			}
		})
	})
	return err
}

// readEach marks messages as read one by one, because the read mark is further in one respect, and a mark that says what both say would say more.
func (s *Service) readEach(ctx context.Context, state userstate.State, to reach) error {
	read := true
	_, err := s.flag(ctx, state, func(c *changes) error {
		mark := func(f bucket.Found) {
			if to.holds(f, state.Gaps) && !flagsOf(c.record, c.size, f).Read(state.ReadMark.Says(f, state.Gaps)) {
				c.set(f, flag.Change{Read: &read})
			}
		}
		if err := s.eachUnread(ctx, c.record, mark); err != nil {
			return err
		}
		for _, section := range uncovered(s.stores.Buckets.Size(), state, to) {
			if err := s.eachAlive(ctx, section, mark); err != nil {
				return err
			}
		}
		return s.eachInGaps(ctx, state, to, mark)
	})
	return err
}

// uncovered returns the buckets that may have messages within reach that the read mark does not cover: in slots that were used after it was set, and
// above its id in slots that it knows.
func uncovered(size bucket.Size, state userstate.State, to reach) (sections []bucket.Section) {
	mark, further := state.ReadMark, state.ReadMark.UpTo.Less(to.upTo)
	bucketOf := func(slot int64) uint32 { return uint32(max(0, slot) / int64(size)) } //nolint:gosec // it is a sequence
	if to.slots > mark.Slots {
		later := bucket.Section{Owner: state.User, Low: bucketOf(mark.Slots), High: bucketOf(to.slots - 1)}
		if !further { // above the first of these buckets, everything up to this id came late
			later.High, later.Late = later.Low, to.upTo.Next()
		}
		sections = append(sections, later)
	}
	if further {
		sections = append(sections, bucket.Section{Owner: state.User, Low: mark.Sequence, High: bucketOf(min(to.slots, mark.Slots) - 1)})
	}
	return sections
}

// eachInGaps calls use with the messages within reach in gaps that the read mark does not list, or above its id. It counts these gaps. It returns
// flag.ErrTooMany if there are more than may have flags.
func (s *Service) eachInGaps(ctx context.Context, state userstate.State, to reach, use func(bucket.Found)) error {
	feed := s.rehydrator.Feed(state.User, s.opts.Rules())
	for i, gap := range state.Gaps[:to.gaps] {
		part := gap.Stretch().Within(bucket.Stretch{Before: to.upTo.Next()})
		if i < state.ReadMark.Gaps {
			part = part.Within(bucket.Stretch{After: state.ReadMark.UpTo, Before: message.MaxID})
		}
		if part.Empty() {
			continue
		}
		entries, err := feed.Newest(ctx, part, flag.MaxMessages+1)
		switch {
		case err != nil:
			return err
		case len(entries) > flag.MaxMessages:
			return flag.ErrTooMany
		case len(entries) > 0:
			err = s.countGapOf(ctx, state.User, feed, entries[0].ID)
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			use(bucket.Found{Entry: e, Absent: true})
		}
	}
	return nil
}

// eachUnread calls use with the messages that have the flag Unread.
func (s *Service) eachUnread(ctx context.Context, r flag.Record, use func(bucket.Found)) error {
	for i := 0; i < len(r.Buckets); i++ {
		if r.Buckets[i].Unread == 0 {
			continue
		}
		low := r.Buckets[i].Sequence
		for i+1 < len(r.Buckets) && r.Buckets[i+1].Sequence == r.Buckets[i].Sequence+1 && r.Buckets[i+1].Unread != 0 {
			i++
		}
		err := s.eachAlive(ctx, bucket.Section{Owner: r.Owner, Low: low, High: r.Buckets[i].Sequence}, func(f bucket.Found) {
			if flagsOf(r, s.stores.Buckets.Size(), f)&flag.Unread != 0 {
				use(f)
			}
		})
		if err != nil {
			return err
		}
	}
	for _, m := range r.Messages {
		if m.Flags&flag.Unread != 0 {
			use(bucket.Found{Entry: bucket.Entry{ID: m.ID}, Absent: true})
		}
	}
	return nil
}

// bucketsAtOnce is how many buckets are read at a time without contents: an inbox may have thousands.
const bucketsAtOnce = 64

// eachAlive calls use with the messages in buckets that are neither deleted nor expired. If section has Late, Low and High are one bucket.
func (s *Service) eachAlive(ctx context.Context, section bucket.Section, use func(bucket.Found)) error {
	size := s.stores.Buckets.Size()
	for low := int64(section.Low); low <= int64(section.High); low += bucketsAtOnce {
		part := section
		part.Low, part.High = uint32(low), uint32(min(int64(section.High), low+bucketsAtOnce-1)) //nolint:gosec // they are sequences
		buckets, err := bucket.ReadSection(ctx, s.stores.Buckets, part, bucket.NoFields)
		if err != nil {
			return err
		}
		for _, b := range buckets {
			for slot, e := range b.Entries {
				if !e.Deleted && !e.Expired && !e.ID.IsZero() {
					use(bucket.Found{Entry: e, Sequence: b.Sequence, Position: size.Position(b.Sequence, slot)})
				}
			}
		}
	}
	return nil
}
