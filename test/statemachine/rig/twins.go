package rig

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Twins are two users whom every message is for or none: the same edges at the same times, named together or not at all.
type Twins struct {
	// User leaves and returns. Twin has never been dormant, and does nothing.
	User, Twin message.UserID
	// Deleted holds the messages that User deleted. Read holds the messages that were in the inbox at or below User's read
	// mark when User set it.
	Deleted, Read map[message.ID]bool
	// Listed are the parts at or below User's read mark of the gaps that there were when User set it. What becomes visible there later is
	// read, too.
	Listed []bucket.Stretch
}

// RequireAlike demands, of a user who is active and at rest, that their inbox cannot be told from their twin's. It reads
// both in pages of at most limit.
func (r *Rig) RequireAlike(ctx context.Context, t require.TestingT, w Twins, limit int) {
	whole, _ := r.ReadInbox(ctx, t, w.Twin, limit)
	got, first := r.ReadInbox(ctx, t, w.User, limit)
	want := slices.DeleteFunc(slices.Clone(whole), func(id message.ID) bool { return w.Deleted[id] })
	require.Equal(t, want, got, "inbox of %s, compared with that of %s, who was never dormant", w.User, w.Twin)
	unread := slices.DeleteFunc(slices.Clone(got), func(id message.ID) bool {
		return w.Read[id] || slices.ContainsFunc(w.Listed, func(s bucket.Stretch) bool { return s.Holds(id) })
	})
	require.True(t, first.Complete, "inbox of %s is complete", w.User)
	require.Len(t, got, int(first.Total), "total of %s", w.User)
	require.Len(t, unread, int(first.Unread), "unread of %s", w.User)

	st := r.State(ctx, t, w.User)
	require.Nil(t, st.Mark, "mark of %s", w.User)
	require.Nil(t, st.Sweep, "sweep of %s", w.User)
	require.Zero(t, st.Lease, "lease of %s", w.User)
	requireGaps(t, st, whole)
	seen := make(map[message.ID]bool)
	for _, b := range r.Buckets(ctx, t, w.User) {
		for _, e := range b.Entries {
			require.False(t, seen[e.ID], "message %s is in the inbox of %s twice", e.ID, w.User)
			seen[e.ID] = true
			require.False(t, !e.Deleted && st.InGap(e.Sent()), "message %s is in the inbox of %s and in a gap", e.ID, w.User)
		}
	}
}

// requireGaps demands that gaps are in order, do not overlap, and hold as many messages as they say, of all there are.
func requireGaps(t require.TestingT, st userstate.State, whole []message.ID) {
	for i, gap := range st.Gaps {
		require.True(t, gap.After.Before(gap.Before), "gap %v of %s", gap, st.User)
		require.False(t, i > 0 && gap.After.Before(st.Gaps[i-1].Before.Add(-time.Millisecond)), "gaps %v of %s overlap", st.Gaps, st.User)
		in := slices.DeleteFunc(slices.Clone(whole), func(id message.ID) bool { return !gap.Holds(id.Time()) })
		require.True(t, len(in) > 0 || gap.Stretch().After == st.Purged, "gap %v of %s is empty, and no purge has cut it", gap, st.User)
		require.Len(t, in, int(gap.Messages), "gap %v of %s", gap, st.User)
	}
}

// ReadInbox reads an inbox in pages of at most limit, which does not count as viewing, and returns what they show, newest
// first, and the first of them. Of a user who was never seen there are none.
func (r *Rig) ReadInbox(ctx context.Context, t require.TestingT, user message.UserID, limit int) (shown []message.ID, first inbox.Page) {
	service := r.Inboxes(0)
	shown = []message.ID{}
	for cursor, begun := "", false; !begun || cursor != ""; begun = true {
		page, err := service.Read(ctx, user, inbox.Request{Before: cursor, Limit: limit, Peek: true})
		if errors.Is(err, userstate.ErrNotFound) {
			return shown, page
		}
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Entries), limit)
		for _, e := range page.Entries {
			shown = append(shown, e.ID)
		}
		if !begun {
			first = page
		}
		cursor = page.Next
	}
	return shown, first
}

// State returns what is recorded of a user.
func (r *Rig) State(ctx context.Context, t require.TestingT, user message.UserID) userstate.State {
	st, err := userstate.Get(ctx, r.Users, user)
	require.NoError(t, err)
	return st
}

// Buckets returns an inbox, the highest bucket first.
func (r *Rig) Buckets(ctx context.Context, t require.TestingT, user message.UserID) []bucket.Bucket {
	buckets, err := bucket.ReadSection(ctx, r.Inbox, bucket.Section{Owner: user, High: math.MaxUint32}, bucket.AllFields)
	require.NoError(t, err)
	return buckets
}
