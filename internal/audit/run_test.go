package audit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/pkg/verdict"
)

// TestApart has what is no finding, and what it counts as.
func TestApart(t *testing.T) {
	t.Parallel()
	sent := epoch.Add(-10 * time.Minute)
	began := epoch.Add(-time.Hour)
	tests := map[string]struct {
		arrange func(w *world)
		want    verdict.Summary
	}{
		"right": {
			arrange: func(w *world) { w.deliver(w.toFollowers(sent), w.named(sent, "ben")) },
			want:    verdict.Summary{Entries: 2, Expected: 2},
		},
		"to followers, and named as well": {
			arrange: func(w *world) {
				m := message.Message{ID: w.id(sent), From: "ann", To: []message.UserID{"ben"}, Audience: message.AudienceFollowers, Body: "x"}
				w.deliver(w.store(m, sent))
			},
			want: verdict.Summary{Entries: 1, Expected: 1},
		},
		"deleted": {
			arrange: func(w *world) { w.delete(w.fill(2)[0].ID) },
			want:    verdict.Summary{Entries: 1, Expected: 1},
		},
		"expired, and not removed yet": {
			arrange: func(w *world) {
				until := w.fill(3)[1].ID
				w.change(func(s *userstate.State) { s.Purged = until })
			},
			want: verdict.Summary{Entries: 1, Expected: 1},
		},
		"not planned": {
			arrange: func(w *world) { w.toFollowers(sent) },
			want:    verdict.Summary{Expected: 1, InFlight: 1},
		},
		"in flight": {
			arrange: func(w *world) { w.plan(w.toFollowers(sent)) },
			want:    verdict.Summary{Expected: 1, InFlight: 1},
		},
		"dead-lettered": {
			arrange: func(w *world) {
				m := w.plan(w.toFollowers(sent))
				w.scan(m, ben, func(s progress.Scan) progress.Scan { s.Dead = true; return s })
			},
			want: verdict.Summary{Expected: 1, DeadLettered: 1},
		},
		"void": {
			arrange: func(w *world) {
				w.store(message.Message{ID: w.id(sent), From: "ann", Audience: message.AudienceFollowers, Body: "x"}, epoch)
			},
		},
		"there, and sent when the edge was about to begin": {
			arrange: func(w *world) { w.deliver(w.toFollowers(began.Add(-slack))) },
			want:    verdict.Summary{Entries: 1, Tolerated: 1},
		},
		"there, and sent when the edge had just ended": {
			arrange: func(w *world) {
				w.unfollow("ben", "ann", sent)
				w.deliver(w.toFollowers(sent))
			},
			want: verdict.Summary{Entries: 1, Tolerated: 1},
		},
		"a rehydration is due": {
			arrange: func(w *world) {
				w.pass(w.toFollowers(sent))
				w.change(func(s *userstate.State) { s.Mark = &userstate.Mark{From: epoch} })
			},
			want: verdict.Summary{Expected: 1, Rehydrating: 1},
		},
		"a rehydration has yet to sweep": {
			arrange: func(w *world) {
				w.pass(w.toFollowers(sent))
				w.change(func(s *userstate.State) { s.Sweep = &userstate.Sweep{From: sent} })
			},
			want: verdict.Summary{Expected: 1, Rehydrating: 1},
		},
		"after the horizon, delivered or not": {
			arrange: func(w *world) {
				w.deliver(w.toFollowers(epoch.Add(dormantAfter + time.Millisecond)))
				w.pass(w.toFollowers(epoch.Add(dormantAfter + time.Millisecond)))
			},
			want: verdict.Summary{Entries: 1, Tolerated: 1},
		},
		"rehydrated, with a gap in which something was deleted": {
			arrange: func(w *world) {
				var missed []message.Message
				for n := range 5 {
					missed = append(missed, w.pass(w.toFollowers(epoch.Add(time.Duration(2+n)*dormantAfter))))
				}
				w.back(epoch.Add(day), 2)
				w.append(missed[1]) // as deleting it does, so that there is a tombstone
				w.delete(missed[1].ID)
			},
			want: verdict.Summary{Entries: 2, Expected: 2},
		},
		"read up to a message in a gap, which another read mark did not list": {
			arrange: func(w *world) {
				var missed []message.Message
				for n := range 5 {
					missed = append(missed, w.pass(w.toFollowers(epoch.Add(time.Duration(2+n)*dormantAfter))))
				}
				w.back(epoch.Add(day), 2)
				w.change(func(s *userstate.State) { s.ReadMark = bucket.ReadMark{UpTo: missed[1].ID} })
				found, _ := run(w.t.Context(), w.t, w.Service, audit.Request{})
				require.Empty(w.t, found)
				w.change(func(s *userstate.State) { s.ReadMark.Gaps, s.ReadMark.InGap = 1, 2 })
			},
			want: verdict.Summary{Entries: 2, Expected: 2},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			test.arrange(w)
			found, got := run(t.Context(), t, w.Service, audit.Request{Repair: true})
			require.Empty(t, found)
			test.want.Users = 1
			test.want.Found, test.want.Repaired, test.want.Remaining = map[verdict.Kind]int64{}, map[verdict.Kind]int64{}, map[verdict.Kind]int64{}
			require.Equal(t, test.want, got)
		})
	}
}

// meanwhile is a store of buckets on which something happens after an inbox was read.
type meanwhile struct {
	bucket.Store
	do func()
}

// Range implements bucket.Store.
func (s *meanwhile) Range(ctx context.Context, sections []bucket.Section, field bucket.Field) ([][]bucket.Bucket, error) {
	defer func() {
		if sections[0].Low == 0 {
			s.do()
		}
	}()
	return s.Store.Range(ctx, sections, field)
}

// TestSecondLook lets messages be delivered right after the inbox was read: each is suspected once, and never reported.
func TestSecondLook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(3)
	rounds := 0
	s := w.audit(&meanwhile{Store: w.db.Inbox(), do: func() {
		rounds++
		w.deliver(w.named(epoch, "ben"))
	}})
	found, summary := run(t.Context(), t, s, audit.Request{})
	require.Empty(t, found)
	require.Equal(t, 2, rounds)
	require.EqualValues(t, 4, summary.Entries, "the second look counts")
	require.EqualValues(t, 5, summary.Expected)
}

// TestFollowingMeanwhile audits while somebody who has just begun to follow is about to append what fan-out had passed.
func TestFollowingMeanwhile(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		appends bool // or has crashed
		since   time.Duration
		rounds  int
	}{
		"slowly":                {appends: true, rounds: 3},
		"crashed just now":      {rounds: 3},
		"crashed some time ago": {since: slack + time.Millisecond, rounds: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.fill(3)
			w.follow("ben", "eve", epoch)
			sent := epoch.Add(time.Second)
			m := w.pass(w.store(message.Message{ID: w.id(sent), From: "eve", Audience: message.AudienceFollowers, Body: "x"}, sent))
			w.now = epoch.Add(test.since)
			rounds := 0
			s := w.audit(&meanwhile{Store: w.db.Inbox(), do: func() {
				if rounds++; rounds == 2 && test.appends {
					w.append(m)
				}
			}})
			found, _ := run(t.Context(), t, s, audit.Request{})
			require.Equal(t, test.rounds, rounds)
			require.Equal(t, test.appends, len(found) == 0)
		})
	}
}

// TestStateChangesMeanwhile lets a rehydration come and go while the inbox is being read.
func TestStateChangesMeanwhile(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		changes     int
		rehydrating int64
	}{
		"once":      {changes: 1},
		"all along": {changes: 1000, rehydrating: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.fill(3)
			w.pass(w.toFollowers(epoch.Add(-10 * time.Minute)))
			changed := 0
			s := w.audit(&meanwhile{Store: w.db.Inbox(), do: func() {
				if changed < test.changes {
					changed++
					w.change(func(s *userstate.State) { s.Recovered++ })
				}
			}})
			found, summary := run(t.Context(), t, s, audit.Request{})
			require.Equal(t, test.rehydrating, summary.Rehydrating)
			require.Equal(t, test.rehydrating == 0, len(found) == 1, "what is missing can only be told while nobody is at the inbox")
		})
	}
}

// TestViewsDoNotDisturb lets the user look all along.
func TestViewsDoNotDisturb(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(3)
	seen := epoch
	s := w.audit(&meanwhile{Store: w.db.Inbox(), do: func() {
		seen = seen.Add(time.Second)
		w.see("ben", seen)
	}})
	found, summary := run(t.Context(), t, s, audit.Request{})
	require.Empty(t, found)
	require.Zero(t, summary.Rehydrating)
}

// populate makes users of whom there is a record.
func (w *world) populate(count int) (users []message.UserID) {
	w.t.Helper()
	for n := range count {
		user := message.UserID(fmt.Sprintf("user-%04d", n))
		w.see(user, epoch)
		users = append(users, user)
	}
	return users
}

// audited returns whom an audit with an extra entry in everybody's inbox finds.
func audited(t *testing.T, w *world, request audit.Request) (users []message.UserID) {
	t.Helper()
	found, summary := run(t.Context(), t, w.Service, request)
	require.EqualValues(t, len(found), summary.Users)
	for _, f := range found {
		users = append(users, f.User)
	}
	slices.Sort(users)
	return users
}

// TestSample draws samples of a few users, again and again: all of them are drawn, and none much more often than others.
func TestSample(t *testing.T) {
	t.Parallel()
	const users, size, times = 20, 5, 400
	w := newWorld(t)
	all := w.populate(users - 1)
	all = append([]message.UserID{"ben"}, all...)
	extra := bucket.EntryOf(message.Message{ID: w.id(epoch), From: "ann", Body: "x"})
	var appends []bucket.Append
	for _, user := range all {
		appends = append(appends, bucket.Append{Owner: user, Entries: []bucket.Entry{extra}})
	}
	_, err := w.appender.Append(t.Context(), appends)
	require.NoError(t, err)

	require.Equal(t, all, audited(t, w, audit.Request{}))
	require.Equal(t, all, audited(t, w, audit.Request{Sample: users}))
	require.Equal(t, all, audited(t, w, audit.Request{Sample: users + 1}))
	require.Equal(t, []message.UserID{"ben"}, audited(t, w, audit.Request{User: "ben"}))
	drawn := make(map[message.UserID]int)
	for range times {
		sample := audited(t, w, audit.Request{Sample: size})
		require.Len(t, slices.Compact(sample), size)
		for _, user := range sample {
			drawn[user]++
		}
	}
	// Each is drawn 100 times on average, with a standard deviation of less than 9.
	for _, user := range all {
		require.InDelta(t, times*size/users, drawn[user], 60, "how often %s was drawn", user)
	}
}

func TestWrongRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, request := range []audit.Request{
		{User: "a/b"}, {User: "ben", Sample: 1}, {Sample: -1}, {Sample: audit.MaxSample + 1},
	} {
		_, err := w.Audit(t.Context(), request, func(audit.Event) error { return nil })
		require.ErrorIs(t, err, message.ErrInvalid)
	}
}

// TestProgress tells how far it is, first and last, and in between when time has passed.
func TestProgress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.populate(9)
	var told []verdict.Progress
	tell := func(e audit.Event) error {
		told = append(told, *e.Progress)
		return nil
	}
	_, err := w.Audit(t.Context(), audit.Request{}, tell)
	require.NoError(t, err)
	require.Equal(t, []verdict.Progress{{Users: 0, Of: 10}, {Users: 10, Of: 10}}, told)

	told = nil
	var ticks atomic.Int64
	w.Service = audit.New(audit.Stores{
		Messages: w.db.Messages(), Progress: w.db.Progress(), Users: w.db.Users(), Edges: w.db.Edges(), Flags: w.db.Flags(),
		Buckets: w.db.Inbox(), Appender: w.appender,
	}, audit.Options{
		Partitions: partitions, Rules: rules,
		Now: func() time.Time { return epoch.Add(time.Duration(ticks.Add(1)) * time.Second) },
	})
	_, err = w.Audit(t.Context(), audit.Request{}, tell)
	require.NoError(t, err)
	require.Len(t, told, 12)
	require.True(t, slices.IsSortedFunc(told, func(x, y verdict.Progress) int { return int(x.Users - y.Users) }))
}

// TestStops ends audits from either side.
func TestStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.populate(50)
	gone := errors.New("nobody listens")
	_, err := w.Audit(t.Context(), audit.Request{}, func(audit.Event) error { return gone })
	require.ErrorIs(t, err, gone)

	ctx, cancel := context.WithCancel(t.Context())
	summary, err := w.Audit(ctx, audit.Request{}, func(audit.Event) error { cancel(); return nil })
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, summary.Users, int64(50))
}
