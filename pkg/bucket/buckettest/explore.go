package buckettest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// scenario is an inbox and writers that append to it at the same time.
type scenario struct {
	// prefilled are the messages in the inbox before, in the order of their slots.
	prefilled []int
	// deleted are those of them that were deleted.
	deleted []int
	// writers are the batches that each writer appends, with the bucket that its hint names.
	writers []delivery
	// switches bounds how often an interleaving may leave a writer that could go on; 0 is without a bound.
	switches int
}

// delivery is what one writer appends.
type delivery struct {
	ns   []int
	hint int
}

// set prepares an inbox of a new owner, and the writers.
func (sc scenario) set(t *testing.T, store bucket.Store, owner message.UserID) *stage {
	t.Helper()
	prefill(t, store, owner, sc.prefilled)
	before := readInbox(t, store, owner)
	for _, n := range sc.deleted {
		require.NoError(t, bucket.Delete(t.Context(), store, owner, bucket.Hint{}, id(n)))
	}
	jobs := make([][]job, len(sc.writers))
	for i, d := range sc.writers {
		jobs[i] = []job{{ns: ordered(d.ns), hint: before.hint(d.hint)}}
	}
	return newStage(t, store, owner, jobs)
}

// delivered returns what the writers append, and what was deleted.
func (sc scenario) delivered() []int {
	var ns []int
	for _, d := range sc.writers {
		ns = append(ns, d.ns...)
	}
	return ordered(append(ns, sc.deleted...))
}

// finish redelivers everything, and demands that the inbox holds what it should: nothing missing, nothing twice,
// nothing else, and nothing back that was deleted.
func (sc scenario) finish(t *testing.T, s *stage, how any) {
	t.Helper()
	requireSound(t, s.redeliver(t, sc.delivered()), how)
	require.Len(t, s.seen.entries(), len(ordered(append(sc.delivered(), sc.prefilled...))), "%v", how)
	for _, n := range sc.deleted {
		require.Contains(t, s.seen.entries(), bucket.Entry{ID: id(n), Deleted: true}, "%v", how)
	}
}

// someInterleavings runs the scenario for so many orders in which the writers' operations can follow each other, drawn at
// random, the same each time.
func (sc scenario) someInterleavings(t *testing.T, store bucket.Store, some int) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // it shall be the same each time
	for run := range some {
		sc.interleaving(t, store, interleavingOwner(run), random.IntN)
	}
}

// everyInterleaving runs the scenario once for every order in which the writers' operations can follow each other.
// In short mode, no writer is left that could go on but once.
func (sc scenario) everyInterleaving(t *testing.T, store bucket.Store) {
	t.Helper()
	if testing.Short() {
		sc.switches = 1
	}
	var path, width []int // the choices of this run, and how many there were at each
	for run := 0; ; run++ {
		depth := 0
		sc.interleaving(t, store, interleavingOwner(run), func(choices int) int {
			if depth == len(path) {
				path, width = append(path, 0), append(width, 0)
			}
			width[depth] = choices
			depth++
			return path[depth-1]
		})
		path = path[:depth]
		for len(path) > 0 && path[len(path)-1] == width[len(path)-1]-1 {
			path = path[:len(path)-1]
		}
		if len(path) == 0 {
			t.Logf("%d interleavings", run+1)
			return
		}
		path[len(path)-1]++
		width = width[:len(path)]
	}
}

func interleavingOwner(run int) message.UserID {
	return message.UserID(fmt.Sprintf("interleaving-%d", run))
}

// interleaving runs the scenario once, in an inbox of its own. Choose returns which of so many writers goes on.
func (sc scenario) interleaving(t *testing.T, store bucket.Store, owner message.UserID, choose func(choices int) int) {
	t.Helper()
	s := sc.set(t, store, owner)
	t.Cleanup(s.stop)
	var running *writer
	var how []string
	switches := 0
	for choices := s.runnable(); len(choices) > 0; choices = s.runnable() {
		if running != nil && running.next != "" && sc.switches > 0 && switches == sc.switches {
			choices = []*writer{running}
		}
		next := choices[choose(len(choices))]
		if running != nil && running != next && running.next != "" {
			switches++
		}
		running = next
		how = append(how, s.name(next))
		requireSound(t, s.step(t, next, noFault), how)
	}
	added := 0
	for _, w := range s.writers {
		added += w.added
	}
	require.Equal(t, sc.fresh(), added, "every message is new to exactly one writer: %v", how)
	if len(s.seen) > (len(sc.prefilled)+bucket.Capacity-1)/bucket.Capacity && len(s.seen) > 1 {
		require.Equal(t, s.seen.hint(len(s.seen)-1), s.hints.hint, "whoever creates a bucket raises the hint: %v", how)
	}
	sc.finish(t, s, how)
}

// fresh returns how many messages the writers can add.
func (sc scenario) fresh() int {
	fresh := sc.delivered()
	return len(slices.DeleteFunc(fresh, func(n int) bool { return slices.Contains(sc.prefilled, n) }))
}

// everyFault runs the scenario's writers one after the other, once for every operation and everything that can
// befall it.
func (sc scenario) everyFault(t *testing.T, store bucket.Store) {
	t.Helper()
	for _, f := range []fault{crashBefore, crashAfter, loseOutcome} {
		for at, more := 0, true; more; at++ {
			s := sc.set(t, store, message.UserID(fmt.Sprintf("fault-%d-%d", f, at)))
			t.Cleanup(s.stop)
			var how []string
			more = false
			for step := 0; len(s.runnable()) > 0; step++ {
				befalls := noFault
				if step == at {
					befalls, more = f, true
				}
				next := s.runnable()[0]
				how = append(how, fmt.Sprint(s.name(next), " fault ", befalls))
				requireSound(t, s.step(t, next, befalls), how)
			}
			sc.finish(t, s, how)
		}
	}
}

func (s *stage) name(w *writer) string {
	for i := range s.writers {
		if s.writers[i] == w {
			return fmt.Sprint(i, ":", w.next)
		}
	}
	return ""
}
