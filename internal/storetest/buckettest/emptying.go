package buckettest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// emptyings are inboxes that writers append to, and that emptiers empty at the same time. Each emptier has a purge point, which may be an old
// one. The owner's purge point is the greatest of them.
func emptyings() map[string]scenario {
	return map[string]scenario{
		"a push onto a bucket that is emptied before it": {
			prefilled: numbers(10, 10, 49),
			writers:   []delivery{{ns: []int{500, 600}}, {ns: []int{600}}}, emptiers: []int{500}, switches: 2,
		},
		"a push that creates a bucket that is emptied before it": {
			prefilled: numbers(10, 10, 50),
			writers:   []delivery{{ns: numbers(1000, 10, 51)}, {ns: []int{1000}}}, emptiers: []int{1490}, switches: 2,
		},
		"a late message": {
			prefilled: numbers(10, 10, 120),
			writers:   []delivery{{ns: []int{5, 2000}, hint: 1}, {ns: []int{5, 695}}}, emptiers: []int{700}, switches: 1,
		},
		"purge points that are older than others": {
			prefilled: numbers(10, 10, 99),
			deleted:   []int{10, 500, 990},
			writers:   []delivery{{ns: []int{10, 300, 995, 2000}, hint: 1}}, emptiers: []int{300, 995}, switches: 2,
		},
		"buckets of two slots": {
			prefilled: numbers(10, 10, 5), size: 2,
			writers: []delivery{{ns: []int{5, 60, 70}}, {ns: []int{60, 80}, hint: 1}}, emptiers: []int{60}, switches: 1,
		},
		"a head that is emptied when it is full": {
			prefilled: numbers(10, 10, 49),
			writers:   []delivery{{ns: []int{495}}, {ns: []int{5, 496}}}, emptiers: []int{496}, switches: 2,
		},
	}
}

func (s suite) testEmptyings(t *testing.T) { s.runScenarios(t, emptyings()) }

// joinEmptier starts an emptier. It stands before its first operation.
func (s *stage) joinEmptier(t tester, purged message.ID) {
	t.Helper()
	s.purged = greatest(s.purged, purged)
	w := &writer{parked: make(chan string), resume: make(chan fault)}
	s.writers = append(s.writers, w)
	go s.empty(t.Context(), w, purged)
	w.next = <-w.parked
}

func (s *stage) empty(ctx context.Context, w *writer, purged message.ID) {
	defer close(w.parked)
	seam := &Seam{Store: s.store, Before: w.before, After: w.afterwards}
	emptying := bucket.NewEmptying(seam, s.owner, bucket.Hint{}, purged)
	for more := true; more; {
		var err error
		if _, more, err = emptying.Step(ctx, 1); err != nil {
			if !errors.Is(err, errCrashed) {
				w.failed = err
			}
			return
		}
	}
}

// lose compares what has expired in an inbox with the purge point, and what stubs held with what is there.
func (s *stage) lose(now inbox) error {
	for _, b := range now {
		if b.Stub && s.purged.Less(b.Last) {
			return fmt.Errorf("bucket %d is a stub with the last %s, and %s is the purge point", b.Sequence, b.Last, s.purged)
		}
		if s.purged.Less(b.Purged) {
			return fmt.Errorf("bucket %d was emptied up to %s, and %s is the purge point", b.Sequence, b.Purged, s.purged)
		}
		for slot, e := range b.Entries {
			switch {
			case e.Expired && b.Purged.Less(e.ID):
				return fmt.Errorf("%s in slot %d of bucket %d has expired, and the bucket was emptied up to %s", e.ID, slot, b.Sequence, b.Purged)
			case s.gone[e.ID]:
				return fmt.Errorf("%s is back in slot %d of bucket %d", e.ID, slot, b.Sequence)
			}
		}
	}
	for _, was := range s.seen {
		if b, _ := now.at(was.Sequence); !b.Stub {
			continue
		}
		for _, e := range was.Entries {
			if s.gone == nil {
				s.gone = map[message.ID]bool{}
			}
			s.gone[e.ID] = true
		}
	}
	return nil
}

// requireEmptied empties the inbox, with nothing beside it, and demands that nothing is left of what has expired, and all of what has not.
func (sc scenario) requireEmptied(t tester, s *stage, how any) {
	t.Helper()
	s.requireEmptied(t, ordered(append(sc.delivered(), sc.prefilled...)), func(n int) bool { return slices.Contains(sc.deleted, n) }, how)
}

func (s *stage) requireEmptied(t tester, ns []int, deleted func(n int) bool, how any) {
	t.Helper()
	emptying := bucket.NewEmptying(s.store, s.owner, bucket.Hint{}, s.purged)
	for more := true; more; {
		var err error
		_, more, err = emptying.Step(t.Context(), 3)
		require.NoError(t, err)
	}
	requireSound(t, s.check(t), how)
	for _, b := range s.seen {
		require.True(t, b.Stub || b.Slots < int(s.store.Size()) || s.purged.Less(b.Last) || b.Sequence == s.seen[len(s.seen)-1].Sequence, "bucket %d: %v", b.Sequence, how)
		for _, e := range b.Entries {
			require.Equal(t, !e.Deleted && !s.purged.Less(e.ID), e.Expired, "%s: %v", e.ID, how)
		}
	}
	there := s.seen.entries()
	for _, n := range ns {
		want := entry(n)
		if deleted(n) {
			want = bucket.Entry{ID: id(n), Deleted: true}
		}
		if s.purged.Less(id(n)) {
			require.Contains(t, there, want, "%v", how)
		}
	}
}

// randomEmptyings lets writers append and emptiers empty what is drawn, in the order that is drawn, while entries are deleted, and processes
// crash.
func (s suite) randomEmptyings(t *testing.T) {
	t.Parallel()
	stores, owner := s.sizes(t), owners()
	rapid.Check(t, func(t *rapid.T) {
		store := stores.draw(t).Store
		ns := drawPrefill(t, store.Size())
		pool := drawMessages(t, ns)
		run := &randomRun{prefilled: ns, pool: pool, deleted: map[message.ID]bool{}, faulty: true}
		user := owner()
		prefill(t, store, user, ns)
		before := readInbox(t, store, user)
		jobs := make([][]job, rapid.IntRange(1, 2).Draw(t, "writers"))
		for i := range jobs {
			jobs[i] = drawJobs(t, pool, before)
		}
		run.stage = newStage(t, store, user, jobs)
		defer run.stop()
		for range rapid.IntRange(1, 3).Draw(t, "emptiers") {
			run.joinEmptier(t, id(rapid.SampledFrom(append([]int{5, 495, 3000, 6001}, ns...)).Draw(t, "purge point")))
		}
		run.play(t)
		var tried []int
		for _, w := range run.writers {
			for _, j := range w.jobs {
				tried = append(tried, j.ns...)
			}
		}
		requireSound(t, run.redeliver(t, ordered(tried)), "in the end")
		run.requireEmptied(t, ordered(append(tried, ns...)), func(n int) bool { return run.deleted[id(n)] }, "in the end")
	})
}
