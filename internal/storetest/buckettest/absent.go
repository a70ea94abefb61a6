package buckettest

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// absence models what need not be in the buckets of an inbox. The zero absence is that of one that has everything there.
type absence struct {
	// missed are the messages in the stretches, whether they are in a bucket by now or not.
	missed []int
	// gaps are the stretches that remain absent, open is the one that has no end, if there is one. They may overlap.
	gaps []stretch
	open *stretch
}

// stretch is a range of messages. Both ends are excluded.
type stretch struct{ after, before int }

const endless = math.MaxInt

func (s stretch) holds(n int) bool { return s.after < n && n < s.before }

func (s stretch) ids() bucket.Stretch {
	if s.before == endless {
		return bucket.Stretch{After: id(s.after), Before: message.MaxID}
	}
	return bucket.Stretch{After: id(s.after), Before: id(s.before)}
}

func (a *absence) messages() []int { return slices.Clone(a.missed) }

func (a *absence) gapOf(n int) bool {
	return slices.ContainsFunc(a.gaps, func(s stretch) bool { return s.holds(n) })
}

func (a *absence) inGaps() []int {
	return slices.DeleteFunc(a.messages(), func(n int) bool { return !a.gapOf(n) })
}

// counted returns the gaps as Counts wants to know them.
func (a *absence) counted() []bucket.Gap {
	var gaps []bucket.Gap
	for _, s := range a.gaps {
		gap := bucket.Gap{After: id(s.after).Time(), Before: id(s.before).Time()}
		for _, n := range a.missed {
			if s.holds(n) {
				gap.Messages++
			}
		}
		gaps = append(gaps, gap)
	}
	return gaps
}

func (a *absence) stretches() []bucket.Stretch {
	var stretches []bucket.Stretch
	for _, s := range a.gaps {
		stretches = append(stretches, s.ids())
	}
	if a.open != nil {
		stretches = append(stretches, a.open.ids())
	}
	return stretches
}

// onRead is fan out on read: it finds messages whether they are in a bucket or not.
func (a *absence) onRead(_ context.Context, s bucket.Stretch, limit int) ([]bucket.Entry, error) {
	ns := slices.DeleteFunc(ordered(a.missed), func(n int) bool { return !s.Holds(id(n)) })
	slices.Reverse(ns)
	return entries(ns[:min(limit, len(ns))]...), nil
}

// requireAbsent requires that a page names as absent the messages that it shows and that no bucket holds, given the held
// messages before the read.
func (r *reader) requireAbsent(t tester, page bucket.Page, held []int) {
	t.Helper()
	before, now, named := set(held), set(r.arrived), map[message.ID]bool{}
	for _, absent := range page.Absent {
		named[absent] = true
	}
	require.Len(t, page.Absent, len(named), "each is named once")
	for _, e := range page.Entries {
		switch {
		case before[e.ID] && named[e.ID]:
			require.Fail(t, "it was in a bucket before", "%s", e.ID)
		case !now[e.ID] && !named[e.ID]:
			require.Fail(t, "it is in no bucket even now", "%s", e.ID)
		}
		delete(named, e.ID)
	}
	require.Empty(t, named, "each of them is shown")
}

// set returns the ids of messages.
func set(ns []int) map[message.ID]bool {
	ids := make(map[message.ID]bool, len(ns))
	for _, n := range ns {
		ids[id(n)] = true
	}
	return ids
}

// rehydration is a reader whose owner stays away for so long that messages are left out, and comes back.
type rehydration struct {
	*reader
	fresh int // the next message that is sent; what comes late is odd
	// last is the newest message that was there when the owner was last active.
	last int
	// bounded tells that it has been decided what is left to a gap.
	bounded bool

	cursor *bucket.Cursor
	bound  int
}

// missing returns the messages that have to be appended yet, the oldest first.
func (r *rehydration) missing() []int {
	arrived := make(map[int]bool, len(r.arrived))
	for _, n := range r.arrived {
		arrived[n] = true
	}
	return slices.DeleteFunc(ordered(r.absent.missed), func(n int) bool { return r.absent.gapOf(n) || arrived[n] })
}

// send sends messages: they are delivered, or left to a rehydration.
func (r *rehydration) send(t *rapid.T) {
	ns := numbers(r.fresh, 2, rapid.SampledFrom([]int{1, 2, 7, 49, 51, 120}).Draw(t, "count"))
	r.fresh = ns[len(ns)-1] + 2
	if r.absent.open == nil {
		r.deliver(t, ns)
		return
	}
	r.absent.missed = append(r.absent.missed, ns...)
}

// sendLate delivers messages that are older than others. Messages since the owner left are left to the
// rehydration. Messages in a gap were sent before the gap was made.
func (r *rehydration) sendLate(t *rapid.T) {
	late := rapid.Custom(func(t *rapid.T) int { return rapid.IntRange(0, r.fresh/2-1).Draw(t, "half")*2 + 1 })
	var deliver []int
	for _, n := range rapid.SliceOfN(late, 1, 6).Draw(t, "late") {
		switch {
		case r.absent.gapOf(n) || slices.Contains(r.absent.missed, n):
		case r.absent.open == nil || !r.absent.open.holds(n):
			deliver = append(deliver, n)
		case !r.bounded:
			r.absent.missed = append(r.absent.missed, n)
		}
	}
	r.deliver(t, deliver)
}

// stayAway begins to leave messages out.
func (r *rehydration) stayAway(t *rapid.T) {
	if r.absent.open != nil {
		t.Skip("the owner is away already")
	}
	r.absent.open, r.last, r.bounded = &stretch{after: r.fresh - 1, before: endless}, r.fresh-1, false
}

// leave leaves what is older than the newest few to a gap, as long as nothing has been appended.
func (r *rehydration) leave(t *rapid.T) {
	missing := r.missing()
	if r.absent.open == nil || r.bounded || len(missing) == 0 {
		t.Skip("there is nothing to leave out")
	}
	for _, n := range r.absent.missed {
		if r.absent.open.holds(n) && slices.Contains(r.arrived, n) {
			t.Skip("something has been appended")
		}
	}
	newest := rapid.IntRange(1, len(missing)).Draw(t, "newest that are kept")
	r.absent.gaps = append(r.absent.gaps, stretch{after: r.last, before: missing[len(missing)-newest]})
	r.bounded = true
}

// appendSome appends some of what is missing, mostly the oldest.
func (r *rehydration) appendSome(t *rapid.T) {
	missing := r.missing()
	if len(missing) == 0 {
		t.Skip("nothing is missing")
	}
	r.bounded = true
	some := missing[:rapid.IntRange(1, len(missing)).Draw(t, "how many")]
	if rapid.IntRange(0, 3).Draw(t, "in any order") == 0 {
		some = rapid.SliceOfN(rapid.SampledFrom(missing), 1, 10).Draw(t, "some")
	}
	r.deliver(t, some)
}

// settle appends the rest, after which nothing is left out any more but what is in gaps.
func (r *rehydration) settle(t *rapid.T) {
	if r.absent.open == nil {
		t.Skip("the owner is not away")
	}
	r.deliver(t, r.missing())
	r.absent.open = nil
	r.absent.missed = r.absent.inGaps()
}

// deleteShown deletes a message. If it is in no bucket, its tombstone is pushed.
func (r *rehydration) deleteShown(t *rapid.T) {
	all := r.below(1 << 30)
	if len(all) == 0 {
		t.Skip("there is nothing to delete")
	}
	n := rapid.SampledFrom(all).Draw(t, "victim")
	if !slices.Contains(r.arrived, n) {
		if !r.absent.gapOf(n) {
			r.bounded = true
		}
		require.Equal(t, 1, r.append(t, r.store, []bucket.Entry{{ID: id(n), Deleted: true}}))
		r.arrived = append(r.arrived, n)
	}
	r.delete(t, n)
}

// page reads a page. While it does, what is missing may be appended between any two operations.
func (r *rehydration) page(t *rapid.T, before *bucket.Cursor, bound int) {
	limit := rapid.OneOf(rapid.IntRange(1, 10), rapid.IntRange(1, 200)).Draw(t, "limit")
	store := r.store
	defer func() { r.store = store }()
	if r.bounded && rapid.Bool().Draw(t, "meanwhile") {
		appendSome := func() {
			if missing := r.missing(); len(missing) > 0 {
				some := missing[:min(len(missing), rapid.IntRange(0, 60).Draw(t, "appended meanwhile"))]
				r.append(t, store, entries(some...))
				r.arrived = append(r.arrived, some...)
			}
		}
		r.store = &Seam{Store: store, Before: func(context.Context, *Op) error {
			appendSome()
			return nil
		}}
	}
	r.cursor, r.bound = r.requirePage(t, before, bound, limit)
}

// randomRehydrations reads pages and counts of an inbox whose owner goes away and comes back, at every stage of that. Each
// sequence of pages shows each message once, in order, and leaves none out.
func (s suite) randomRehydrations(t *testing.T) {
	t.Parallel()
	stores, owner := s.sizes(t), owners()
	rapid.Check(t, func(t *rapid.T) {
		h := stores.draw(t)
		r := &rehydration{reader: newReader(h.Store, owner()), fresh: 10_000}
		r.registry, r.index = newRegistry(), h.Index
		r.arrived = drawPrefill(t, h.Store.Size())
		prefill(t, h.Store, r.owner, r.arrived)
		t.Repeat(map[string]func(*rapid.T){
			"":             func(t *rapid.T) { r.requireCounts(t) },
			"send":         r.send,
			"send late":    r.sendLate,
			"stay away":    r.stayAway,
			"leave":        r.leave,
			"append some":  r.appendSome,
			"settle":       r.settle,
			"delete shown": r.deleteShown,
			"flag":         r.drawFlags,
			"trim":         r.trim,
			"move hint":    r.moveHint,
			"mark":         func(t *rapid.T) { r.setMark(t, rapid.IntRange(0, r.fresh+200).Draw(t, "up to")) },
			"first page":   func(t *rapid.T) { r.page(t, nil, 1<<30) },
			"window":       func(t *rapid.T) { r.drawWindow(t, r.fresh+200) },
			"filter":       r.drawFiltered,
			"newest":       r.drawNewest,
			"search":       r.drawSearched,
			"declare":      r.declare,
			"next page": func(t *rapid.T) {
				if r.cursor == nil {
					t.Skip("there is no next page")
				}
				if r.absent.open != nil && rapid.Bool().Draw(t, "settle before") {
					r.settle(t)
				}
				r.page(t, r.cursor, r.bound)
			},
		})
	})
}

// absentOnly reads an inbox of which nothing is in buckets.
func (s suite) absentOnly(t *testing.T) {
	t.Parallel()
	r := newReader(s.open(t).Store, "ann")
	r.absent = absence{missed: numbers(10, 10, 7), gaps: []stretch{{after: 0, before: 35}}, open: &stretch{after: 0, before: endless}}
	cursor, bound := r.requirePage(t, nil, 1<<30, 3)
	require.Equal(t, &bucket.Cursor{ID: id(50), Sequence: bucket.Unlocated}, cursor, "a bucket may yet come")
	r.deliver(t, numbers(40, 10, 4))
	cursor, bound = r.requirePage(t, cursor, bound, 3)
	cursor, _ = r.requirePage(t, cursor, bound, 3)
	require.Nil(t, cursor)
	r.absent.open, r.absent.missed = nil, r.absent.inGaps()
	cursor, bound = r.requirePage(t, nil, 1<<30, 3)
	require.EqualValues(t, 0, cursor.Sequence)
	r.requirePage(t, cursor, bound, 10)
	r.requireCounts(t)
}
