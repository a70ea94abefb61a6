package viewers_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/startstop"
	"github.com/fanmail/fanmail/internal/viewers"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// air is a bus that hands each announcement to all listeners at once.
type air struct {
	mu    sync.Mutex
	ears  map[int]func(event.Viewed)
	sent  []event.Viewed
	fails int // so many of the next calls of HearViewed fail
}

func (a *air) EmitViewed(e event.Viewed) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent = append(a.sent, e)
	for _, ear := range a.ears {
		ear(e)
	}
}

func (a *air) HearViewed(ctx context.Context, heard func(event.Viewed)) error {
	a.mu.Lock()
	if a.fails > 0 {
		a.fails--
		a.mu.Unlock()
		return bus.ErrUnavailable
	}
	if a.ears == nil {
		a.ears = make(map[int]func(event.Viewed))
	}
	number := len(a.ears)
	a.ears[number] = heard
	a.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

// users returns the announced users, and how many events announced them.
func (a *air) users() (users []message.UserID, events int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.sent {
		users = append(users, e.Users...)
	}
	return users, len(a.sent)
}

// world is processes on one bus. It runs in a synctest bubble, whose clock moves only when all goroutines wait.
type world struct {
	*testing.T
	*air
	// start runs a loop until the test ends.
	start func(startstop.Loop)
}

func run(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var loops sync.WaitGroup
		test(&world{T: t, air: &air{}, start: func(loop startstop.Loop) {
			loops.Go(func() { loop(ctx, ctx) })
			synctest.Wait()
		}})
		stop()
		loops.Wait()
	})
}

// process starts a process that serves pages and fans out.
func (w *world) process(options ...func(*viewers.Options)) *viewers.Set {
	o := viewers.Options{Bus: w.air, Now: time.Now, Logger: zerolog.Nop()}
	for _, option := range options {
		option(&o)
	}
	s := viewers.New(o)
	w.start(s.Run)
	w.start(s.Listen)
	return s
}

// pass lets time pass, and waits until all processes have done what is due.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestViewersAreKnownEverywhere(t *testing.T) {
	t.Parallel()
	run(t, func(w *world) {
		t := w.T
		one, two := w.process(), w.process()
		require.Empty(t, one.Users())
		one.Seen("ben")
		one.Seen("ann")
		one.Seen("ben")
		two.Seen("cleo")
		pass(2 * time.Second)
		require.Equal(t, []message.UserID{"ann", "ben", "cleo"}, one.Users())
		require.Equal(t, []message.UserID{"ann", "ben", "cleo"}, two.Users())
		_, events := w.users()
		require.Equal(t, 2, events, "one event of each process has all views of a second")
	})
}

func TestViewersAreForgotten(t *testing.T) {
	t.Parallel()
	run(t, func(w *world) {
		t := w.T
		one, two := w.process(), w.process()
		one.Seen("ann")
		one.Seen("ben")
		for range 4 {
			pass(time.Minute + time.Second)
			one.Seen("ben")
		}
		pass(2 * time.Minute)
		require.Equal(t, []message.UserID{"ben"}, one.Users())
		require.Equal(t, []message.UserID{"ben"}, two.Users(), "a user who goes on viewing is announced again")
		pass(10 * time.Minute)
		require.Empty(t, one.Users())
		require.Empty(t, two.Users())
	})
}

// A user is announced once a minute, by whichever process.
func TestViewsAreAnnouncedRarely(t *testing.T) {
	t.Parallel()
	run(t, func(w *world) {
		t := w.T
		one, two := w.process(), w.process()
		for range 30 { // for a minute
			one.Seen("ann")
			pass(2 * time.Second)
			two.Seen("ann")
		}
		users, _ := w.users()
		require.Equal(t, []message.UserID{"ann"}, users)
		pass(time.Minute)
		two.Seen("ann")
		pass(2 * time.Second)
		users, _ = w.users()
		require.Equal(t, []message.UserID{"ann", "ann"}, users)
	})
}

func TestViewersAreBounded(t *testing.T) {
	t.Parallel()
	run(t, func(w *world) {
		t := w.T
		registry := prometheus.NewRegistry()
		one, two := w.process(func(o *viewers.Options) { o.Metrics = registry }), w.process()
		user := func(n int) message.UserID { return message.UserID(fmt.Sprintf("user-%05d", n)) }
		const extra = 100
		for n := range viewers.Max {
			one.Seen(user(n))
		}
		pass(2 * time.Second)
		require.Len(t, one.Users(), viewers.Max)
		for n := range extra {
			one.Seen(user(viewers.Max + n))
		}
		pass(2 * time.Second)
		for _, s := range []*viewers.Set{one, two} {
			require.Len(t, s.Users(), viewers.Max)
			require.Equal(t, user(extra), s.Users()[0], "those who viewed longest ago are dropped")
			require.Equal(t, user(viewers.Max+extra-1), s.Users()[viewers.Max-1])
		}
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP fanmail_viewers Users who have viewed a page within five minutes, as far as this process has heard.
# TYPE fanmail_viewers gauge
fanmail_viewers 10000
`)))
		_, events := w.users()
		for _, e := range w.sent {
			require.LessOrEqual(t, len(e.Users), 256)
		}
		require.LessOrEqual(t, events, viewers.Max/256+2)

		for n := range 2 * viewers.Max { // more in a second than are announced
			one.Seen(user(2*viewers.Max + n))
		}
		before, _ := w.users()
		pass(time.Second)
		after, _ := w.users()
		require.Len(t, after[len(before):], viewers.Max)
	})
}

// A list of viewers never changes: a caller may keep it while users come and go.
func TestListsDoNotChange(t *testing.T) {
	t.Parallel()
	run(t, func(w *world) {
		t := w.T
		s := w.process()
		s.Seen("ben")
		pass(time.Second)
		before := s.Users()
		pass(time.Second)
		again := s.Users()
		require.Same(t, &before[0], &again[0], "no list is made if the users are the same")
		s.Seen("ann")
		pass(time.Second)
		require.Equal(t, []message.UserID{"ben"}, before)
		require.Equal(t, []message.UserID{"ann", "ben"}, s.Users())
	})
}

func TestUsersAllocatesNothing(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts the allocations of parallel tests too
	s := viewers.New(viewers.Options{Bus: &air{}, Now: time.Now})
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = s.Users() }))
}

func TestListenTriesAgain(t *testing.T) {
	t.Parallel()
	run(t, func(w *world) {
		t := w.T
		w.fails = 3
		s := w.process()
		pass(5 * time.Second)
		w.EmitViewed(event.NewViewed([]message.UserID{"ann"}))
		pass(time.Second)
		require.Equal(t, []message.UserID{"ann"}, s.Users())
	})
}

// After the clock was ahead and is set back, users are forgotten as usual.
func TestClockThatWasAhead(t *testing.T) {
	t.Parallel()
	run(t, func(w *world) {
		t := w.T
		var mu sync.Mutex
		ahead := 24 * time.Hour
		s := w.process(func(o *viewers.Options) {
			o.Now = func() time.Time {
				mu.Lock()
				defer mu.Unlock()
				return time.Now().Add(ahead)
			}
		})
		s.Seen("ann")
		pass(2 * time.Second)
		require.NotEmpty(t, s.Users())
		mu.Lock()
		ahead = 0
		mu.Unlock()
		pass(2 * time.Second)
		require.Empty(t, s.Users())
	})
}
