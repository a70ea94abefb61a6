package buckettest

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// owners returns a source of owners, a new one for each check of a property.
func owners() func() message.UserID {
	var n atomic.Int64
	return func() message.UserID { return message.UserID(fmt.Sprintf("owner-%d", n.Add(1))) }
}

// opened has a store of each size from which random tests draw.
type opened map[int]Harness

func (s suite) sizes(t *testing.T) opened {
	t.Helper()
	all := opened{}
	for _, size := range []int{3, bucket.Capacity} {
		all[size] = s.sized(t, size)
	}
	return all
}

func (o opened) draw(t *rapid.T) Harness {
	return o[rapid.SampledFrom([]int{3, bucket.Capacity}).Draw(t, "size")]
}

// drawPrefill draws what is in an inbox before. Mostly its head is full, or about to be, and a few messages are far ahead of their
// neighbours.
func drawPrefill(t *rapid.T, size bucket.Size) []int {
	most := int(size)
	slots := most * rapid.IntRange(0, 2).Draw(t, "full buckets")
	slots += rapid.SampledFrom([]int{0, 1, min(20, most), most - 3, most - 2, most - 1, most}).Draw(t, "slots of the head")
	ns := numbers(10, 10, slots)
	if len(ns) > 0 {
		for i := range rapid.IntRange(0, 2).Draw(t, "messages far ahead") {
			ns[rapid.IntRange(0, len(ns)-1).Draw(t, "slot")] = 6000 + i
		}
	}
	return uniqueInOrder(ns)
}

func uniqueInOrder(ns []int) []int {
	seen := map[int]bool{}
	kept := ns[:0]
	for _, n := range ns {
		if !seen[n] {
			kept = append(kept, n)
		}
		seen[n] = true
	}
	return kept
}

// drawMessages draws messages to deliver: duplicates, messages older than some floor, new ones, and ones that are
// far ahead.
func drawMessages(t *rapid.T, prefilled []int) []int {
	kinds := []*rapid.Generator[int]{
		rapid.Map(rapid.IntRange(0, 160), func(n int) int { return n*10 + 5 }),
		rapid.IntRange(3000, 3010),
		rapid.IntRange(6000, 6004),
	}
	if len(prefilled) > 0 {
		kinds = append(kinds, rapid.SampledFrom(prefilled))
	}
	ns := rapid.SliceOfN(rapid.OneOf(kinds...), 1, 8).Draw(t, "messages")
	if rapid.IntRange(0, 9).Draw(t, "size") == 0 {
		ns = append(ns, numbers(4000, 1, rapid.IntRange(45, 110).Draw(t, "many"))...)
	}
	return ordered(ns)
}

func drawJobs(t *rapid.T, pool []int, prefilled inbox) []job {
	jobs := make([]job, rapid.IntRange(1, 3).Draw(t, "batches"))
	for i := range jobs {
		switch rapid.IntRange(0, 2).Draw(t, "part") {
		case 0:
			jobs[i].ns = pool
		case 1:
			jobs[i].ns = []int{rapid.SampledFrom(pool).Draw(t, "message")}
		default:
			from := rapid.IntRange(0, len(pool)-1).Draw(t, "from")
			to := rapid.IntRange(from+1, len(pool)).Draw(t, "to")
			jobs[i].ns = pool[from:to]
		}
		jobs[i].current = rapid.Bool().Draw(t, "current hint")
		jobs[i].hint = prefilled.hint(rapid.IntRange(0, len(prefilled)).Draw(t, "hint"))
	}
	return jobs
}

// randomWriters lets two or three writers append what is drawn, in a drawn order. Meanwhile entries are deleted, writers crash, and
// outcomes are lost.
func (s suite) randomWriters(t *testing.T) {
	t.Parallel()
	stores, owner := s.sizes(t), owners()
	rapid.Check(t, func(t *rapid.T) {
		store := stores.draw(t).Store
		ns := drawPrefill(t, store.Size())
		pool := drawMessages(t, ns)
		run := &randomRun{prefilled: ns, pool: pool, deleted: map[message.ID]bool{}}
		user := owner()
		prefill(t, store, user, ns)
		before := readInbox(t, store, user)
		require.NoError(t, before.check())
		jobs := make([][]job, rapid.IntRange(2, 3).Draw(t, "writers"))
		for i := range jobs {
			jobs[i] = drawJobs(t, pool, before)
		}
		run.stage = newStage(t, store, user, jobs)
		defer run.stop()
		run.play(t)
		run.finish(t)
	})
}

type randomRun struct {
	*stage
	prefilled, pool []int
	deleted         map[message.ID]bool
	faulty          bool
	// between, unless it is nil, is called before each step.
	between func(t *rapid.T)
}

// play steps the writers until all have finished.
func (r *randomRun) play(t *rapid.T) {
	faults := rapid.Bool().Draw(t, "faults")
	for left := r.runnable(); len(left) > 0; left = r.runnable() {
		if rapid.IntRange(0, 19).Draw(t, "delete") == 0 {
			r.deleteOne(t)
		}
		if r.between != nil {
			r.between(t)
		}
		f := noFault
		if faults {
			f = rapid.SampledFrom([]fault{noFault, noFault, noFault, noFault, noFault, loseOutcome, crashBefore, crashAfter}).Draw(t, "fault")
		}
		if f != noFault {
			r.faulty = true
		}
		w := left[rapid.IntRange(0, len(left)-1).Draw(t, "writer")]
		requireSound(t, r.step(t, w, f), "after a step")
	}
}

func (r *randomRun) deleteOne(t *rapid.T) {
	there := r.seen.entries()
	if len(there) == 0 {
		return
	}
	victim := there[rapid.IntRange(0, len(there)-1).Draw(t, "slot of the victim")].ID
	hint := r.seen.hint(rapid.IntRange(0, len(r.seen)-1).Draw(t, "hint of the deletion"))
	err := bucket.Delete(t.Context(), r.store, r.owner, hint, victim)
	require.NoError(t, err)
	r.deleted[victim] = true
	requireSound(t, r.check(t), "after a deletion")
}

// finish redelivers everything and looks at what is in the inbox in the end.
func (r *randomRun) finish(t *rapid.T) {
	var tried []int
	added := 0
	for _, w := range r.writers {
		added += w.added
		for _, j := range w.jobs {
			tried = append(tried, j.ns...)
		}
	}
	grown := len(r.seen.entries()) - len(r.prefilled)
	if r.faulty {
		require.LessOrEqual(t, added, grown, "nobody reports as new what they did not add")
	} else {
		require.Equal(t, grown, added, "every message is new to exactly one writer")
	}
	requireSound(t, r.redeliver(t, ordered(tried)), "in the end")
	want := ordered(append(tried, r.prefilled...))
	require.Len(t, r.seen.entries(), len(want), "nothing is in the inbox that was not delivered")
	for _, e := range r.seen.entries() {
		require.Equal(t, r.deleted[e.ID], e.Deleted, "%s is deleted if somebody did, and stays it", e.ID)
	}
}
