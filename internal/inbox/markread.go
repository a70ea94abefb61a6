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

// MarkAllRead marks all messages as read that a page or a frame knew, which had the given cursor. An empty cursor stands for all messages that
// are there. Otherwise it is as MarkRead. It returns a *message.InvalidError for a cursor of another inbox or epoch.
func (s *Service) MarkAllRead(ctx context.Context, user message.UserID, cursor string) error {
	at, err := s.position(user, cursor)
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
		unread, err := s.flaggedUnread(ctx, c.record)
		for _, f := range unread {
			if to.holds(f, state.Gaps) {
				c.put(f, flagsOf(c.record, c.size, f)&^flag.Unread)
			}
		}
		return err
	})
	return err
}

// readEach marks messages as read one by one, because the read mark is further in one respect, and a mark that says what both say would say more.
func (s *Service) readEach(ctx context.Context, state userstate.State, to reach) error {
	uncovered, err := s.uncovered(ctx, state, to)
	if err != nil {
		return err
	}
	read := true
	_, err = s.flag(ctx, state, func(c *changes) error {
		unread, err := s.flaggedUnread(ctx, c.record)
		for _, f := range append(unread, uncovered...) {
			if to.holds(f, state.Gaps) && !flagsOf(c.record, c.size, f).Read(state.ReadMark.Says(f, state.Gaps)) {
				c.set(f, flag.Change{Read: &read})
			}
		}
		return err
	})
	return err
}

// uncovered returns messages, among them all within reach that the read mark does not cover: in slots that were used after it was set, and above its
// id in slots and gaps that it knows. It counts the gaps in which it finds some.
func (s *Service) uncovered(ctx context.Context, state userstate.State, to reach) ([]bucket.Found, error) {
	size, mark, further := int64(s.stores.Buckets.Size()), state.ReadMark, state.ReadMark.UpTo.Less(to.upTo)
	bucketOf := func(slot int64) uint32 { return uint32(max(0, slot) / size) } //nolint:gosec // it is a sequence
	var sections []bucket.Section
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
	var found []bucket.Found
	for _, section := range sections {
		alive, err := s.alive(ctx, section)
		if err != nil {
			return nil, err
		}
		found = append(found, alive...)
	}
	feed := s.rehydrator.Feed(state.User, s.opts.Rules())
	for i, gap := range state.Gaps[:to.gaps] {
		part := gap.Stretch().Within(bucket.Stretch{Before: to.upTo.Next()})
		if i < mark.Gaps {
			part = part.Within(bucket.Stretch{After: mark.UpTo, Before: message.MaxID})
		}
		if part.Empty() {
			continue
		}
		entries, err := feed.Newest(ctx, part, flag.MaxMessages+1)
		switch {
		case err != nil:
			return nil, err
		case len(entries) > flag.MaxMessages:
			return nil, flag.ErrTooMany
		case len(entries) > 0:
			err = s.countGapOf(ctx, state.User, feed, entries[0].ID)
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			found = append(found, bucket.Found{Entry: e, Absent: true})
		}
	}
	return found, nil
}

// flaggedUnread returns the messages with the flag Unread.
func (s *Service) flaggedUnread(ctx context.Context, r flag.Record) (unread []bucket.Found, err error) {
	for i := 0; i < len(r.Buckets); i++ {
		if r.Buckets[i].Unread == 0 {
			continue
		}
		low := r.Buckets[i].Sequence
		for i+1 < len(r.Buckets) && r.Buckets[i+1].Sequence == r.Buckets[i].Sequence+1 && r.Buckets[i+1].Unread != 0 {
			i++
		}
		found, err := s.alive(ctx, bucket.Section{Owner: r.Owner, Low: low, High: r.Buckets[i].Sequence})
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			if flagsOf(r, s.stores.Buckets.Size(), f)&flag.Unread != 0 {
				unread = append(unread, f)
			}
		}
	}
	for _, m := range r.Messages {
		if m.Flags&flag.Unread != 0 {
			unread = append(unread, bucket.Found{Entry: bucket.Entry{ID: m.ID}, Absent: true})
		}
	}
	return unread, nil
}

// alive returns the messages in buckets that are neither deleted nor expired.
func (s *Service) alive(ctx context.Context, section bucket.Section) (alive []bucket.Found, err error) {
	buckets, err := bucket.ReadSection(ctx, s.stores.Buckets, section, bucket.NoFields)
	for _, b := range buckets {
		for slot, e := range b.Entries {
			if !e.Deleted && !e.Expired && !e.ID.IsZero() {
				f := bucket.Found{Entry: e, Sequence: b.Sequence, Position: s.stores.Buckets.Size().Position(b.Sequence, slot)}
				alive = append(alive, f)
			}
		}
	}
	return alive, err
}
