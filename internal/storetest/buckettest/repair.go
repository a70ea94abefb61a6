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

func fromFuture(m message.ID) bool { return !m.Less(id(future)) }

// judge judges the messages from the future void.
func judge(_ context.Context, refs []message.Ref) (map[message.ID]bool, error) {
	verdicts := make(map[message.ID]bool)
	for _, ref := range refs {
		verdicts[ref.ID] = fromFuture(ref.ID)
	}
	return verdicts, nil
}

// poisonings are inboxes with a message from the future that writers and repairers change at the same time.
func poisonings() map[string]scenario {
	return map[string]scenario{
		"a bucket that was read with room": {
			prefilled: append([]int{future}, numbers(10, 10, 48)...),
			writers:   []delivery{{ns: []int{1000}}, {ns: []int{1001}}}, repairers: 1, switches: 2,
		},
		"a new bucket above the one that is repaired": {
			prefilled: slices.Concat([]int{future}, numbers(10, 10, 49), []int{future + 1}, numbers(1000, 10, 48)),
			writers:   []delivery{{ns: []int{5, 3000, 3001}, hint: 1}}, repairers: 1, switches: 2,
		},
		"two repairers and a late message": {
			prefilled: append([]int{future}, numbers(10, 10, 98)...),
			writers:   []delivery{{ns: []int{5, 2000}, hint: 1}}, repairers: 2, switches: 1,
		},
	}
}

// testPoisonings runs every poisoning under every interleaving, or as many as the harness wants.
func (s suite) testPoisonings(t *testing.T) {
	for name, sc := range poisonings() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := s.open(t)
			if h.Interleavings > 0 {
				sc.someInterleavings(t, h.Store, h.Interleavings)
			} else {
				sc.everyInterleaving(t, h.Store)
			}
		})
	}
}

// join starts a repairer. It stands before its first operation.
func (s *stage) join(t tester) {
	t.Helper()
	w := &writer{parked: make(chan string), resume: make(chan fault)}
	s.writers = append(s.writers, w)
	go s.repair(t.Context(), w)
	w.next = <-w.parked
}

func (s *stage) repair(ctx context.Context, w *writer) {
	defer close(w.parked)
	seam := &Seam{Store: s.store, Before: w.before, After: w.afterwards}
	if _, err := bucket.Repair(ctx, seam, s.owner, judge); err != nil && !errors.Is(err, errCrashed) {
		w.failed = err
	}
}

// covered returns what is wrong with an inbox that may be poisoned, or nil. Its bounds may be higher than they have to be.
func (in inbox) covered() error {
	var floor, below message.ID
	seen := map[message.ID]uint32{}
	for i, b := range in {
		switch {
		case b.Sequence != in.place(i):
			return fmt.Errorf("bucket %d is in the place of bucket %d", b.Sequence, in.place(i))
		case b.Floor.Less(floor):
			return fmt.Errorf("the floor of bucket %d is below that of the bucket before", i)
		case b.Floor.Less(below):
			return fmt.Errorf("the floor of bucket %d is %s, below %s, which is in an earlier bucket", i, b.Floor, below)
		case i < len(in)-1 && !b.Full():
			return fmt.Errorf("bucket %d follows bucket %d with %d slots", i+1, i, b.Slots())
		}
		floor = b.Floor
		for _, e := range b.Entries {
			if other, twice := seen[e.ID]; twice {
				return fmt.Errorf("%s is in bucket %d and in bucket %d", e.ID, other, i)
			}
			seen[e.ID] = b.Sequence
			if below.Less(e.ID) && (!e.Deleted || !fromFuture(e.ID)) {
				below = e.ID
			}
		}
		if b.Stub {
			below = greatest(below, b.Last)
		}
		if b.Last.Less(below) {
			return fmt.Errorf("the last of bucket %d is %s, below %s", i, b.Last, below)
		}
	}
	return nil
}

// requireHealed repairs the inbox, with nothing beside it, and demands that its bounds are as low as can be, that a second repair finds
// nothing, and that Delete finds everything.
func (s *stage) requireHealed(t tester, how any) {
	t.Helper()
	_, err := bucket.Repair(t.Context(), s.store, s.owner, judge)
	require.NoError(t, err, "%v", how)
	again, err := bucket.Repair(t.Context(), s.store, s.owner, judge)
	require.NoError(t, err, "%v", how)
	require.Zero(t, again, "%v", how)
	in := readInbox(t, s.store, s.owner)
	var honest message.ID
	for _, b := range in {
		require.Equal(t, honest, b.Floor, "the floor of bucket %d: %v", b.Sequence, how)
		for _, e := range b.Entries {
			require.Equal(t, fromFuture(e.ID), fromFuture(e.ID) && e.Deleted, "%v", how)
			if honest.Less(e.ID) && !fromFuture(e.ID) {
				honest = e.ID
			}
		}
		require.Equal(t, honest, b.Last, "the last of bucket %d: %v", b.Sequence, how)
	}
	for _, e := range in.entries() {
		if !fromFuture(e.ID) {
			require.NoError(t, bucket.Delete(t.Context(), s.store, s.owner, bucket.Hint{}, e.ID), "%v", how)
		}
	}
}

// randomRepairs lets writers append and repairers repair what is drawn, in the order that is drawn, while entries are deleted, and writers
// and repairers crash.
func (s suite) randomRepairs(t *testing.T) {
	t.Parallel()
	store := s.open(t).Store
	owner := owners()
	rapid.Check(t, func(t *rapid.T) {
		ns, capacities := drawPrefill(t)
		for i := range rapid.IntRange(1, 2).Draw(t, "messages from the future") {
			ns = slices.Insert(ns, rapid.IntRange(0, len(ns)).Draw(t, "slot"), future+i)
		}
		pool := drawMessages(t, slices.DeleteFunc(slices.Clone(ns), func(n int) bool { return n >= future }))
		run := &randomRun{prefilled: ns, pool: pool, deleted: map[message.ID]bool{}}
		user := owner()
		prefill(t, store, user, ns, capacities...)
		jobs := make([][]job, rapid.IntRange(1, 2).Draw(t, "writers"))
		for i := range jobs {
			jobs[i] = drawJobs(t, pool, readInbox(t, store, user))
		}
		run.stage = newStage(t, store, user, jobs)
		run.poison()
		for range rapid.IntRange(1, 2).Draw(t, "repairers") {
			run.join(t)
		}
		defer run.stop()
		run.play(t)
		var tried []int
		for _, w := range run.writers {
			for _, j := range w.jobs {
				tried = append(tried, j.ns...)
			}
		}
		requireSound(t, run.redeliver(t, ordered(tried)), "in the end")
		for _, e := range run.seen.entries() {
			require.True(t, fromFuture(e.ID) || run.deleted[e.ID] == e.Deleted, "%s is deleted if its owner did, and stays it", e.ID)
		}
		run.requireHealed(t, "in the end")
	})
}

// poison tells a stage that bounds may be too high, and may fall.
func (s *stage) poison() { s.poisoned, s.hints.lowered = true, true }
