package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/tamper/damage"
	"github.com/fanmail/fanmail/test/testenv"
)

// TestFromTheFuture heals an inbox in which an older release left a message from the future, and publishes that message again.
func TestFromTheFuture(t *testing.T) {
	t.Parallel()
	for _, on := range everyStoreLeft() {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			ctx := bounded(t, 4*time.Minute)
			w := newWorld(ctx, t, on, nil)
			server := w.start(ctx)
			c := w.client()
			require.NoError(t, c.SetSeen(ctx, "ben", time.Now()))
			w.number(ctx, c, 0, 10)
			server.Stop(ctx)
			future := w.poison(ctx, "ben")

			server = w.start(ctx)
			const before, beside = 140, 60
			w.number(ctx, c, 10, before)
			require.NoError(t, c.MarkRead(ctx, "ben", future))
			found, summary := w.findings(ctx, c, false)
			require.Contains(t, found, client.FindingFromFuture)
			require.NotZero(t, summary.Remaining[client.FindingFromFuture])
			repair := testenv.Exec(ctx, t, nil, w.programs.Fanmail, "audit", "--repair", "--server", w.site.URL())
			require.Equal(t, 1, repair.Code(ctx))
			require.Contains(t, repair.Stdout(), "not repaired: the database is of format level 1, and this needs 2: run fanmail admin upgrade")
			_, summary = w.findings(ctx, c, true)
			require.Zero(t, summary.Repaired[client.FindingFromFuture])
			require.Contains(t, w.fanmail(ctx, "dlq", "list"), "there are no dead letters")

			require.Contains(t, w.fanmail(ctx, "admin", "upgrade", "--yes"), "the database has format level")
			var publishing sync.WaitGroup
			publishing.Go(func() { w.number(ctx, c, before, before+beside) })
			w.findings(ctx, c, true)
			publishing.Wait()
			_, summary = w.findings(ctx, c, true) // a writer may have raised bounds again
			require.Empty(t, summary.Remaining)

			var letter client.DeadLetter
			list := strings.TrimSpace(w.fanmail(ctx, "dlq", "list", "--json"))
			require.NotContains(t, list, "\n", "there is one letter")
			require.NoError(t, json.Unmarshal([]byte(list), &letter))
			require.Equal(t, "from_future", letter.Reason)
			w.requireNumbers(ctx, c, before+beside)
			page, err := c.Inbox(ctx, "ben", client.InboxOptions{Limit: 20})
			require.NoError(t, err)
			require.LessOrEqual(t, page.BucketsRead, 2)
			require.NoError(t, c.MarkRead(ctx, "ben", page.Messages[5].ID))
			page, err = c.Inbox(ctx, "ben", client.InboxOptions{Limit: 1})
			require.NoError(t, err)
			require.EqualValues(t, 5, page.Unread)

			w.fanmail(ctx, "dlq", "redrive", strconv.FormatUint(letter.ID, 10))
			testenv.Eventually(ctx, t, "ben has the message again", func() bool {
				page, err := c.Inbox(ctx, "ben", client.InboxOptions{Limit: 1})
				require.NoError(t, err)
				return page.Total == before+beside+1
			})
			page, err = c.Inbox(ctx, "ben", client.InboxOptions{Limit: 1})
			require.NoError(t, err)
			require.Equal(t, "from the future", page.Messages[0].Body)
			require.NotEqual(t, future, page.Messages[0].ID)
			_, err = c.WaitDone(ctx, page.Messages[0].ID, 0)
			require.NoError(t, err)
			found, _ = w.findings(ctx, c, false)
			require.Empty(t, found)
			requireProblem(t, http.StatusNotFound, c.Redrive(ctx, letter.ID))
			server.Stop(ctx)
		})
	}
}

func requireProblem(t *testing.T, status int, err error) {
	t.Helper()
	problem, ok := errors.AsType[*client.Problem](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, status, problem.Status)
}

// number publishes messages to ben with the numbers from low to below high, and waits until they are delivered.
func (w *world) number(ctx context.Context, c *client.Client, low, high int) {
	var drafts []message.Draft
	for n := low; n < high; n++ {
		drafts = append(drafts, message.Draft{From: "ann", To: []message.UserID{"ben"}, Body: strconv.Itoa(n)})
	}
	answers, err := c.PublishBatch(ctx, drafts, "")
	if err != nil {
		w.Errorf("publish: %v", err)
		return
	}
	for _, answer := range answers {
		if answer.Err == nil {
			_, answer.Err = c.WaitDone(ctx, answer.ID, 10*time.Millisecond)
		}
		if answer.Err != nil {
			w.Errorf("publish: %v", answer.Err)
		}
	}
}

// requireNumbers requires that ben has the numbered messages below n, each once, newest first.
func (w *world) requireNumbers(ctx context.Context, c *client.Client, n int) {
	w.Helper()
	var bodies, want []string
	for before := client.Cursor(""); ; {
		page, err := c.Inbox(ctx, "ben", client.InboxOptions{Limit: 50, Before: before})
		require.NoError(w, err)
		require.EqualValues(w, n, page.Total)
		for _, m := range page.Messages {
			bodies = append(bodies, m.Body)
		}
		if before = page.Next; before == "" {
			break
		}
	}
	for i := n - 1; i >= 0; i-- {
		want = append(want, strconv.Itoa(i))
	}
	require.Equal(w, want, bodies)
}

// findings audits all users, and returns the kinds of the findings.
func (w *world) findings(ctx context.Context, c *client.Client, repair bool) (kinds []client.FindingKind, summary client.AuditSummary) {
	w.Helper()
	for line, err := range c.Audit(ctx, client.AuditOptions{Repair: repair}) {
		require.NoError(w, err)
		switch {
		case line.Finding != nil:
			kinds = append(kinds, line.Finding.Kind)
		case line.Summary != nil:
			summary = *line.Summary
		}
	}
	return kinds, summary
}

// poison delivers a message from the future to a user, as a release before level 2 did, and makes the store one of level 1. No
// server runs.
func (w *world) poison(ctx context.Context, user message.UserID) message.ID {
	w.Helper()
	now := time.Now()
	m := message.Message{ID: message.MinID(now.Add(time.Hour)), From: "ann", To: []message.UserID{user}, Body: "from the future"}
	m.ID[6], m.ID[8] = 0x70, 0x80
	insert := func(s stores) {
		_, err := s.messages.Insert(ctx, []message.Message{m}, messagetest.AnyTime)
		require.NoError(w, err)
		results, err := bucket.NewAppender(s.inbox, s.users).Append(ctx, []bucket.Append{{Owner: user, Entries: []bucket.Entry{bucket.EntryOf(m)}}})
		require.NoError(w, err)
		require.NoError(w, results[0].Err)
	}
	var store damage.Store
	if w.on == embedded {
		path := filepath.Join(w.site.Data, "store")
		db, err := pebblestore.Open(ctx, path, pebblestore.Options{Partitions: partition.DefaultCount, Now: time.Now, Logger: zerolog.Nop()})
		require.NoError(w, err)
		insert(stores{db.Messages(), db.Progress(), db.Users(), db.Inbox()})
		require.NoError(w, db.Close())
		store = damage.Folder{Path: path, Files: vfs.Default}
	} else {
		uri, name := w.site.Settings["mongodb.uri"], w.site.Settings["mongodb.database"]
		db, err := mongostore.Open(ctx, mongostore.Options{
			URI: uri, Database: name, Partitions: partition.DefaultCount, Timeout: time.Minute, Now: time.Now, Logger: zerolog.Nop(),
		})
		require.NoError(w, err)
		insert(stores{db.Messages(), db.Progress(), db.Users(), db.Inbox()})
		require.NoError(w, db.Close())
		store = damage.Database{URI: uri, Name: name}
	}
	require.NoError(w, store.Unjudge(ctx, m.Ref(), now))
	require.NoError(w, store.Unrecord(ctx))
	return m.ID
}
