//go:build mongodb

package mongostore_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// every is how many replies to writes come for one that is lost or doubted. After each that is lost the driver waits for half a second
// before it connects again.
const every = 17

// badly runs a test with lost replies, and with replies that say that no majority has acknowledged the write.
func badly(t *testing.T, test func(t *testing.T, doubts bool)) {
	t.Helper()
	for name, doubts := range map[string]bool{"lost": false, "doubted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, doubts)
		})
	}
}

// losing returns a backend for a conformance suite over a network whose replies are bad.
func losing(t *testing.T, doubts bool) storetest.Backend {
	t.Helper()
	var lost atomic.Int64
	t.Cleanup(func() {
		if !t.Failed() {
			require.Positive(t, lost.Load(), "no reply was lost")
		}
	})
	emptyAt := func(t *testing.T, now func() time.Time) storetest.Database {
		t.Helper()
		_, opts := borrow(t)
		opts.Stamp = now
		network := badReplies(t, opts.URI, every, doubts)
		t.Cleanup(func() { lost.Add(int64(network.Lost())) })
		opts.URI = network.URI()
		return database(open(t, opts), opts)
	}
	empty := func(t *testing.T) storetest.Database { t.Helper(); return emptyAt(t, nil) }
	return storetest.Backend{New: empty, NewAt: emptyAt, Partitions: partitions}
}

func TestMessagesWithBadReplies(t *testing.T) {
	t.Parallel()
	badly(t, func(t *testing.T, doubts bool) {
		t.Helper()
		storetest.RunMessages(t, losing(t, doubts))
	})
}

func TestEdgesWithBadReplies(t *testing.T) {
	t.Parallel()
	badly(t, func(t *testing.T, doubts bool) {
		t.Helper()
		storetest.RunEdges(t, losing(t, doubts))
	})
}

// lossy opens an empty database over a network whose replies are bad.
func lossy(t *testing.T, doubts bool) *mongostore.DB {
	t.Helper()
	_, opts := borrow(t)
	network := badReplies(t, opts.URI, every, doubts)
	t.Cleanup(func() { require.Positive(t, network.Lost(), "no reply was lost") })
	opts.URI = network.URI()
	return open(t, opts)
}

// TestStatesWithBadReplies changes one state many times. While no other caller changes it, a caller that repeats a step after a
// bad reply learns that the step was applied. With other callers, it would receive their state instead, as after a crash. The
// conformance suites count winners, so they would count too few.
func TestStatesWithBadReplies(t *testing.T) {
	t.Parallel()
	badly(t, func(t *testing.T, doubts bool) {
		t.Helper()
		users := lossy(t, doubts).Users()
		at := userstate.State{User: "ann"}
		for n := range int64(60) {
			next := at
			next.LastViewed, next.Recovered = messagetest.Epoch.Add(time.Duration(n)*time.Second), n
			next.Horizon = next.LastViewed.Add(time.Hour)
			next.Lease.Token = fmt.Sprintf("$token-%d", n) // no expression, for all its looks
			stepped, err := users.Step(t.Context(), []userstate.Step{{From: at, To: next}})
			require.NoError(t, err)
			require.Equal(t, []userstate.Stepped{{State: next, Applied: true}}, stepped)
			at = next

			at.LastViewed = at.LastViewed.Add(time.Millisecond)
			viewed, err := users.View(t.Context(), []userstate.View{{User: "ann", At: at.LastViewed, Beyond: next.LastViewed}})
			require.NoError(t, err)
			require.True(t, viewed[0].Applied)
			at.Head = bucket.Hint{Sequence: uint32(n + 1), Floor: messagetest.ID(int(n))}
			require.NoError(t, users.RaiseHeads(t.Context(), []bucket.Head{{Owner: "ann", Hint: at.Head}}))
			require.Equal(t, at, lookup(t, users, "ann"))

			kept, none := userstate.State{User: "ben", Keep: userstate.Retention{Newest: n + 1}}, userstate.State{User: "ben"}
			stepped, err = users.Step(t.Context(), []userstate.Step{{From: none, To: kept}})
			require.NoError(t, err)
			require.Equal(t, []userstate.Stepped{{State: kept, Applied: true}}, stepped)
			stepped, err = users.Step(t.Context(), []userstate.Step{{From: kept, To: none}})
			require.NoError(t, err)
			require.Equal(t, none, stepped[0].State, "be it that the first reply was lost")
			require.Equal(t, none, lookup(t, users, "ben"))
		}
	})
}

// TestFlagsWithBadReplies replaces one record many times. A caller that repeats a replacement after a bad reply learns that it was stored.
func TestFlagsWithBadReplies(t *testing.T) {
	t.Parallel()
	badly(t, func(t *testing.T, doubts bool) {
		t.Helper()
		store := lossy(t, doubts).Flags()
		for n := range int64(60) {
			r := flag.Record{Owner: "ann", Revision: n + 1, Buckets: []flag.Bucket{{At: n + 1, Read: uint64(n + 1)}}}
			stored, err := store.Replace(t.Context(), r)
			require.NoError(t, err)
			require.True(t, stored)
			there, err := flag.Get(t.Context(), store, "ann")
			require.NoError(t, err)
			require.Equal(t, r, there)
		}
	})
}

// TestNewStatesWithBadReplies creates the records of many users in bulk. Exactly one caller learns that it created each record.
func TestNewStatesWithBadReplies(t *testing.T) {
	t.Parallel()
	badly(t, func(t *testing.T, doubts bool) {
		t.Helper()
		users := lossy(t, doubts).Users()
		for n := range 40 {
			var steps []userstate.Step
			for i := range 4 {
				user := message.UserID(fmt.Sprintf("user-%d-%d", n, i))
				steps = append(steps, userstate.Step{From: userstate.State{User: user}, To: userstate.State{User: user, LastViewed: messagetest.Epoch}})
			}
			for _, first := range []bool{true, false} {
				stepped, err := users.Step(t.Context(), steps)
				require.NoError(t, err)
				for i := range steps {
					require.Equal(t, userstate.Stepped{State: steps[i].To, Applied: first}, stepped[i])
				}
			}
		}
	})
}

func TestProgressWithBadReplies(t *testing.T) {
	t.Parallel()
	badly(t, func(t *testing.T, doubts bool) {
		t.Helper()
		store := lossy(t, doubts).Progress()
		for n := range 6 {
			id := messagetest.ID(n)
			_, err := store.Plan(t.Context(), id, "medium", []int{0, 1}, messagetest.Epoch)
			require.NoError(t, err)
			var from progress.Scan
			for i := range 20 {
				to := from.Join("").Advance(message.UserID(fmt.Sprintf("user-%03d", i)), false, progress.Counts{Delivered: 1, Skipped: 2})
				stepped, err := store.Step(t.Context(), []progress.Move{{ID: id, Partition: 1, From: from, To: to}}, messagetest.Epoch)
				require.NoError(t, err)
				require.Equal(t, []progress.Moved{{Applied: true, Scan: to}}, stepped)
				from = to
			}
		}
	})
}
