package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/pkg/verdict"
)

const (
	// maxLooks is how often the audit looks at a user whose state changes during each look.
	maxLooks = 4
	// maxFindings bounds the findings of one look. An inbox with more has lost everything; repeated repairs correct all of them.
	maxFindings = 10_000

	messagesPage = 200
)

// look is the result of one look at one user.
type look struct {
	operation
	user  message.UserID
	state userstate.State
	// edges are all edges of the user, ascending by followee.
	edges []follow.Edge
	// flags are those of single messages.
	flags flag.Record
	holds contents
	// extents are the buckets, the head first.
	extents []extent
	found   []Finding
	// expired is the id up to which every message has expired: the user's purge point, or one that a bucket was emptied for since.
	expired message.ID
	// end is the first id that the look need not read: later messages are not expected and not in the inbox.
	end message.ID
	// inGaps counts the messages in each of the gaps, and readInGaps those of them that are at or below the read mark. Each tombstone in
	// a gap counts, because it reduces the total by one.
	inGaps, readInGaps []int64
	// deleted counts the tombstones in gaps by id. One id may have several.
	deleted map[message.ID]int64
	// busy says that a worker is rebuilding the inbox, so the look cannot tell which messages are missing.
	busy bool

	entries, expected                 int64
	inFlight, deadLettered, tolerated int64
}

// look looks at a user. If the state changes meanwhile, it looks again, because the expected messages depend on the state.
func (s *Service) look(ctx context.Context, user message.UserID) (*look, error) {
	for n := 1; ; n++ {
		before, err := s.state(ctx, user)
		if err != nil {
			return nil, err
		}
		l := &look{operation: s.begin(), user: user, state: before, expired: before.Purged}
		l.inGaps, l.readInGaps = make([]int64, len(before.Gaps)), make([]int64, len(before.Gaps))
		l.busy = before.Mark != nil || before.Sweep != nil
		if err := l.see(ctx); err != nil {
			return nil, err
		}
		after, err := s.state(ctx, user)
		if err != nil {
			return nil, err
		}
		// A view that was recorded meanwhile only raises the horizon, so all expected messages still are.
		before.LastViewed, before.Horizon = after.LastViewed, after.Horizon
		if before.Same(after) {
			return l, nil
		}
		if n == maxLooks {
			l.giveUp()
			return l, nil
		}
	}
}

// giveUp drops the findings that depend on the state, because the state has changed.
func (l *look) giveUp() {
	l.busy = true
	l.found = slices.DeleteFunc(l.found, func(f Finding) bool {
		return slices.Contains([]verdict.Kind{verdict.MissingEntry, verdict.GapCount, verdict.GapOverlap, verdict.Counts}, f.Kind)
	})
}

// see reads the inbox, and then all messages for the user.
func (l *look) see(ctx context.Context) error {
	for _, read := range []func(context.Context) error{l.readFlags, l.readInbox, l.readTombstones, l.checkCounts} {
		if err := read(ctx); err != nil {
			return err
		}
	}
	l.findDoubles()
	l.end = message.Later(message.MinID(l.horizon().Add(time.Millisecond)), l.holds.newest().Next())
	for _, gap := range l.state.Gaps {
		l.end = message.Later(l.end, message.MinID(gap.Before))
	}
	if err := l.readFollowed(ctx); err != nil {
		return err
	}
	if err := l.readNaming(ctx); err != nil {
		return err
	}
	if err := l.findExtras(ctx); err != nil {
		return err
	}
	if purged := l.state.Purged.Time(); purged.After(l.opts.Now().Add(l.rules.ClockTolerance)) {
		l.find(Finding{Kind: verdict.PurgedAhead}, "the purge point is in the future: messages sent before %s expire as soon as they arrive", at(purged))
	}
	l.checkBounds()
	l.checkGaps()
	return nil
}

// checkGaps compares the numbers of gaps, and that of the read mark in one of them, with the messages. During a rehydration it does not,
// because the sweep counts the gaps again.
func (l *look) checkGaps() {
	if l.busy {
		return
	}
	for i, gap := range l.state.Gaps {
		if l.inGaps[i] != gap.Messages {
			l.find(Finding{Kind: verdict.GapCount}, "the gap after %s and before %s counts %d where there are %d",
				at(gap.After), at(gap.Before), gap.Messages, l.inGaps[i])
		}
		if mark := l.state.ReadMark; i < mark.Gaps && gap.Stretch().Holds(mark.UpTo) && l.readInGaps[i] != mark.InGap {
			l.find(Finding{Kind: verdict.GapCount}, "the read mark counts %d as read in the gap after %s and before %s where there are %d",
				mark.InGap, at(gap.After), at(gap.Before), l.readInGaps[i])
		}
	}
}

// horizon returns the user's horizon, or the beginning of time for a user never seen.
func (l *look) horizon() time.Time {
	if !l.state.Known() {
		return time.UnixMilli(0)
	}
	return l.state.Horizon
}

// find adds a finding.
func (l *look) find(f Finding, format string, args ...any) {
	if len(l.found) < maxFindings {
		f.User, f.Detail = l.user, fmt.Sprintf(format, args...)
		l.found = append(l.found, f)
	}
}

// readFollowed compares the messages of every author and topic that the user has followed, one after another.
func (l *look) readFollowed(ctx context.Context) error {
	var err error
	if l.edges, err = follow.AllOf(ctx, l.stores.Edges, l.user); err != nil {
		return err
	}
	for _, edge := range l.edges {
		for _, span := range edge.Spans {
			if err := l.readSpan(ctx, edge, span); err != nil {
				return fmt.Errorf("messages of %s: %w", edge.Followee, err)
			}
		}
	}
	return nil
}

// edgesTo returns the user's edges to the sources of a message, ascending by followee. Sources that the user never followed have none.
func (l *look) edgesTo(m message.Message) (edges []follow.Edge) {
	for _, source := range m.Sources() {
		at, found := slices.BinarySearchFunc(l.edges, source, func(e follow.Edge, s message.Source) int { return cmp.Compare(e.Followee, s) })
		if found {
			edges = append(edges, l.edges[at])
		}
	}
	return edges
}

// through returns the followee of the edge by which a message is compared, or "". A message can reach the user by several edges, and is compared
// once.
func (l *look) through(m message.Message) message.Source {
	for _, e := range l.edgesTo(m) {
		if e.Holds(m.Sent()) {
			return e.Followee
		}
	}
	return ""
}

// readSpan compares the messages that were sent during a span of one of the user's edges, and that have not expired.
func (l *look) readSpan(ctx context.Context, edge follow.Edge, span follow.Span) error {
	in := message.Range{From: edge.Followee, After: message.Later(message.LastBefore(span.Since), l.expired), Before: l.end}
	if until := message.MinID(span.Until); !span.Open() && until.Less(in.Before) {
		in.Before = until
	}
	for {
		page, err := l.stores.Messages.ToFollowers(ctx, []message.Range{in}, message.OldestFirst, messagesPage)
		if err != nil {
			return err
		}
		full := len(page) == messagesPage
		if len(page) > 0 {
			in.After = page[len(page)-1].ID
		}
		page = slices.DeleteFunc(page, func(m message.Stored) bool { return l.through(m.Message) != edge.Followee })
		if err := l.compare(ctx, page); err != nil || !full {
			return err
		}
	}
}

// readNaming compares the messages that name the user, except those that readFollowed has compared.
func (l *look) readNaming(ctx context.Context) error {
	for after := l.expired; ; {
		page, err := l.stores.Messages.Naming(ctx, l.user, after, l.end, message.OldestFirst, messagesPage)
		if err != nil {
			return fmt.Errorf("messages that name %s: %w", l.user, err)
		}
		full := len(page) == messagesPage
		if len(page) > 0 {
			after = page[len(page)-1].ID
		}
		page = slices.DeleteFunc(page, func(m message.Stored) bool { return l.through(m.Message) != "" })
		if err := l.compare(ctx, page); err != nil || !full {
			return err
		}
	}
}

// compare compares messages with their entries in the inbox.
func (l *look) compare(ctx context.Context, messages []message.Stored) error {
	var absent []missed
	for _, m := range messages {
		edges := l.edgesTo(m.Message)
		if m.Void || !follow.ForAny(m.Message, l.user, edges) {
			continue // if it is in the inbox, findExtras finds it
		}
		copies := l.holds.of(m.ID)
		if err := l.compareCopies(ctx, m, copies); err != nil {
			return err
		}
		deleted := slices.ContainsFunc(copies, func(h held) bool { return h.deleted })
		switch gap := l.gap(m.ID); {
		case gap >= 0:
			if l.deleted[m.ID] == 0 {
				l.count(gap, m.ID)
			}
			l.overlap(l.state.Gaps[gap], m, copies)
		case m.Sent().After(l.horizon()):
			if len(copies) > 0 && !deleted {
				l.tolerated++
			}
		case deleted:
		default:
			if l.expected++; len(copies) == 0 {
				absent = append(absent, missed{m, l.fresh(m.Message, l.user, edges)})
			}
		}
	}
	for _, m := range absent {
		if err := l.missing(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// readTombstones counts the tombstones in gaps.
func (l *look) readTombstones(ctx context.Context) error {
	if len(l.state.Gaps) == 0 {
		return nil
	}
	deletions, err := bucket.ReadDeletions(ctx, l.stores.Buckets, l.user, 0)
	if err != nil {
		return fmt.Errorf("tombstones of %s: %w", l.user, err)
	}
	l.deleted = make(map[message.ID]int64)
	for _, t := range deletions.Recent {
		if gap := l.gap(t.ID); gap >= 0 {
			l.deleted[t.ID]++
			l.count(gap, t.ID)
		}
	}
	return nil
}

// gap returns the index of the gap that holds a message, or -1.
func (l *look) gap(id message.ID) int {
	return slices.IndexFunc(l.state.Gaps, func(g userstate.Gap) bool { return g.Stretch().Holds(id) })
}

// count counts a message that is in a gap.
func (l *look) count(gap int, id message.ID) {
	l.inGaps[gap]++
	if !l.state.ReadMark.UpTo.Less(id) {
		l.readInGaps[gap]++
	}
}

// compareCopies compares a message with its entries.
func (l *look) compareCopies(ctx context.Context, m message.Stored, copies contents) error {
	want := bucket.EntryOfStored(m).For(l.user)
	for i := range copies {
		h := &copies[i]
		h.known = true
		if h.deleted || h.says == says(want) {
			continue
		}
		buckets, err := bucket.ReadSection(ctx, l.stores.Buckets, bucket.Section{Owner: l.user, Low: h.sequence, High: h.sequence}, bucket.AllFields)
		if err != nil {
			return fmt.Errorf("bucket %d of %s: %w", h.sequence, l.user, err)
		}
		if len(buckets) == 0 || int(h.slot) >= buckets[0].Slots {
			continue // it is gone: the next look decides
		}
		if fields := differences(buckets[0].Entries[h.slot], want); len(fields) > 0 {
			l.find(Finding{Kind: verdict.DifferentEntry, Message: m.ID, From: m.From, At: h.at(), Placed: true},
				"the entry has another %s than the message", strings.Join(fields, ", "))
		}
	}
	return nil
}

func (l *look) overlap(gap userstate.Gap, m message.Stored, copies contents) {
	for _, h := range copies {
		if !h.deleted {
			l.find(Finding{Kind: verdict.GapOverlap, Message: m.ID, From: m.From, At: h.at(), Placed: true},
				"the entry lies in the gap after %s and before %s, and so is counted twice", at(gap.After), at(gap.Before))
		}
	}
}

// missed is a message that is expected and is not in the inbox.
type missed struct {
	message.Stored
	// fresh says that a follow may be about to append it.
	fresh bool
}

func (l *look) missing(ctx context.Context, m missed) error {
	p := l.partition(l.user)
	fanout, err := l.standing(ctx, p, m.Ref())
	if err != nil {
		return fmt.Errorf("fan-out of %s: %w", m.ID, err)
	}
	ahead := fanout.inPlan && fanout.scan.Ahead(l.user)
	switch {
	case ahead && fanout.scan.Dead, fanout.givenUp():
		l.deadLettered++
	case ahead, !fanout.planned:
		l.inFlight++
	case !l.busy:
		l.find(Finding{Kind: verdict.MissingEntry, Message: m.ID, From: m.From, fresh: m.fresh},
			"the message, sent at %s, is not in the inbox, although its fan-out in partition %d has passed the user", at(m.Sent()), p)
	}
	return nil
}

// findExtras finds entries that do not belong in the inbox. It accepts what has expired.
func (l *look) findExtras(ctx context.Context) error {
	for _, h := range l.holds {
		if h.known || h.deleted || !l.expired.Less(h.id) {
			continue
		}
		if err := l.checkExtra(ctx, h); err != nil {
			return err
		}
	}
	return nil
}

func (l *look) checkExtra(ctx context.Context, h held) error {
	extra := Finding{Kind: verdict.ExtraEntry, Message: h.id, At: h.at(), Placed: true}
	m, err := l.stores.Messages.Get(ctx, message.Ref{ID: h.id})
	switch {
	case errors.Is(err, message.ErrNotFound):
		l.find(extra, "there is no such message")
		return nil
	case err != nil:
		return fmt.Errorf("message %s: %w", h.id, err)
	}
	extra.From = m.From
	edges, err := l.Service.edges(ctx, l.user, m.Message)
	if err != nil {
		return err
	}
	switch why := l.extraReason(m, l.user, edges); {
	case why == "": // an edge that was not there when the edges were read
	case !m.Void && l.borderline(m.Message, l.user, edges):
		l.tolerated++
	default:
		l.find(extra, "%s", why)
	}
	return nil
}
