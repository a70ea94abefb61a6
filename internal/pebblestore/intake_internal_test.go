package pebblestore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// busyEngine takes over tables when the test lets it.
type busyEngine struct {
	results chan error

	mu    sync.Mutex // a bubble's clock orders its goroutines, but the race detector does not know
	calls [][]string
}

func (e *busyEngine) Ingest(_ context.Context, paths []string) error {
	e.mu.Lock()
	e.calls = append(e.calls, paths)
	e.mu.Unlock()
	return <-e.results
}

// taken returns the paths of each call so far.
func (e *busyEngine) taken() [][]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.calls)
}

// What comes while the engine is busy goes together, unless it overlaps. Then it goes in the next call, which another of those who wait makes.
func TestIntake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := &busyEngine{results: make(chan error)}
		in := &intake{engine: engine, write: func(do func() error) { _ = do() }}
		handOver := func(first, last string) <-chan error {
			done := make(chan error, 1)
			tables := &tables{paths: []string{first + last}, first: []byte(first), last: []byte(last)}
			go func() { done <- in.add(t.Context(), tables) }()
			synctest.Wait()
			return done
		}
		pass := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		end := func(err error) {
			engine.results <- err
			synctest.Wait()
		}
		broken := errors.New("broken")

		alone := handOver("a", "c")
		first, second := handOver("a", "c"), handOver("d", "f")
		overlapping := []<-chan error{handOver("f", "k"), handOver("b", "e"), handOver("k", "l")}
		last := handOver("g", "h")
		require.Equal(t, [][]string{{"ac"}}, engine.taken())
		const busy = 10 * time.Millisecond
		pass(busy)
		end(nil)
		require.NoError(t, <-alone)
		pass(idlePerBusy*busy - 1)
		require.Len(t, engine.taken(), 1, "the engine must be idle")
		pass(1)
		require.Equal(t, [][]string{{"ac"}, {"ac", "df", "kl", "gh"}}, engine.taken())
		end(broken)
		for _, done := range []<-chan error{first, second, overlapping[2], last} {
			require.ErrorIs(t, <-done, broken)
		}
		require.Equal(t, []string{"fk", "be"}, engine.taken()[2])
		end(nil)
		require.NoError(t, errors.Join(<-overlapping[0], <-overlapping[1]))
		next := handOver("a", "c")
		end(nil)
		require.NoError(t, <-next)
		require.Len(t, engine.taken(), 4)
	})
}
