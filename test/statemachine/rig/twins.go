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
	// Deleted and Archived hold the messages that User deleted and archived, and Seen those that were in buckets when User saw them.
	Deleted, Archived, Seen map[message.ID]bool
	// Read says of messages that User marked, alone or with others, whether they were marked as read or unread last.
	Read map[message.ID]bool
	// Listed are the parts at or below User's read mark of the gaps that there were when User set it. What becomes visible there later is
	// read, too.
	Listed []bucket.Stretch
}

// NewTwins returns twins who have done nothing yet.
func NewTwins(user, twin message.UserID) *Twins {
	empty := func() map[message.ID]bool { return make(map[message.ID]bool) }
	return &Twins{User: user, Twin: twin, Deleted: empty(), Archived: empty(), Seen: empty(), Read: empty()}
}

// HasRead reports whether User has read a message.
func (w Twins) HasRead(id message.ID) bool {
	if read, marked := w.Read[id]; marked {
		return read
	}
	return slices.ContainsFunc(w.Listed, func(s bucket.Stretch) bool { return s.Holds(id) })
}

// RequireAlike demands, of a user who is active and at rest, that their inbox cannot be told from their twin's. It reads
// both in pages of at most limit.
func (r *Rig) RequireAlike(ctx context.Context, t require.TestingT, w Twins, limit int) {
	whole, _ := r.ReadInbox(ctx, t, w.Twin, limit)
	got, _ := r.ReadInbox(ctx, t, w.User, limit)
	require.Equal(t, slices.DeleteFunc(slices.Clone(whole), func(id message.ID) bool { return w.Deleted[id] }), got,
		"inbox of %s, compared with that of %s, who was never dormant", w.User, w.Twin)
	buckets := r.Buckets(ctx, t, w.User)
	var want inbox.Count
	for _, id := range got {
		if w.Archived[id] {
			want.Archived++
			continue
		}
		want.Total++
		if !w.HasRead(id) {
			want.Unread++
		}
		if !w.Seen[id] && Holds(buckets, id) {
			want.Unseen++
		}
	}
	want.User, want.Complete = w.User, true
	counts, err := r.Inboxes(0).Counts(ctx, []message.UserID{w.User})
	require.NoError(t, err)
	require.Equal(t, want, counts[0])
	for _, archived := range []inbox.Archived{inbox.ArchivedOut, inbox.ArchivedOnly, inbox.ArchivedToo} {
		r.requireStates(ctx, t, w, inbox.Request{Limit: limit, Peek: true, Filter: inbox.Filter{Archived: archived}}, got, want)
	}

	st := r.State(ctx, t, w.User)
	require.Nil(t, st.Mark, "mark of %s", w.User)
	require.Nil(t, st.Sweep, "sweep of %s", w.User)
	require.Zero(t, st.Lease, "lease of %s", w.User)
	requireGaps(t, st, whole)
	seen := make(map[message.ID]bool)
	for _, b := range buckets {
		for _, e := range b.Entries {
			require.False(t, seen[e.ID], "message %s is in the inbox of %s twice", e.ID, w.User)
			seen[e.ID] = true
			require.False(t, !e.Deleted && st.InGap(e.Sent()), "message %s is in the inbox of %s and in a gap", e.ID, w.User)
		}
	}
}

// requireStates demands that pages show the messages of an inbox that they ask for, and the state of each, and the counts.
func (r *Rig) requireStates(ctx context.Context, t require.TestingT, w Twins, req inbox.Request, there []message.ID, counts inbox.Count) {
	for _, unread := range []bool{false, true} {
		var want, got []message.ID
		for _, id := range there {
			out := req.Filter.Archived == inbox.ArchivedOut && w.Archived[id] || req.Filter.Archived == inbox.ArchivedOnly && !w.Archived[id]
			if !out && (!unread || !w.HasRead(id)) {
				want = append(want, id)
			}
		}
		req.Filter.Unread, req.Before = unread, ""
		for begun := false; !begun || req.Before != ""; begun = true {
			page, err := r.Inboxes(0).Read(ctx, w.User, req)
			require.NoError(t, err)
			for _, e := range page.Entries {
				got = append(got, e.ID)
				require.Equal(t, w.HasRead(e.ID), e.Read, "%s is read by %s", e.ID, w.User)
				require.Equal(t, w.Archived[e.ID], e.Archived, "%s is archived by %s", e.ID, w.User)
			}
			require.Equal(t, inbox.Count{User: w.User, Tally: page.Tally, Complete: page.Complete}, counts)
			req.Before = page.Next
		}
		require.Equal(t, want, got, "messages of %s, unread only: %t, archived: %v", w.User, unread, req.Filter.Archived)
	}
}

// Holds reports whether a bucket has a message.
func Holds(buckets []bucket.Bucket, id message.ID) bool {
	return slices.ContainsFunc(buckets, func(b bucket.Bucket) bool {
		return slices.ContainsFunc(b.Entries, func(e bucket.Entry) bool { return e.ID == id })
	})
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

// ReadInbox reads an inbox in pages of at most limit, archived messages included, which does not count as viewing, and returns what they show,
// newest first, and the first of them. Of a user who was never seen there are none.
func (r *Rig) ReadInbox(ctx context.Context, t require.TestingT, user message.UserID, limit int) (shown []message.ID, first inbox.Page) {
	service := r.Inboxes(0)
	shown = []message.ID{}
	for cursor, begun := "", false; !begun || cursor != ""; begun = true {
		page, err := service.Read(ctx, user, inbox.Request{Before: cursor, Limit: limit, Peek: true, Filter: inbox.Filter{Archived: inbox.ArchivedToo}})
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
