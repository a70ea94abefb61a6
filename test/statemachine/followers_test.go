package statemachine_test

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// follower is a client that knows an inbox by its frames alone, and by pages where a frame says so.
type follower struct {
	of     *rig.Twins
	cursor string
	// again is set from a reconnect to the next frame.
	again bool
	busy  bool // a look is under way
	// partial says that the follower holds a first page only, and not what is below it.
	partial bool

	held    map[message.ID]state
	expired message.ID
	version []int64
	tally   bucket.Tally
	resets  map[inbox.Reset]int
}

func newFollower(of *rig.Twins) *follower {
	return &follower{of: of, held: make(map[message.ID]state), resets: make(map[inbox.Reset]int)}
}

// state is that of a message that a follower holds. One that is owed is not shown before it was fetched again.
type state struct{ read, archived, owed bool }

// take applies a frame.
func (f *follower) take(frame inbox.Frame) {
	if frame.Reset != "" {
		f.held, f.expired, f.partial = make(map[message.ID]state), message.ID{}, true
		f.resets[frame.Reset]++
	}
	named := make(map[message.ID]bool)
	for _, e := range frame.Entries {
		f.held[e.ID], named[e.ID] = state{read: e.Read, archived: e.Archived}, true
	}
	for _, s := range frame.States {
		if _, known := f.held[s.ID]; known {
			f.held[s.ID], named[s.ID] = state{read: s.Read, archived: s.Archived}, true
		}
	}
	for _, id := range frame.Gone {
		delete(f.held, id)
	}
	if f.expired.Less(frame.ExpiredUpTo) {
		f.expired = frame.ExpiredUpTo
	}
	for id, s := range f.held {
		if s.owed = s.owed || frame.Older && !named[id]; !f.expired.Less(id) {
			delete(f.held, id)
		} else {
			f.held[id] = s
		}
	}
	f.cursor, f.version, f.tally = frame.Cursor, frame.Version, frame.Tally
}

// older reports whether a page knows less than the last frame.
func (f *follower) older(p inbox.Page) bool {
	return slices.ContainsFunc([]int{0, 1, 2, 3, 4}, func(i int) bool { return p.Version[i] < f.version[i] })
}

// frame lets a follower look. Others may do something between any two reads of the look.
func (m *twins) frame(t *rapid.T) {
	f := m.drawFollower(t)
	if f.busy {
		t.Skip("it is looking")
	}
	m.lookAt(t, f, m.worker(t).inboxes)
}

func (m *twins) lookAt(t *rapid.T, f *follower, inboxes *inbox.Service) {
	var frame inbox.Frame
	f.busy = true
	m.call(t, 8, nil, func(ctx context.Context) (err error) {
		frame, err = inboxes.Changes(ctx, f.of.User, inbox.FrameRequest{Cursor: f.cursor, Peek: true, First: f.again})
		if errors.Is(err, userstate.ErrNotFound) {
			return nil
		}
		return unlessLate(err)
	}, func(t *rapid.T, err error) {
		if f.busy = false; err != nil || frame.Cursor == "" {
			return
		}
		f.again = false
		if f.take(frame); f.partial {
			m.fetchAll(t, f)
		}
	})
}

// reconnect lets a follower lose its connection. It goes on from its cursor.
func (m *twins) reconnect(t *rapid.T) { m.drawFollower(t).again = true }

func (m *twins) drawFollower(t *rapid.T) *follower {
	return m.followers[rapid.IntRange(0, len(m.followers)-1).Draw(t, "follower")]
}

// fetch lets a follower fetch everything again.
func (m *twins) fetch(t *rapid.T) {
	if f := m.drawFollower(t); !f.busy && f.cursor != "" {
		m.fetchAll(t, f)
	}
}

// fetchAll takes every page that is not older than the last frame.
func (m *twins) fetchAll(t *rapid.T, f *follower) {
	fetched := make(map[message.ID]bool)
	req := inbox.Request{Limit: 50, Peek: true, Filter: inbox.Filter{Archived: inbox.ArchivedToo}}
	for begun := false; !begun || req.Before != ""; begun = true {
		page, err := m.workers[0].inboxes.Read(t.Context(), f.of.User, req)
		require.NoError(t, err)
		if f.older(page) {
			return
		}
		for _, e := range page.Entries {
			if fetched[e.ID] = true; f.expired.Less(e.ID) {
				f.held[e.ID] = state{read: e.Read, archived: e.Archived}
			}
		}
		req.Before = page.Next
	}
	f.partial = false
	maps.DeleteFunc(f.held, func(id message.ID, s state) bool { return s.owed && !fetched[id] })
}

// requireFollowed demands, when everything is at rest, that each follower shows the inbox as it is.
func (m *twins) requireFollowed(t *rapid.T) {
	for _, f := range m.followers {
		for again := true; again; {
			before := f.cursor
			frame, err := m.workers[0].inboxes.Changes(t.Context(), f.of.User, inbox.FrameRequest{Cursor: f.cursor, Peek: true})
			require.NoError(t, err)
			f.take(frame)
			again = frame.More || f.cursor != before
			if f.partial || slices.ContainsFunc(slices.Collect(maps.Values(f.held)), func(s state) bool { return s.owed }) {
				m.fetchAll(t, f)
			}
		}
		shown, page := m.rig.ReadInbox(t.Context(), t, f.of.User, 50)
		want := make(map[message.ID]state)
		for _, id := range shown {
			want[id] = state{read: f.of.HasRead(id), archived: f.of.Archived[id]}
		}
		require.Equal(t, want, f.held, "what a follower of %s shows", f.of.User)
		require.Equal(t, page.Tally, f.tally, "counts of a follower of %s", f.of.User)
		require.Zero(t, f.resets[inbox.ResetAhead])
		require.True(t, m.rig.DB.Epoch != nil || f.resets[inbox.ResetEpoch] == 0, "a store that loses nothing begins no epoch")
	}
}
