package pebblestore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// busyEngine takes over tables when the test lets it.
type busyEngine struct {
	calls   [][]string
	results chan error
}

func (e *busyEngine) Ingest(_ context.Context, paths []string) error {
	e.calls = append(e.calls, paths)
	return <-e.results
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
		require.Equal(t, [][]string{{"ac"}}, engine.calls)
		const busy = 10 * time.Millisecond
		pass(busy)
		end(nil)
		require.NoError(t, <-alone)
		pass(idlePerBusy*busy - 1)
		require.Len(t, engine.calls, 1, "the engine must be idle")
		pass(1)
		require.Equal(t, [][]string{{"ac"}, {"ac", "df", "kl", "gh"}}, engine.calls)
		end(broken)
		for _, done := range []<-chan error{first, second, overlapping[2], last} {
			require.ErrorIs(t, <-done, broken)
		}
		require.Equal(t, []string{"fk", "be"}, engine.calls[2])
		end(nil)
		require.NoError(t, errors.Join(<-overlapping[0], <-overlapping[1]))
		next := handOver("a", "c")
		end(nil)
		require.NoError(t, <-next)
		require.Len(t, engine.calls, 4)
	})
}
