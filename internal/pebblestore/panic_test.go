package pebblestore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// engineCalls are the calls of the store that use Pebble.
func engineCalls(db *pebblestore.DB) map[string]func(ctx context.Context) error {
	m := messagetest.Message(1, "ada")
	ref, now := m.Ref(), messagetest.Epoch
	pairs := []follow.Pair{{Follower: "ann", Followee: "ada"}}
	key := message.Key{From: "ada", Key: "key", ID: m.ID, Expires: now.Add(time.Hour)}
	seen := userstate.State{User: "ann", LastViewed: now}
	heads := []bucket.Head{{Owner: "ann"}}
	first := func(_ any, err error) error { return err }
	step := progress.Move{ID: m.ID, To: progress.Scan{Done: true}}
	return map[string]func(ctx context.Context) error{
		"insert": func(ctx context.Context) error {
			return first(db.Messages().Insert(ctx, []message.Message{m}, message.Timing{}))
		},
		"get":      func(ctx context.Context) error { return first(db.Messages().Get(ctx, ref)) },
		"get many": func(ctx context.Context) error { return first(db.Messages().GetMany(ctx, []message.Ref{ref})) },
		"unfinished": func(ctx context.Context) error {
			return first(db.Messages().Unfinished(ctx, message.ID{}, message.MaxID, 9))
		},
		"reserve": func(ctx context.Context) error { return first(db.Keys().Reserve(ctx, key, now)) },
		"replace": func(ctx context.Context) error { return db.Keys().Replace(ctx, key, messagetest.ID(2)) },
		"forget":  func(ctx context.Context) error { return first(db.Keys().Forget(ctx, now, 9)) },
		"push": func(ctx context.Context) error {
			return first(db.Inbox().Push(ctx, []bucket.Push{{Owner: "ann", Entries: []bucket.Entry{bucket.EntryOf(m)}}}))
		},
		"delete": func(ctx context.Context) error { return db.Inbox().Delete(ctx, "ann", 0, m.ID) },
		"blank":  func(ctx context.Context) error { return db.Inbox().Blank(ctx, "ann", 0, 0, m.ID) },
		"heads":  func(ctx context.Context) error { return first(db.Inbox().Heads(ctx, heads)) },
		"range": func(ctx context.Context) error {
			return first(db.Inbox().Range(ctx, []bucket.Section{{Owner: "ann", High: 9, Late: message.MaxID}}, bucket.AllFields))
		},
		"deletions":   func(ctx context.Context) error { return first(db.Inbox().Deletions(ctx, heads)) },
		"persist":     func(ctx context.Context) error { return db.Inbox().Persist(ctx) },
		"look up":     func(ctx context.Context) error { return first(db.Users().Lookup(ctx, []message.UserID{"ann"})) },
		"due":         func(ctx context.Context) error { return first(db.Users().Due(ctx, userstate.Dead{}, 9)) },
		"raise heads": func(ctx context.Context) error { return db.Users().RaiseHeads(ctx, heads) },
		"view": func(ctx context.Context) error {
			return first(db.Users().View(ctx, []userstate.View{{User: "ann", At: now}}))
		},
		"step of a user": func(ctx context.Context) error {
			return first(db.Users().Step(ctx, []userstate.Step{{From: userstate.State{User: "ann"}, To: seen}}))
		},
		"follow":    func(ctx context.Context) error { return first(db.Edges().Follow(ctx, pairs, now)) },
		"unfollow":  func(ctx context.Context) error { return db.Edges().Unfollow(ctx, pairs[0], now) },
		"edges":     func(ctx context.Context) error { return first(db.Edges().Get(ctx, pairs)) },
		"following": func(ctx context.Context) error { return first(db.Edges().Following(ctx, "ann", "", 9)) },
		"plan":      func(ctx context.Context) error { return first(db.Progress().Plan(ctx, m.ID, "medium", []int{0}, now)) },
		"step":      func(ctx context.Context) error { return first(db.Progress().Step(ctx, []progress.Move{step}, now)) },
		"flags":     func(ctx context.Context) error { return first(flag.Get(ctx, db.Flags(), "ann")) },
		"replace flags": func(ctx context.Context) error {
			return first(db.Flags().Replace(ctx, flag.Record{Owner: "ann", Revision: 1}))
		},
		"load": func(ctx context.Context) error { return first(db.Settings().Load(ctx)) },
		"replace the settings": func(ctx context.Context) error {
			return db.Settings().Replace(ctx, settings.Record{}, settings.Record{})
		},
	}
}

// No lock outlives a panic inside a call, whatever the call is.
func TestNoLockOutlivesAPanic(t *testing.T) {
	t.Parallel()
	opts := options(t, vfs.NewMem())
	opts.TableEntries = 1
	db, err := pebblestore.Open(t.Context(), "store", opts)
	require.NoError(t, err)
	require.NoError(t, db.CloseEngine())
	for name, call := range engineCalls(db) {
		err := panics.Do(func() error { return call(t.Context()) })
		require.True(t, panics.Is(err), "%s: %v", name, err)
		require.Zero(t, db.HeldLocks(), name)
	}
	require.False(t, db.Syncing(messagetest.ID(1)))
}

// A panic in the middle of a push to many inboxes leaves a store that accepts the same pushes, and in which every entry is once.
func TestPushAfterAPanic(t *testing.T) {
	t.Parallel()
	db := open(t, vfs.NewMem())
	pushes := make([]bucket.Push, 40)
	for i := range pushes {
		pushes[i] = bucket.Push{Owner: message.UserID(fmt.Sprintf("owner-%d", i)), Guard: true}
	}
	last := slices.MaxFunc(pushes, func(a, b bucket.Push) int {
		return partition.Of(a.Owner, partitions) - partition.Of(b.Owner, partitions)
	})
	for n := 1; n <= 2; n++ {
		for i := range pushes {
			pushes[i].Entries = []bucket.Entry{bucket.EntryOf(messagetest.Message(n, "ada"))}
		}
		mend := db.BreakTail(last.Owner) // the push to the others is in the batch by then
		err := panics.Do(func() error {
			_, err := db.Inbox().Push(t.Context(), pushes)
			return err
		})
		require.True(t, panics.Is(err), "%v", err)
		require.Zero(t, db.HeldLocks())
		mend()
		_, err = db.Inbox().Push(t.Context(), pushes)
		require.NoError(t, err)
		for _, push := range pushes {
			buckets, err := bucket.ReadSection(t.Context(), db.Inbox(), bucket.Section{Owner: push.Owner, High: 9}, bucket.AllFields)
			require.NoError(t, err)
			require.Len(t, buckets, 1, push.Owner)
			require.Len(t, buckets[0].Entries, n, push.Owner)
		}
	}
}

// A panic while the store decodes a record leaves nothing open that would keep the store from closing.
func TestCloseAfterAPanic(t *testing.T) {
	t.Parallel()
	db := open(t, vfs.NewMem()) // which closes it
	_, err := db.Messages().Insert(t.Context(), []message.Message{messagetest.Message(1, "ada")}, message.Timing{})
	require.NoError(t, err)
	require.True(t, panics.Is(panics.Do(func() error { return db.PanicInGet(pebblestore.MessageKey(messagetest.ID(1))) })))
}

const fatalVariable = "FANMAIL_TEST_FATAL"

// Pebble's Fatalf, and a write at which Pebble panics, do not return and end the process, even if the caller recovers from panics.
func TestFatalEndsTheProcess(t *testing.T) {
	t.Parallel()
	if os.Getenv(fatalVariable) != "" {
		opts := options(t, vfs.NewMem())
		opts.Logger = zerolog.New(os.Stderr)
		err := panics.Do(func() error {
			if os.Getenv(fatalVariable) == "Fatalf" {
				pebblestore.EngineOptions(opts).Logger.Fatalf("the disk is %s", "gone")
			}
			db, err := pebblestore.Open(t.Context(), "store", opts)
			return errors.Join(err, db.Engine().Close(), db.Inbox().Persist(t.Context()), errors.New("the call has returned"))
		})
		t.Logf("survived: %v", err)
		return
	}
	for call, reason := range map[string]string{"Fatalf": "the disk is gone", "a write that panics": "a write has failed: panic: pebble: closed"} {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestFatalEndsTheProcess$")
		child.Env = append(os.Environ(), fatalVariable+"="+call)
		out, err := child.CombinedOutput()
		require.Error(t, err, "%s", out)
		require.Contains(t, string(out), "panic: pebblestore: "+reason)
		require.Contains(t, string(out), `"reason":"`+reason+`"`)
		require.Contains(t, string(out), "TestFatalEndsTheProcess", "the stack of the caller is missing")
		require.NotContains(t, string(out), "survived")
	}
}
