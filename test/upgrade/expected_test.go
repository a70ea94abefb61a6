package main

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// expected is what the inboxes must show. Many goroutines use it.
type expected struct {
	mu       sync.Mutex
	messages map[message.ID]bool
	inboxes  map[message.UserID]map[message.ID]bool
}

func newExpected() *expected {
	return &expected{messages: make(map[message.ID]bool), inboxes: make(map[message.UserID]map[message.ID]bool)}
}

func (e *expected) add(id message.ID, recipients ...message.UserID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.messages[id] = true
	for _, user := range recipients {
		if e.inboxes[user] == nil {
			e.inboxes[user] = make(map[message.ID]bool)
		}
		e.inboxes[user][id] = true
	}
}

func (e *expected) remove(user message.UserID, id message.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.inboxes[user], id)
}

// ids returns all messages, oldest first.
func (e *expected) ids() []message.ID {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.SortedFunc(maps.Keys(e.messages), message.ID.Compare)
}

// wrong compares what clients see when all work is done with what they must see, and returns the differences.
func (e *expected) wrong(all *seen) (wrong []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(all.Users)) {
		user, want, times := all.Users[name], e.inboxes[name], make(map[message.ID]int)
		say := func(format string, args ...any) {
			wrong = append(wrong, string(name)+": "+fmt.Sprintf(format, args...))
		}
		for i, m := range user.entries {
			times[m.ID]++
			if i > 0 && user.entries[i-1].ID.Less(m.ID) {
				say("%s comes after an older message", m.ID)
			}
		}
		for id := range want {
			if times[id] == 0 {
				say("%s is lost", id)
			}
		}
		for id, n := range times {
			switch {
			case !want[id]:
				say("%s was deleted, or is not for this user", id)
			case n > 1:
				say("%s is there %d times", id, n)
			}
		}
		if user.State == client.Active && (!user.Complete || user.Total != int64(len(want))) {
			say("has %d messages, but the inbox says %d, complete: %t", len(want), user.Total, user.Complete)
		}
	}
	return wrong
}

// TestWrong shows inboxes with each kind of damage.
func TestWrong(t *testing.T) {
	t.Parallel()
	old, middle, recent := message.ID{1}, message.ID{2}, message.ID{3}
	for name, test := range map[string]struct {
		ids      []message.ID // in the inbox, newest first
		total    int64
		complete bool
		wrong    []string
	}{
		"right":      {[]message.ID{recent, old}, 2, true, nil},
		"lost":       {[]message.ID{recent}, 2, true, []string{"ann: " + old.String() + " is lost"}},
		"doubled":    {[]message.ID{recent, recent, old}, 2, true, []string{"ann: " + recent.String() + " is there 2 times"}},
		"unexpected": {[]message.ID{recent, middle, old}, 2, true, []string{"ann: " + middle.String() + " was deleted, or is not for this user"}},
		"order":      {[]message.ID{old, recent}, 2, true, []string{"ann: " + recent.String() + " comes after an older message"}},
		"total":      {[]message.ID{recent, old}, 3, true, []string{"ann: has 2 messages, but the inbox says 3, complete: true"}},
		"incomplete": {[]message.ID{recent, old}, 2, false, []string{"ann: has 2 messages, but the inbox says 2, complete: false"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := newExpected()
			want.add(old, "ann")
			want.add(middle, "ann")
			want.add(recent, "ann", "ben")
			want.remove("ann", middle)
			ann := user{State: client.Active, Total: test.total, Complete: test.complete}
			for _, id := range test.ids {
				ann.entries = append(ann.entries, client.InboxMessage{ID: id})
			}
			require.Equal(t, test.wrong, want.wrong(&seen{Users: map[message.UserID]user{"ann": ann}}))
			require.Equal(t, []message.ID{old, middle, recent}, want.ids())
		})
	}
}
