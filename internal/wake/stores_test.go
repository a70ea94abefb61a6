package wake_test

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/internal/wake"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// TestWritesWake calls every method of the stores, one after another: those that change what a stream of ann shows wake it, and no other stream.
func TestWritesWake(t *testing.T) {
	t.Parallel()
	db, err := pebblestore.Open(t.Context(), "store", pebblestore.Options{FS: vfs.NewMem(), Now: time.Now, Logger: zerolog.Nop(), CacheBytes: 1 << 20, MemTableBytes: 1 << 20})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	hub := wake.New(wake.Options{})
	buckets, users, flags := wake.Buckets(db.Inbox(), hub), wake.Users(db.Users(), hub), wake.Flags(db.Flags(), hub)
	ann, ben := hub.Watch("ann"), hub.Watch("ben")

	id := messagetest.ID
	seen := storetest.Seen("ann", messagetest.Epoch, time.Hour)
	leased := seen
	leased.Lease = userstate.Lease{Token: "worker"}
	heads := []bucket.Head{{Owner: "ann"}, {Owner: "ben"}}
	both, records := []message.UserID{"ann", "ben"}, flag.Record{Owner: "ann", Revision: 1, MessagesAt: 1, Messages: []flag.Message{{ID: id(1), Flags: flag.Read}}}
	push := func(ctx context.Context) error {
		_, err := buckets.Push(ctx, []bucket.Push{{Owner: "ann", Entries: []bucket.Entry{{ID: id(1)}, {ID: id(2)}, {ID: id(3)}}}, {Owner: "ben", Sequence: 7, Entries: []bucket.Entry{{ID: id(1)}}}})
		return err
	}
	step := func(from, to userstate.State) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := users.Step(ctx, []userstate.Step{{From: from, To: to}})
			return err
		}
	}
	methods := make(map[string]bool)
	for _, call := range []struct {
		name  string
		do    func(context.Context) error
		wakes bool
	}{
		{"Store.Size", func(context.Context) error { buckets.Size(); return nil }, false},
		{"Store.Push", push, true},
		{"Store.Push again", push, false},
		{"Store.Persist", buckets.Persist, false},
		{"Store.Heads", func(ctx context.Context) error { _, err := buckets.Heads(ctx, heads); return err }, false},
		{"Store.Range", func(ctx context.Context) error {
			_, err := buckets.Range(ctx, []bucket.Section{{Owner: "ann"}}, bucket.AllFields)
			return err
		}, false},
		{"Store.Newest", func(ctx context.Context) error { _, _, err := buckets.Newest(ctx, "ann", 0, 2, 0); return err }, false},
		{"Store.Deletions", func(ctx context.Context) error { _, err := buckets.Deletions(ctx, heads); return err }, false},
		{"Store.Delete", func(ctx context.Context) error { return buckets.Delete(ctx, "ann", 0, id(1)) }, true},
		{"Store.Blank", func(ctx context.Context) error { return buckets.Blank(ctx, "ann", 0, 1, id(2)) }, true},
		{"Store.Empty", func(ctx context.Context) error { _, err := buckets.Empty(ctx, "ann", 0, 0, id(3)); return err }, true},
		{"Store.Step", step(userstate.State{User: "ann"}, seen), true},
		{"Store.Step again", step(userstate.State{User: "ann"}, seen), false},
		{"Store.Step of a lease", step(seen, leased), false},
		{"Store.RaiseHeads", func(ctx context.Context) error { return users.RaiseHeads(ctx, heads) }, false},
		{"Store.View", func(ctx context.Context) error {
			_, err := users.View(ctx, []userstate.View{{User: "ann", At: messagetest.Epoch.Add(time.Minute)}})
			return err
		}, false},
		{"Store.Due", func(ctx context.Context) error { _, err := users.Due(ctx, userstate.Dead{}, 1); return err }, false},
		{"Store.List", func(ctx context.Context) error { _, err := users.List(ctx, 0, "", 1); return err }, false},
		{"Store.Lookup", func(ctx context.Context) error {
			_, err := users.Lookup(ctx, both)
			_, other := flags.Lookup(ctx, both)
			return errors.Join(err, other)
		}, false},
		{"Store.Replace", func(ctx context.Context) error { _, err := flags.Replace(ctx, records); return err }, true},
	} {
		require.NoError(t, call.do(t.Context()), call.name)
		require.Equal(t, call.wakes, woken(ann), call.name)
		require.False(t, woken(ben), call.name)
		methods[strings.Fields(strings.TrimPrefix(call.name, "Store."))[0]] = true
	}
	declared := make(map[string]bool)
	for _, store := range []reflect.Type{reflect.TypeFor[bucket.Store](), reflect.TypeFor[userstate.Store](), reflect.TypeFor[flag.Store]()} {
		for method := range store.Methods() {
			declared[method.Name] = true
		}
	}
	require.Equal(t, slices.Sorted(maps.Keys(declared)), slices.Sorted(maps.Keys(methods)))
}

// stub applies everything, or fails after it has.
type stub struct {
	bucket.Store
	err error
}

func (s stub) Push(_ context.Context, pushes []bucket.Push) ([]bucket.Outcome, error) {
	if s.err != nil {
		return nil, s.err
	}
	return slices.Repeat([]bucket.Outcome{{Applied: true}}, len(pushes)), nil
}

type stubUsers struct {
	userstate.Store
	err error
}

func (s stubUsers) Step(_ context.Context, steps []userstate.Step) ([]userstate.Stepped, error) {
	if s.err != nil {
		return nil, s.err
	}
	return slices.Repeat([]userstate.Stepped{{Applied: true}}, len(steps)), nil
}

// A stream shows every field of a state but those that this test names.
func TestStepsThatStreamsShow(t *testing.T) {
	t.Parallel()
	hub := wake.New(wake.Options{})
	w := hub.Watch("ann")
	unseen := []string{"User", "LastViewed", "Lease", "Recovered", "Head", "Flagged", "Oldest", "Keep"}
	from := userstate.State{User: "ann"}
	for name, change := range map[string]func(*userstate.State){
		"LastViewed": func(s *userstate.State) { s.LastViewed = messagetest.Epoch },
		"Lease":      func(s *userstate.State) { s.Lease.Token = "worker" },
		"Recovered":  func(s *userstate.State) { s.Recovered = 1 },
		"Head":       func(s *userstate.State) { s.Head.Sequence = 1 },
		"Flagged":    func(s *userstate.State) { s.Flagged = true },
		"Oldest":     func(s *userstate.State) { s.Oldest = 1 },
		"Keep":       func(s *userstate.State) { s.Keep.Newest = 1 },
		"Horizon":    func(s *userstate.State) { s.Horizon = messagetest.Epoch },
		"Mark":       func(s *userstate.State) { s.Mark = new(userstate.Mark) },
		"Sweep":      func(s *userstate.State) { s.Sweep = new(userstate.Sweep) },
		"Gaps":       func(s *userstate.State) { s.Gaps = []userstate.Gap{{Messages: 1}} },
		"GapsMade":   func(s *userstate.State) { s.GapsMade = 1 },
		"ReadMark":   func(s *userstate.State) { s.ReadMark.UpTo = messagetest.ID(1) },
		"Seen":       func(s *userstate.State) { s.Seen = 1 },
		"Marks":      func(s *userstate.State) { s.Marks = 1 },
		"Purged":     func(s *userstate.State) { s.Purged = messagetest.ID(1) },
	} {
		to := from
		change(&to)
		for _, err := range []error{nil, errors.New("the reply was lost")} {
			_, got := wake.Users(stubUsers{err: err}, hub).Step(t.Context(), []userstate.Step{{From: from, To: to}})
			require.Equal(t, err, got)
			require.Equal(t, !slices.Contains(unseen, name), woken(w), name)
		}
	}
	require.Equal(t, 17, reflect.TypeFor[userstate.State]().NumField(), "decide whether a stream shows a new field")
}

func TestAPushWhoseReplyWasLostWakes(t *testing.T) {
	t.Parallel()
	hub, lost := wake.New(wake.Options{}), errors.New("the reply was lost")
	w := hub.Watch("ann")
	_, err := wake.Buckets(stub{err: lost}, hub).Push(t.Context(), []bucket.Push{{Owner: "ann"}})
	require.Equal(t, lost, err)
	require.True(t, woken(w))
}

// A fan-out pushes hundreds of thousands of entries in a second.
func TestNothingIsAllocatedWhenNobodyWatches(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts the allocations of parallel tests too
	hub, pushes := wake.New(wake.Options{}), make([]bucket.Push, 100)
	allocs := func(store bucket.Store) int {
		return int(testing.AllocsPerRun(100, func() { _, _ = store.Push(t.Context(), pushes) }))
	}
	require.Equal(t, allocs(stub{}), allocs(wake.Buckets(stub{}, hub)))
	hub.Watch("ann")
	require.Equal(t, allocs(stub{}), allocs(wake.Buckets(stub{}, hub)))
}
