package statemachine_test

import (
	"flag"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/test/statemachine/rig"
	"github.com/fanmail/fanmail/test/testenv"
)

// world is what a test runs in: a store, and a bus of its own.
type world struct {
	backend rig.Backend
	bus     *rig.Bus
	// checks and schedules are how many are tried, unless flags say otherwise: each of them is hundreds of operations.
	checks    int
	schedules uint64
	// everyAction says that a test fails if one of its actions has always skipped.
	everyAction bool
	// done counts by name the actions that did not skip.
	done map[string]int
}

// tableEntries are the numbers of entries in a partition from which an embedded store writes tables: 0 for never, 1 for every push.
var tableEntries = []int{0, 1, 2}

// from returns the backend, which writes pushes from a number of entries as tables if it is embedded.
func (w world) from(tableEntries int) rig.Backend {
	if e, ok := w.backend.(rig.Embedded); ok {
		e.TableEntries = tableEntries
		return e
	}
	return w.backend
}

// drawBackend draws from how many entries on the backend writes tables.
func (w world) drawBackend(t *rapid.T) rig.Backend {
	return w.from(rapid.SampledFrom(tableEntries).Draw(t, "entries of a table"))
}

// onEachStore runs a test on the embedded store and on MongoDB, where every operation is a round trip, so that less is tried.
func onEachStore(t *testing.T, mongoDB func(*testing.T) *rig.MongoDB, test func(t *testing.T, w world)) {
	t.Helper()
	checks := 80 // exact tests find most mistakes first
	if testenv.Long {
		checks = 1500
	}
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		w := world{backend: rig.Embedded{}, bus: rig.NewBus(t, rig.Partitions), checks: checks, schedules: uint64(checks) / 2, everyAction: testenv.Long}
		test(t, w)
	})
	if testenv.OnMongoDB {
		t.Run("mongodb", func(t *testing.T) {
			t.Parallel()
			test(t, world{backend: mongoDB(t), bus: rig.NewBus(t, rig.Partitions), checks: 10, schedules: 15})
		})
	}
}

// rapidFlags is held while rapid reads its flags, which belong to the whole process.
var rapidFlags sync.Mutex

// idleRounds bounds how often the checks are repeated for an action that has always skipped. One round rarely leaves out an action that can do
// something, and so many rounds never do.
const idleRounds = 20

// check checks a property on each store. On the embedded store, it repeats the checks until each action has done something.
func check(t *testing.T, property func(t *rapid.T, w world)) {
	t.Helper()
	onEachStore(t, rig.NewMongoDB, func(t *testing.T, w world) {
		t.Helper()
		w.done = make(map[string]int)
		for round := 1; ; round++ {
			w.checkOnce(t, property)
			idle := slices.DeleteFunc(slices.Sorted(maps.Keys(w.done)), func(name string) bool { return w.done[name] > 0 })
			if len(idle) == 0 || !w.everyAction || given["rapid.checks"] {
				break
			}
			require.Less(t, round, idleRounds, "these actions have always skipped: %v", idle)
		}
		t.Logf("actions: %v", w.done)
	})
}

// checkOnce makes one round of checks.
func (w world) checkOnce(t *testing.T, property func(t *rapid.T, w world)) {
	t.Helper()
	rapidFlags.Lock()
	haveBeenRead := sync.OnceFunc(rapidFlags.Unlock)
	defer haveBeenRead()
	if !given["rapid.checks"] {
		require.NoError(t, flag.Set("rapid.checks", strconv.Itoa(w.checks)))
	}
	rapid.Check(t, func(t *rapid.T) {
		haveBeenRead()
		property(t, w)
	})
}
