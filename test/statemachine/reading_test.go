package statemachine_test

import (
	"math"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/storetest/buckettest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// see tells when a user was seen who is active: TestTwins has those who are not.
func (m *machine) see(t *rapid.T) {
	user, w := m.user(t, "user"), m.worker(t)
	ago := rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute, rig.DormantAfter / 2}).Draw(t, "ago")
	now := m.clock.Skewed(w.skew)()
	if !m.active(user, now) {
		t.Skip("not active")
	}
	errs, err := m.rig.Inboxes(w.skew).SetSeen(t.Context(), []inbox.Seen{{User: user, At: now.Add(-ago)}})
	require.NoError(t, err)
	switch before, at := m.model.seen[user].at, now.Add(-ago).Truncate(time.Millisecond); {
	case at.Before(before):
		require.ErrorIs(t, errs[0], userstate.ErrBackwards)
		return
	case at.After(before):
		m.model.looked(user, at, m.rig.Rules.DormantAfter, false)
	}
	require.NoError(t, errs[0])
	m.checkSeen(t, user)
}

// read reads an inbox from the newest entry to the oldest, in pages. A dormant user only peeks.
func (m *machine) read(t *rapid.T) {
	user, w := m.user(t, "user"), m.worker(t)
	limit := rapid.SampledFrom([]int{1, 7, 50, 60, 200}).Draw(t, "limit")
	peek := rapid.Bool().Draw(t, "peek") || !m.active(user, m.clock.Skewed(w.skew)())
	m.readAll(t, user, w.skew, limit, peek)
}

// readAll reads an inbox in pages, and demands that they show, newest first, what is in the buckets and, of a user who is
// not active, what fan-out leaves to a rehydration.
func (m *machine) readAll(t *rapid.T, user message.UserID, skew time.Duration, limit int, peek bool) {
	if peek && !m.model.known(user) {
		_, err := m.rig.Inboxes(skew).Read(t.Context(), user, inbox.Request{Limit: limit, Peek: true})
		require.ErrorIs(t, err, userstate.ErrNotFound, user)
		return
	}
	there := m.buckets(t, user)
	total, unread := m.counts(there, user)
	complete := m.active(user, m.clock.Skewed(skew)())
	var left []message.ID
	if !complete {
		left = m.left(there, user)
	}
	var shown []message.ID
	for cursor, first := "", true; first || cursor != ""; first = false {
		page, err := m.rig.Inboxes(skew).Read(t.Context(), user, inbox.Request{Before: cursor, Limit: limit, Peek: peek})
		require.NoError(t, err)
		if now := m.clock.Skewed(skew)(); first && !peek {
			known := userstate.State{User: user, LastViewed: m.model.seen[user].at, Horizon: m.model.seen[user].horizon}
			if !m.rig.Rules.Noted(known, now, rig.ViewedEvery) {
				m.model.looked(user, now, m.rig.Rules.DormantAfter, true)
			}
			m.checkSeen(t, user)
		}
		require.LessOrEqual(t, len(page.Entries), limit)
		known := int64(0)
		for _, e := range page.Entries {
			shown = append(shown, e.ID)
			known += count(slices.Contains(left, e.ID))
		}
		require.Equal(t, total+known, page.Total, "total of %s", user)
		require.Equal(t, unread+known, page.Unread, "unread of %s", user)
		if first {
			require.Equal(t, complete, page.Complete, "completeness of %s", user)
		}
		cursor = page.Next
	}
	want := append(m.present(there, user), left...)
	slices.SortFunc(want, func(x, y message.ID) int { return y.Compare(x) })
	require.Equal(t, want, shown, "pages of %s", user)
}

// left returns what is for a user and beyond their horizon, but for what is in their buckets all the same.
func (m *machine) left(there []bucket.Bucket, user message.UserID) (left []message.ID) {
	for _, s := range m.model.messages {
		if m.model.leaves(s, user) && !held(there, s.ID) && m.model.inboxes[user].purged.Less(s.ID) {
			left = append(left, s.ID)
		}
	}
	return left
}

// active reports whether an inbox is complete at a time, as far as its reader can know.
func (m *machine) active(user message.UserID, now time.Time) bool {
	return m.model.known(user) && m.model.seen[user].horizon.After(now.Add(rig.ClockTolerance))
}

// counts returns how many entries an inbox has that are not deleted, and how many of them are unread.
func (m *machine) counts(there []bucket.Bucket, user message.UserID) (total, unread int64) {
	for _, id := range m.present(there, user) {
		total++
		if !m.model.inboxes[user].read[id] {
			unread++
		}
	}
	return total, unread
}

// present returns the entries of a user's buckets that are not deleted and have not expired.
func (m *machine) present(buckets []bucket.Bucket, user message.UserID) []message.ID {
	var ids []message.ID
	for _, b := range buckets {
		for _, e := range b.Entries {
			if !e.Deleted && m.model.inboxes[user].purged.Less(e.ID) {
				ids = append(ids, e.ID)
			}
		}
	}
	return ids
}

// buckets returns an inbox, the highest bucket first.
func (m *machine) buckets(t *rapid.T, user message.UserID) []bucket.Bucket {
	buckets, err := bucket.ReadSection(t.Context(), m.rig.Inbox, bucket.Section{Owner: user, High: math.MaxUint32}, bucket.AllFields)
	require.NoError(t, err)
	return buckets
}

// drawEntry draws an id of an inbox, mostly of one that is there.
func (m *machine) drawEntry(t *rapid.T, there []bucket.Bucket) message.ID {
	var ids []message.ID
	for _, b := range there {
		ids = append(ids, buckettest.IDs(b.Entries)...)
	}
	for _, s := range m.model.messages {
		ids = append(ids, s.ID)
	}
	if len(ids) == 0 {
		t.Skip("there are no messages")
	}
	return ids[rapid.IntRange(0, len(ids)-1).Draw(t, "entry")]
}

// mark sets a read mark.
func (m *machine) mark(t *rapid.T) {
	user := m.user(t, "user")
	upTo := m.drawEntry(t, m.buckets(t, user))
	err := m.rig.Inboxes(0).MarkRead(t.Context(), user, upTo)
	if !m.model.known(user) {
		require.ErrorIs(t, err, userstate.ErrNotFound)
		return
	}
	require.NoError(t, err)
	box := m.model.inboxes[user]
	if !box.purged.Less(upTo) {
		return
	}
	for _, b := range m.buckets(t, user) { // it has completed the inbox first
		for _, e := range b.Entries {
			if !upTo.Less(e.ID) {
				box.read[e.ID] = true
			}
		}
	}
}

// delete deletes an entry.
func (m *machine) delete(t *rapid.T) {
	user := m.user(t, "user")
	there := m.buckets(t, user)
	id := m.drawEntry(t, there)
	left := !m.active(user, m.clock.Now()) && slices.Contains(m.left(there, user), id)
	err := m.rig.Inboxes(0).Delete(t.Context(), user, id)
	expired := !m.model.inboxes[user].purged.Less(id)
	if !held(there, id) && !left && !expired {
		require.ErrorIs(t, err, bucket.ErrNotFound)
		return
	}
	require.NoError(t, err)
	if expired {
		return
	}
	m.model.inboxes[user].deleted[id] = true
}

// purge lets messages expire, and demands that their number is right.
func (m *machine) purge(t *rapid.T) {
	user := m.user(t, "user")
	there := m.buckets(t, user)
	until := m.drawEntry(t, there).Time()
	if until.After(m.clock.Now()) {
		t.Skip("it is in the future")
	}
	n, err := m.rig.Inboxes(0).Purge(t.Context(), user, until, rapid.Bool().Draw(t, "dry"))
	if !m.model.known(user) {
		require.ErrorIs(t, err, userstate.ErrNotFound)
		return
	}
	require.NoError(t, err)
	to := message.LastBefore(until.Add(time.Millisecond))
	expired := slices.DeleteFunc(m.present(there, user), func(id message.ID) bool { return to.Less(id) })
	require.Len(t, expired, int(n), "purged of %s", user)
	if st := m.rig.State(t.Context(), t, user); m.model.inboxes[user].purged.Less(st.Purged) {
		require.Equal(t, to, st.Purged)
		m.model.inboxes[user].purged = to
	}
}

// held reports whether buckets hold an id, as an entry or a tombstone.
func held(buckets []bucket.Bucket, id message.ID) bool {
	return slices.ContainsFunc(buckets, func(b bucket.Bucket) bool { return slices.Contains(buckettest.IDs(b.Entries), id) })
}

// checkInbox demands that the buckets are sound, and that they hold what they should.
func (m *machine) checkInbox(t *rapid.T, user message.UserID) {
	buckets := m.buckets(t, user)
	slices.Reverse(buckets)
	checkBuckets(t, user, int(m.rig.Inbox.Size()), buckets)
	m.checkHint(t, user, buckets)
	checkGrowth(t, user, m.earlier[user], buckets)
	m.earlier[user] = buckets

	box := m.model.inboxes[user]
	seen := make(map[message.ID]bool)
	for _, b := range buckets {
		for _, e := range b.Entries {
			require.False(t, seen[e.ID], "message %s is in the inbox of %s twice", e.ID, user)
			seen[e.ID] = true
			require.Equal(t, box.deleted[e.ID], e.Deleted, "message %s in the inbox of %s is deleted if somebody did", e.ID, user)
		}
	}
	for _, id := range box.prefilled {
		require.True(t, seen[id], "message %s is missing from the inbox of %s since the beginning", id, user)
		delete(seen, id)
	}
	for _, s := range m.model.messages {
		v := m.model.judge(s, user)
		if v.must && box.purged.Less(s.ID) {
			require.True(t, seen[s.ID], "message %s is missing from the inbox of %s", s.ID, user)
		}
		if !v.may && !box.deleted[s.ID] { // deleting what only fan out on read finds leaves a tombstone, too
			require.False(t, seen[s.ID], "message %s is in the inbox of %s, and is not for them", s.ID, user)
		}
		delete(seen, s.ID)
	}
	require.Empty(t, seen, "the inbox of %s holds what nobody has sent", user)
}

// checkBuckets demands the invariants of an inbox, the lowest bucket first.
func checkBuckets(t *rapid.T, user message.UserID, size int, buckets []bucket.Bucket) {
	var last message.ID
	for i, b := range buckets {
		require.Equal(t, uint32(i), b.Sequence, "buckets of %s", user)
		require.NotZero(t, b.Slots, "bucket %d of %s", i, user)
		require.LessOrEqual(t, b.Slots, size, "bucket %d of %s", i, user)
		if i < len(buckets)-1 {
			require.Equal(t, size, b.Slots, "bucket %d of %s, which is not the head", i, user)
		}
		require.Equal(t, last, b.Floor, "floor of bucket %d of %s", i, user)
		for _, e := range b.Entries {
			if last.Less(e.ID) {
				last = e.ID
			}
		}
		require.Equal(t, last, b.Last, "last of bucket %d of %s", i, user)
	}
}

// checkHint demands that the hint of a user is right, or behind.
func (m *machine) checkHint(t *rapid.T, user message.UserID, buckets []bucket.Bucket) {
	states, err := userstate.States(m.rig.Users.Lookup(t.Context(), []message.UserID{user}))
	require.NoError(t, err)
	m.checkSeen(t, user)
	hint := states[0].Head
	if hint == (bucket.Hint{}) {
		return
	}
	require.Less(t, int(hint.Sequence), len(buckets), "the hint of %s is ahead", user)
	require.Equal(t, buckets[hint.Sequence].Floor, hint.Floor, "hint of %s", user)
}

// checkSeen demands that the record of a user says when they looked, and the horizon, and that nothing is owed.
func (m *machine) checkSeen(t *rapid.T, user message.UserID) {
	st := m.rig.State(t.Context(), t, user)
	require.True(t, m.model.seen[user].is(st), "%s: the record is %+v, not %+v", user, st, m.model.seen[user])
	require.False(t, st.Rehydrating(), "%+v", st)
}

// checkGrowth demands that no slot has changed but for tombstones.
func checkGrowth(t *rapid.T, user message.UserID, before, now []bucket.Bucket) {
	require.GreaterOrEqual(t, len(now), len(before), "buckets of %s", user)
	for i, b := range before {
		ids := buckettest.IDs(b.Entries)
		require.GreaterOrEqual(t, now[i].Slots, len(ids), "slots of bucket %d of %s", i, user)
		require.Equal(t, ids, buckettest.IDs(now[i].Entries)[:len(ids)], "bucket %d of %s", i, user)
	}
}
