//go:build mongodb

package mongostore_test

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// plainReads are the operations that may read plainly, and the read concerns of their commands. All others are linearizable.
var plainReads = map[string][]string{
	"Messages.Get":        {"majority", "linearizable"}, // the second because the first does not find it
	"Messages.GetMany":    {"majority", "linearizable"},
	"Messages.Unfinished": {"majority"},
	"Messages.Oldest":     {"majority"},
	"Messages.Newest":     {"majority"},
	"Users.Due":           {"majority"},
	"Progress.List":       {"majority"},
}

// writes are the operations that write, or ask nothing.
var writes = []string{
	"Messages.Conclude", "Messages.Insert", "Messages.Remove", "Keys.Forget", "Keys.Replace", "Keys.Reserve", "Inbox.Blank", "Inbox.Delete", "Inbox.Empty",
	"Inbox.Persist", "Inbox.Push", "Inbox.Size", "Users.RaiseHeads", "Users.Step", "Users.View", "Edges.DropSpans", "Edges.End", "Edges.Follow", "Edges.Remove",
	"Edges.Subscribe", "Edges.Unfollow", "Progress.Plan", "Progress.Remove", "Progress.Step", "Settings.Forget", "Settings.Replace", "Settings.ReplaceTotals", "Settings.Report", "Retention.Replace",
	"Identities.Confirm", "Identities.Insert", "Identities.Remove", "Identities.ReplaceLists", "Identities.Withdraw", "Topics.Step", "Flags.Replace",
}

func reads(ctx context.Context, db *mongostore.DB) map[string]func() error {
	now, id, ref, ann := time.Now(), messagetest.ID(1), message.Ref{From: "ann", ID: messagetest.ID(1)}, []message.UserID{"ann"}
	ranges := []message.Range{{From: message.Topic("news").Source(), Before: message.MaxID}}
	m, u, p, i, e := db.Messages(), db.Users(), db.Progress(), db.Inbox(), db.Edges()
	two := func(_ any, err error) error { return err }
	three := func(_, _ any, err error) error { return err }
	return map[string]func() error{
		"Messages.Get":              func() error { return two(m.Get(ctx, ref)) },
		"Messages.GetMany":          func() error { return two(m.GetMany(ctx, []message.Ref{ref})) },
		"Messages.Unfinished":       func() error { return two(m.Unfinished(ctx, message.ID{}, message.MaxID, 1)) },
		"Messages.Oldest":           func() error { return two(m.Oldest(ctx, message.ID{}, id, 1)) },
		"Messages.Newest":           func() error { return three(m.Newest(ctx, "", id, 1)) },
		"Messages.AnyAfter":         func() error { return two(m.AnyAfter(ctx, id)) },
		"Messages.Endings":          func() error { return two(m.Endings(ctx, []message.Ref{ref})) },
		"Messages.ToFollowers":      func() error { return two(m.ToFollowers(ctx, ranges, message.NewestFirst, 1)) },
		"Messages.CountToFollowers": func() error { return two(m.CountToFollowers(ctx, ranges)) },
		"Messages.Naming":           func() error { return two(m.Naming(ctx, "ann", message.ID{}, message.MaxID, message.NewestFirst, 1)) },
		"Users.Due":                 func() error { return two(u.Due(ctx, userstate.Dead{Before: now, After: now}, 1)) },
		"Users.List":                func() error { return two(u.List(ctx, 0, "", 1)) },
		"Users.Lookup":              func() error { return two(u.Lookup(ctx, ann)) },
		"Progress.Get":              func() error { return two(p.Get(ctx, id)) },
		"Progress.GetMany":          func() error { return three(p.GetMany(ctx, []message.ID{id})) },
		"Progress.List":             func() error { return two(p.List(ctx, message.ID{}, id, 1)) },
		"Progress.Scans":            func() error { return three(p.Scans(ctx, 0, []message.ID{id})) },
		"Inbox.Deletions":           func() error { return two(i.Deletions(ctx, []bucket.Head{{Owner: "ann"}})) },
		"Inbox.Heads":               func() error { return two(i.Heads(ctx, []bucket.Head{{Owner: "ann"}})) },
		"Inbox.Newest":              func() error { return three(i.Newest(ctx, "ann", 0, 1, 0)) },
		"Inbox.Range":               func() error { return two(i.Range(ctx, []bucket.Section{{Owner: "ann", High: 1}}, bucket.AllFields)) },
		"Inbox.WithFacets":          func() error { return two(i.WithFacets(ctx, "ann", []attribute.FacetRange{{Low: 1, High: 1}}, 0, 1, 1)) },
		"Edges.Audience":            func() error { return two(e.Audience(ctx, []message.Source{"bob"}, 1)) },
		"Edges.Count":               func() error { return two(e.Count(ctx, ann, 1)) },
		"Edges.Ended":               func() error { return three(e.Ended(ctx, "", now, 1)) },
		"Edges.Followers":           func() error { return two(e.Followers(ctx, "bob", 0, "", 1)) },
		"Edges.Following":           func() error { return two(e.Following(ctx, "ann", "", 1)) },
		"Edges.Get":                 func() error { return two(e.Get(ctx, []follow.Pair{{Follower: "ann", Followee: "bob"}})) },
		"Keys.Find":                 func() error { return three(db.Keys().Find(ctx, "ann", "k", now)) },
		"Settings.Load":             func() error { return two(db.Settings().Load(ctx)) },
		"Settings.Processes":        func() error { return two(db.Settings().Processes(ctx)) },
		"Settings.Totals":           func() error { return two(db.Settings().Totals(ctx)) },
		"Retention.Load":            func() error { return two(db.Retention().Load(ctx)) },
		"Identities.Lists":          func() error { return two(db.Identities().Lists(ctx, ann)) },
		"Identities.Lookup": func() error {
			return two(db.Identities().Lookup(ctx, []identity.Identity{{Kind: "email", Value: "a@b.example"}}))
		},
		"Flags.Lookup": func() error { return two(db.Flags().Lookup(ctx, ann)) },
		"Topics.Get":   func() error { return two(db.Topics().Get(ctx, []message.Topic{"news"})) },
		"Topics.List":  func() error { return two(db.Topics().List(ctx, "", "", 1)) },
	}
}

// TestOnlySomeReadsArePlain carries out every read as on a replicated server. The server of the test may refuse a read concern, so it compares
// what was sent.
func TestOnlySomeReadsArePlain(t *testing.T) {
	t.Parallel()
	_, opts := borrow(t)
	var mu sync.Mutex
	var levels []string
	opts.Monitor = &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		if slices.Contains([]string{"find", "aggregate", "count"}, e.CommandName) {
			level, _ := e.Command.Lookup("readConcern", "level").StringValueOK()
			mu.Lock()
			defer mu.Unlock()
			levels = append(levels, level)
		}
	}}
	db := open(t, opts)
	db.Replicated()

	all := reads(t.Context(), db)
	var operations []string
	for _, store := range []any{
		db.Messages(), db.Keys(), db.Inbox(), db.Users(), db.Edges(), db.Progress(), db.Settings(), db.Retention(), db.Identities(), db.Topics(), db.Flags(),
	} {
		of := reflect.TypeOf(store)
		for method := range of.Methods() {
			operations = append(operations, of.Elem().Name()+"."+method.Name)
		}
	}
	require.ElementsMatch(t, slices.Concat(writes, slices.Collect(maps.Keys(all))), operations, "a read that is not listed")
	sent := func(name string, read func() error) []string {
		levels = nil
		err := read()
		require.NotEmpty(t, levels, "%s: %v", name, err)
		return slices.Compact(slices.Clone(levels))
	}
	for name, read := range all {
		want := plainReads[name]
		if want == nil {
			want = []string{"linearizable"}
		}
		require.Equal(t, want, sent(name, read), name)
	}
	for name, read := range reads(t.Context(), db.Plain()) {
		require.Equal(t, []string{"majority"}, sent(name, read), name)
	}
}
