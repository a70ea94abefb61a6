package buckettest

import (
	"cmp"
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
	// size is that of the buckets; 0 is bucket.Capacity.
	size int
	// deleted are those of them that were deleted.
	deleted []int
	// writers are the batches that each writer appends, with the bucket that its hint names.
	writers []delivery
	// emptiers are processes that empty the inbox, with the purge point of each.
	emptiers []int
	// switches bounds how often an interleaving may leave a writer that could go on; 0 is without a bound.
	switches int
}

// delivery is what one writer appends.
type delivery struct {
	ns   []int
	hint int
}

// runScenarios runs every scenario with every fault, under all interleavings or as many as the harness allows.
func (s suite) runScenarios(t *testing.T, scenarios map[string]scenario) {
	t.Helper()
	for name, sc := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := s.sized(t, cmp.Or(sc.size, bucket.Capacity))
			if h.Interleavings > 0 {
				sc.someInterleavings(t, h.Store, h.Interleavings)
			} else {
				sc.everyInterleaving(t, h.Store)
			}
			sc.everyFault(t, h.Store)
		})
	}
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
	s := newStage(t, store, owner, jobs)
	for _, p := range sc.emptiers {
		s.joinEmptier(t, id(p))
	}
	return s
}

// delivered returns the messages that the writers append, and the deleted messages.
func (sc scenario) delivered() []int {
	var ns []int
	for _, d := range sc.writers {
		ns = append(ns, d.ns...)
	}
	return ordered(append(ns, sc.deleted...))
}

// finish redelivers everything, and demands that the inboxes hold what they should: nothing missing, nothing twice,
// nothing else, and nothing back that was deleted. How tells how each of them came about.
func (sc scenario) finish(t *testing.T, stages []*stage, how [][]string) {
	t.Helper()
	wrong := redeliverAll(t, stages, sc.delivered())
	for i, how := range how {
		requireSound(t, wrong[i], how)
		if len(sc.emptiers) > 0 {
			sc.requireEmptied(t, stages[i], how)
			continue
		}
		seen := stages[i].seen.entries()
		require.Len(t, seen, len(ordered(append(sc.delivered(), sc.prefilled...))), "%v", how)
		for _, n := range sc.deleted {
			require.Contains(t, seen, bucket.Entry{ID: id(n), Deleted: true}, "%v", how)
		}
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
func (sc scenario) everyInterleaving(t *testing.T, store bucket.Store) {
	t.Helper()
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
	before := len(s.seen)
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
	if sc.emptiers != nil {
		require.LessOrEqual(t, added, sc.fresh(), "no message is new to two writers: %v", how)
	} else {
		require.Equal(t, sc.fresh(), added, "every message is new to exactly one writer: %v", how)
	}
	if sc.emptiers == nil && len(s.seen) > max(before, 1) {
		require.Equal(t, s.seen.hint(len(s.seen)-1), s.hints.hint, "whoever creates a bucket raises the hint: %v", how)
	}
	sc.finish(t, []*stage{s}, [][]string{how})
}

// fresh returns how many messages the writers can add.
func (sc scenario) fresh() int {
	fresh := sc.delivered()
	return len(slices.DeleteFunc(fresh, func(n int) bool { return slices.Contains(sc.prefilled, n) }))
}

// everyFault runs the scenario's writers one after the other, once for every operation and every fault that it can have. It leaves out
// faults with the same effect.
func (sc scenario) everyFault(t *testing.T, store bucket.Store) {
	t.Helper()
	var stages []*stage
	var hows [][]string
	run := func(befalls fault, at int) (first []bool, methods []string) {
		s := sc.set(t, store, message.UserID(fmt.Sprintf("fault-%d-%d", befalls, at)))
		t.Cleanup(s.stop)
		var how []string
		var last *writer
		for step := 0; len(s.runnable()) > 0; step++ {
			next := s.runnable()[0]
			f := noFault
			if step == at {
				f = befalls
			}
			first, methods = append(first, next != last), append(methods, next.next)
			how = append(how, fmt.Sprint(s.name(next), " fault ", f))
			requireSound(t, s.step(t, next, f), how)
			last = next
		}
		stages, hows = append(stages, s), append(hows, how)
		return first, methods
	}
	first, methods := run(noFault, 0)
	for at, method := range methods {
		if first[at] { // to crash before any other is to crash after the one before it
			run(crashBefore, at)
		}
		if method == "Push" || method == "RaiseHeads" { // others leave nothing behind
			run(crashAfter, at)
		}
		if method == "Push" {
			run(loseOutcome, at)
		}
	}
	sc.finish(t, stages, hows)
}

func (s *stage) name(w *writer) string {
	for i := range s.writers {
		if s.writers[i] == w {
			return fmt.Sprint(i, ":", w.next)
		}
	}
	return ""
}
