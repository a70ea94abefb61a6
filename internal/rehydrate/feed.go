package rehydrate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Feed finds the messages for one user by fan out on read. It keeps the user's edges as they were when it first needed them. Each call
// reads the messages from the store. It is not safe for concurrent use.
type Feed struct {
	messages message.Store
	follows  follow.Store
	rules    userstate.Rules
	user     message.UserID
	open     bool          // the edges have been read
	edges    []follow.Edge // ascending by followee, so that a store searches in the order of its keys
	// confirmFrom is set for a feed whose messages are appended: collect reads the edges to the sources of messages sent from then on
	// again. Otherwise a user who unfollows between the two reads would keep a message that was sent afterwards.
	confirmFrom time.Time
}

// Feed returns a user's feed. It reads the user's edges when they are first needed. The rules decide which messages are void.
func (s *Service) Feed(user message.UserID, rules userstate.Rules) *Feed {
	return &Feed{messages: s.stores.Messages, follows: s.stores.Edges, rules: rules, user: user}
}

// Open reads the user's edges, unless the feed has them.
func (f *Feed) Open(ctx context.Context) (err error) {
	if !f.open {
		f.edges, err = follow.AllOf(ctx, f.follows, f.user)
		f.open = err == nil
	}
	return err
}

// feed opens a feed whose messages the attempt appends.
func (a *attempt) feed(ctx context.Context) (*Feed, error) {
	// A message that was sent after the edges were read has a later time than this, by any clock within the tolerance.
	confirmFrom := a.opts.Now().Add(-a.rules.ClockTolerance)
	f := a.Feed(a.state.User, a.rules)
	f.confirmFrom = confirmFrom
	return f, f.Open(ctx)
}

// Newest returns the newest messages of a stretch, descending, at most limit.
func (f *Feed) Newest(ctx context.Context, s bucket.Stretch, limit int) ([]bucket.Entry, error) {
	return f.collect(ctx, s, message.NewestFirst, limit)
}

// Oldest returns the oldest messages of a stretch, ascending, at most limit.
func (f *Feed) Oldest(ctx context.Context, s bucket.Stretch, limit int) ([]bucket.Entry, error) {
	return f.collect(ctx, s, message.OldestFirst, limit)
}

// Count counts the messages of a stretch.
func (f *Feed) Count(ctx context.Context, s bucket.Stretch) (int64, error) {
	const page = 100
	if s.Empty() {
		return 0, nil
	}
	if err := f.Open(ctx); err != nil {
		return 0, err
	}
	count, err := f.messages.CountToFollowers(ctx, f.ranges(s))
	if err != nil {
		return 0, fmt.Errorf("count the messages that %s missed: %w", f.user, err)
	}
	for {
		named, err := f.messages.Naming(ctx, f.user, s.After, s.Before, message.OldestFirst, page)
		if err != nil {
			return 0, fmt.Errorf("messages that name %s: %w", f.user, err)
		}
		for _, m := range named {
			counted := slices.ContainsFunc(m.Sources(), func(s message.Source) bool { return f.edge(s).Holds(m.Sent()) })
			if !counted && f.holds(m) {
				count++
			}
		}
		if len(named) < page {
			return count, nil
		}
		s.After = named[page-1].ID
	}
}

// CountGap counts the messages of a gap, and those that a read mark says are read. It counts the messages above the mark by a query of
// their own. Otherwise a message that becomes visible between two queries could count as read only.
func (f *Feed) CountGap(ctx context.Context, gap userstate.Gap, mark bucket.ReadMark) (counted userstate.GapCount, err error) {
	counted = userstate.GapCount{Gap: gap, UpTo: mark.UpTo}
	stretch := gap.Stretch()
	if stretch.Holds(mark.UpTo) {
		counted.Read, err = f.Count(ctx, bucket.Stretch{After: stretch.After, Before: mark.UpTo.Next()})
		if err != nil {
			return counted, err
		}
		stretch.After = mark.UpTo
	}
	above, err := f.Count(ctx, stretch)
	counted.Messages = counted.Read + above
	return counted, err
}

// Cuts counts the gaps of a state that a raise of the purge point to an id cuts.
func (f *Feed) Cuts(ctx context.Context, s userstate.State, to message.ID) ([]userstate.Cut, error) {
	var cuts []userstate.Cut
	for _, gap := range s.Gaps {
		cut := userstate.Cut{Left: userstate.GapCount{Gap: gap.Above(to), UpTo: s.ReadMark.UpTo}}
		if cut.Left.Equal(gap) {
			continue
		}
		var err error
		if !cut.Left.Stretch().Empty() {
			if cut.Left, err = f.CountGap(ctx, cut.Left.Gap, s.ReadMark); err != nil {
				return nil, err
			}
		}
		if cut.Expired, err = f.Count(ctx, gap.Stretch().Within(bucket.Stretch{Before: to.Next()})); err != nil {
			return nil, err
		}
		cuts = append(cuts, cut)
	}
	return cuts, nil
}

// collect returns the messages of a stretch, in order, at most limit.
func (f *Feed) collect(ctx context.Context, s bucket.Stretch, order message.Order, limit int) (found []bucket.Entry, err error) {
	for len(found) < limit && !s.Empty() {
		var some []bucket.Entry
		if some, s, _, err = f.step(ctx, s, order, limit-len(found)); err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	return found, nil
}

// Search reads the newest messages of a stretch, at most limit by edges and at most limit that name the user. It returns those that are for the user,
// descending, the part of the stretch that is not examined, and how many messages it has read.
func (f *Feed) Search(ctx context.Context, s bucket.Stretch, limit int) (found []bucket.Entry, left bucket.Stretch, read int, err error) {
	return f.step(ctx, s, message.NewestFirst, limit)
}

// step is Search in either order.
func (f *Feed) step(
	ctx context.Context, s bucket.Stretch, order message.Order, limit int,
) (found []bucket.Entry, left bucket.Stretch, read int, err error) {
	if err := f.Open(ctx); err != nil {
		return nil, s, 0, err
	}
	messages, read, err := f.read(ctx, f.ranges(s), s, order, limit)
	if err != nil {
		return nil, s, read, err
	}
	if err := f.confirm(ctx, messages); err != nil {
		return nil, s, read, err
	}
	for _, m := range messages {
		if f.holds(m) {
			found = append(found, bucket.EntryOfStored(m).For(f.user))
		}
	}
	switch {
	case len(messages) < limit:
		return found, bucket.Stretch{}, read, nil
	case order == message.OldestFirst:
		s.After = messages[limit-1].ID
	default:
		s.Before = messages[limit-1].ID
	}
	return found, s, read, nil
}

// confirm reads the edges again that decide about messages sent from confirmFrom on. The edges are then newer than the messages. Older
// messages need no second read, so most rehydrations do without.
func (f *Feed) confirm(ctx context.Context, messages []message.Stored) error {
	if f.confirmFrom.IsZero() {
		return nil
	}
	var pairs []follow.Pair
	for _, m := range messages {
		if m.Sent().Before(f.confirmFrom) {
			continue
		}
		for _, pair := range follow.Pairs(m.Message, f.user) {
			if !slices.Contains(pairs, pair) {
				pairs = append(pairs, pair)
			}
		}
	}
	if len(pairs) == 0 {
		return nil
	}
	edges, err := f.follows.Get(ctx, pairs)
	if err != nil {
		return fmt.Errorf("confirm the authors and topics that %s follows: %w", f.user, err)
	}
	for i, pair := range pairs {
		if at, found := f.indexOf(pair.Followee); found {
			f.edges[at] = edges[i]
		}
	}
	return nil
}

// read returns messages of a stretch that may be for the user, in order, at most limit. It also returns how many it has read.
func (f *Feed) read(
	ctx context.Context, ranges []message.Range, s bucket.Stretch, order message.Order, limit int,
) (messages []message.Stored, read int, err error) {
	if len(ranges) > 0 {
		if messages, err = f.messages.ToFollowers(ctx, ranges, order, limit); err != nil {
			return nil, 0, fmt.Errorf("messages of authors and topics that %s follows: %w", f.user, err)
		}
	}
	named, err := f.messages.Naming(ctx, f.user, s.After, s.Before, order, limit)
	if err != nil {
		return nil, len(messages), fmt.Errorf("messages that name %s: %w", f.user, err)
	}
	messages = slices.Concat(named, messages) // the first one of two says whether it names the user
	read = len(messages)
	slices.SortStableFunc(messages, func(x, y message.Stored) int {
		if order == message.NewestFirst {
			x, y = y, x
		}
		return x.ID.Compare(y.ID)
	})
	messages = slices.CompactFunc(messages, func(x, y message.Stored) bool { return x.ID == y.ID })
	return messages[:min(limit, len(messages))], read, nil
}

// holds reports whether a message is for the user.
func (f *Feed) holds(m message.Stored) bool {
	if m.Void {
		return false
	}
	if follow.For(m.Message, f.user, follow.Edge{}) {
		return true
	}
	return slices.ContainsFunc(m.Sources(), func(s message.Source) bool { return follow.For(m.Message, f.user, f.edge(s)) })
}

// edge returns the user's edge to a source. It has no spans if the user never followed it.
func (f *Feed) edge(source message.Source) follow.Edge {
	if i, found := f.indexOf(source); found {
		return f.edges[i]
	}
	return follow.Edge{}
}

// indexOf returns where the edge to a source stands among the feed's edges.
func (f *Feed) indexOf(source message.Source) (int, bool) {
	return slices.BinarySearchFunc(f.edges, source, func(e follow.Edge, source message.Source) int {
		return cmp.Compare(e.Followee, source)
	})
}

// ranges returns the parts of a stretch in which the messages of a source are for the user: the spans of each edge.
func (f *Feed) ranges(s bucket.Stretch) []message.Range {
	ranges := make([]message.Range, 0, len(f.edges))
	for _, edge := range f.edges {
		for _, span := range edge.Spans {
			held := bucket.Stretch{After: message.LastBefore(span.Since), Before: message.MaxID}
			if !span.Open() {
				held.Before = message.MinID(span.Until)
			}
			if held = held.Within(s); !held.Empty() {
				ranges = append(ranges, message.Range{From: edge.Followee, After: held.After, Before: held.Before})
			}
		}
	}
	return ranges
}
