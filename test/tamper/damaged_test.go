package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/verdict"
	"github.com/fanmail/fanmail/test/tamper/damage"
)

// panicking is a store that panics when the followers of boom are read.
type panicking struct{ follow.Store }

func (s panicking) Audience(ctx context.Context, followees []message.Source, limit int) ([]follow.Edge, error) {
	if slices.Contains(followees, "boom") {
		panic("injected panic")
	}
	return s.Store.Audience(ctx, followees, limit)
}

// letters returns the dead letters by their reasons.
func letters(t *testing.T, c *client.Client) map[string][]client.DeadLetter {
	t.Helper()
	letters := make(map[string][]client.DeadLetter)
	for letter, err := range c.DeadLetters(t.Context()) {
		require.NoError(t, err)
		letters[letter.Reason] = append(letters[letter.Reason], letter)
	}
	return letters
}

// post publishes a message by ann to her followers, and waits until it is done.
func post(t *testing.T, c *client.Client, body string) client.Status {
	t.Helper()
	receipt, err := c.Publish(t.Context(), message.Draft{From: "ann", Audience: message.AudienceFollowers, Body: body}, "")
	require.NoError(t, err)
	done, err := c.WaitDone(t.Context(), receipt.ID, time.Millisecond)
	require.NoError(t, err)
	return done
}

func requireProblem(t *testing.T, want client.ProblemType, err error) {
	t.Helper()
	p, ok := errors.AsType[*client.Problem](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, want, p.Type)
}

// TestEachHurtsItself has in one running server a damaged user record (ben), a lost bucket (dora), a poison message and an injected panic. Carl
// gets everything. Ben and dora get the rest after a repair of the records and a redrive.
func TestEachHurtsItself(t *testing.T) {
	t.Parallel()
	const before = 120
	data, began := t.TempDir(), time.Now()
	followers := []message.UserID{"ben", "carl", "dora"}
	serve(t, data, func(c *client.Client) {
		for _, user := range followers {
			require.NoError(t, c.SetSeen(t.Context(), user, time.Now()))
			require.NoError(t, c.Follow(t.Context(), user, "ann"))
			require.NoError(t, c.Follow(t.Context(), user, "boom"))
		}
		for i := range before {
			post(t, c, strconv.Itoa(i))
		}
	})
	folder := damage.Folder{Path: filepath.Join(data, "store"), Files: vfs.Default}
	mendUser, err := folder.Spoil(t.Context(), "ben")
	require.NoError(t, err)
	mendBucket, err := folder.Lose(t.Context(), "dora", 1)
	require.NoError(t, err)

	var parts app.Parts
	inject := func(p app.Parts) app.Parts {
		parts = p
		p.Edges = panicking{p.Edges}
		return p
	}
	var late, panicked message.ID
	serveWith(t, data, inject, func(c *client.Client) {
		// Poison: an event that no program can read, and a message on which the code panics.
		require.NoError(t, parts.Bus.Emit(t.Context(), event.DeadLetter{Subject: "fanmail.v1.published", Payload: []byte("{")}))
		receipt, err := c.Publish(t.Context(), message.Draft{From: "boom", Audience: message.AudienceFollowers, Body: "panic"}, "")
		require.NoError(t, err)
		panicked = receipt.ID
		require.Equal(t, []int64{2, 1}, counts(post(t, c, "one")))
		require.Equal(t, []int64{2, 1}, counts(post(t, c, "two")))

		// A message that comes late has to be searched for in the lost bucket.
		late = message.MinID(began)
		late[6], late[8] = 0x70, 0x80
		m := message.Message{ID: late, From: "ann", To: followers, Body: "late", ContentType: "text/plain"}
		_, err = parts.Messages.Insert(t.Context(), []message.Message{m}, message.Timing{Slack: slack, Tolerance: slack})
		require.NoError(t, err)
		require.NoError(t, parts.Bus.EmitPublished(t.Context(), []event.Published{event.NewPublished(m.Ref())}, true))
		done, err := c.WaitDone(t.Context(), late, time.Millisecond)
		require.NoError(t, err)
		require.Equal(t, []int64{1, 2}, counts(done))

		for len(letters(t, c)[event.ReasonPanic]) == 0 { // the event comes again after a pause
			require.NoError(t, t.Context().Err())
		}
		require.Equal(t, []int64{2, 1}, counts(post(t, c, "three")), "the same partitions go on")
		found := letters(t, c)
		require.Len(t, found, 3)
		require.Len(t, found[event.ReasonMalformed], 1)
		require.Len(t, found[event.ReasonDamaged], 2, "one for each user")
		for _, letter := range found[event.ReasonDamaged] {
			requireProblem(t, client.ProblemConflict, c.Redrive(t.Context(), letter.ID))
		}

		page, err := c.Inbox(t.Context(), "carl", client.InboxOptions{Limit: 200})
		require.NoError(t, err)
		require.Len(t, page.Messages, before+4)
		_, err = c.Inbox(t.Context(), "ben", client.InboxOptions{})
		requireProblem(t, client.ProblemDamaged, err)
		_, err = c.Inbox(t.Context(), "dora", client.InboxOptions{Limit: 200})
		requireProblem(t, client.ProblemDamaged, err)
		page, err = c.Inbox(t.Context(), "dora", client.InboxOptions{Limit: 10})
		require.NoError(t, err, "what is above the lost bucket can be read")
		require.Equal(t, "three", page.Messages[0].Body)

		var damaged []message.UserID
		var audited int64
		for line, err := range c.Audit(t.Context(), client.AuditOptions{Repair: true}) {
			require.NoError(t, err)
			switch {
			case line.Finding != nil && line.Finding.Kind == verdict.Damaged:
				damaged = append(damaged, line.Finding.User)
				require.NotEmpty(t, line.Finding.Detail)
				require.Contains(t, line.Finding.Note, "not repaired")
			case line.Finding != nil:
				require.Equal(t, message.UserID("dora"), line.Finding.User, "%+v", line.Finding)
			case line.Summary != nil:
				audited = line.Summary.Users
			}
		}
		slices.Sort(damaged)
		require.Equal(t, []message.UserID{"ben", "dora"}, damaged)
		require.EqualValues(t, 3, audited)
	})

	require.NoError(t, mendUser(t.Context()))
	require.NoError(t, mendBucket(t.Context()))
	serve(t, data, func(c *client.Client) {
		for reason, all := range letters(t, c) {
			for _, letter := range all {
				if reason != event.ReasonMalformed {
					require.NoError(t, c.Redrive(t.Context(), letter.ID))
				}
			}
		}
		_, err := c.WaitDone(t.Context(), panicked, time.Millisecond)
		require.NoError(t, err)
		require.Len(t, letters(t, c), 1)
		want, err := c.Inbox(t.Context(), "carl", client.InboxOptions{Limit: 200})
		require.NoError(t, err)
		for _, user := range []message.UserID{"ben", "dora"} {
			for state := client.Activity(""); state != client.Active; {
				login, err := c.Login(t.Context(), user, time.Second)
				require.NoError(t, err)
				state = login.State
			}
			got, err := c.Inbox(t.Context(), user, client.InboxOptions{Limit: 200})
			require.NoError(t, err)
			require.Equal(t, bodies(want), bodies(got), user)
		}
		require.Equal(t, late, want.Messages[len(want.Messages)-1].ID)
		for line, err := range c.Audit(t.Context(), client.AuditOptions{}) {
			require.NoError(t, err)
			require.Nil(t, line.Finding)
		}
	})
}

func counts(m client.Status) []int64 { return []int64{m.Fanout.Delivered, m.Fanout.Skipped} }

func bodies(page client.InboxPage) (bodies []string) {
	for _, m := range page.Messages {
		bodies = append(bodies, m.Body)
	}
	return bodies
}
