//go:build long

package fanout_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/fanout"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// slowly is how long each call of the stores below takes.
const slowly = 200 * time.Millisecond

func slow[T any](result T, err error) (T, error) {
	time.Sleep(slowly)
	return result, err
}

type slowMessages struct{ message.Store }

func (s slowMessages) GetMany(ctx context.Context, refs []message.Ref) ([]message.Found, error) {
	return slow(s.Store.GetMany(ctx, refs))
}

func (s slowMessages) Endings(ctx context.Context, refs []message.Ref) ([]message.Ending, error) {
	return slow(s.Store.Endings(ctx, refs))
}

func (s slowMessages) Conclude(ctx context.Context, endings []message.Ending) error {
	_, err := slow(0, s.Store.Conclude(ctx, endings))
	return err
}

type slowUsers struct{ userstate.Store }

func (s slowUsers) Lookup(ctx context.Context, users []message.UserID) ([]userstate.Looked, error) {
	return slow(s.Store.Lookup(ctx, users))
}

type slowInbox struct{ bucket.Store }

func (s slowInbox) Push(ctx context.Context, pushes []bucket.Push) ([]bucket.Outcome, error) {
	return slow(s.Store.Push(ctx, pushes))
}

// Where each call of the store takes 200 ms, sixteen routers deliver about four times as much as four. Each message has one recipient, and a router
// fetches 16 at a time, so its rounds have about as many. The test prints the rates, and which part of the processors they took.
func TestRoutersShareTheWork(t *testing.T) {
	t.Parallel()
	rates := make(map[int]float64)
	for _, routers := range []int{1, 4, 16} {
		rate, cpu := routed(t, routers, 64*12*routers)
		t.Logf("%d routers: %.0f messages a second, %.0f%% of %d processors", routers, rate, 100*cpu, runtime.NumCPU())
		rates[routers] = rate
	}
	t.Logf("16 routers deliver %.2f times as much as 4", rates[16]/rates[4])
}

func routed(t *testing.T, routers, messages int) (rate, cpu float64) {
	t.Helper()
	w := newWorld(t)
	var users []message.UserID
	for n := range messages {
		users = append(users, message.UserID(fmt.Sprintf("user-%05d", n)))
	}
	w.see(t, users...)
	for n, user := range users {
		w.Clock.Advance(time.Millisecond) // or the messages are void, because they come from the future
		w.publish(t, w.store(t, n+1, "author", user))
	}
	stores := w.Stores()
	stores.Messages, stores.Users = slowMessages{stores.Messages}, slowUsers{stores.Users}
	stores.Appender = bucket.NewAppender(slowInbox{w.Inbox}, w.Users)
	round := stores.Round
	stores.Round = func(ctx context.Context) (int64, error) { return slow(round(ctx)) }
	w.opts.RouteEvents, w.opts.BatchOwners = 16, 4000

	before, began := processorTime(t), time.Now()
	intake, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for range routers {
		router := fanout.NewRouter(stores, w.Bus, w.opts)
		running.Go(func() {
			router.Run(intake, t.Context(), func(ctx context.Context, limit int) ([]bus.Received, error) {
				return w.Bus.Bus.FetchPublished(ctx, limit)
			})
		})
	}
	require.Eventually(t, func() bool { return len(w.unfinished(t)) == 0 }, 10*patience, 10*time.Millisecond)
	took := time.Since(began)
	cpu = (processorTime(t) - before).Seconds() / took.Seconds() / float64(runtime.NumCPU())
	stop()
	running.Wait()
	for _, user := range users {
		require.Len(t, w.inbox(t, user), 1)
	}
	return float64(messages) / took.Seconds(), cpu
}

func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
