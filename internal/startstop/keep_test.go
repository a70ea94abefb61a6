package startstop_test

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/startstop"
)

// quiet returns a recorder without a log.
func quiet() *panics.Recorder { return panics.NewRecorder(zerolog.Nop(), nil, "test") }

// A loop that panics runs again after a pause, and its panics are logged.
func TestLoopThatPanicsRunsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var runs []time.Duration
		began := time.Now()
		r := startstop.NewRunner("test loop", panics.NewRecorder(zerolog.New(&log), nil, "test"), func(intake, _ context.Context) {
			if runs = append(runs, time.Since(began)); len(runs) < 4 {
				panic("not yet")
			}
			<-intake.Done()
		}, untilIntakeEnds)
		require.NoError(t, r.Start(t.Context()))
		time.Sleep(time.Minute)
		require.NoError(t, r.Stop(t.Context()))
		require.Equal(t, []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}, runs)
		require.Equal(t, 3, bytes.Count(log.Bytes(), []byte(`"loop":"test loop"`)))
		require.Contains(t, log.String(), "panic: not yet")
	})
}

// A loop that panics at the end of intake gets one more run to hand back its work, and then the service stops.
func TestLoopThatPanicsWhileItStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var began time.Time
		runs := 0
		r := startstop.NewRunner("test loop", quiet(), func(intake, _ context.Context) {
			runs++
			<-intake.Done()
			panic("always")
		})
		require.NoError(t, r.Start(t.Context()))
		synctest.Wait()
		began = time.Now()
		require.NoError(t, r.Stop(t.Context()))
		require.Equal(t, 2, runs)
		require.Zero(t, time.Since(began))
	})
}
