package startstop_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/startstop"
	"github.com/fanmail/fanmail/internal/startstop/startstoptest"
)

type valueKey struct{}

func untilIntakeEnds(intake, _ context.Context) { <-intake.Done() }

func TestRunnerLifecycle(t *testing.T) {
	t.Parallel()
	startstoptest.Stress(t, func() startstop.Service {
		return startstop.NewRunner("test", quiet(), untilIntakeEnds, untilIntakeEnds)
	})
}

func TestRunnerWithoutLoops(t *testing.T) {
	t.Parallel()
	startstoptest.Stress(t, func() startstop.Service { return startstop.NewRunner("test", quiet()) })
}

func TestRunnerLetsWorkFinish(t *testing.T) {
	t.Parallel()
	finish := make(chan struct{})
	var workErr error
	r := startstop.NewRunner("test", quiet(), func(intake, work context.Context) {
		<-intake.Done()
		<-finish
		workErr = work.Err()
	})
	require.NoError(t, r.Start(t.Context()))
	stopped := make(chan error)
	go func() { stopped <- r.Stop(t.Context()) }()
	finish <- struct{}{} // received only once intake has ended
	require.NoError(t, <-stopped)
	require.NoError(t, workErr)
}

func TestRunnerCutsWorkShort(t *testing.T) {
	t.Parallel()
	draining, cut := make(chan struct{}), make(chan struct{})
	r := startstop.NewRunner("test", quiet(), func(intake, work context.Context) {
		<-intake.Done()
		close(draining)
		<-work.Done()
		<-cut
	})
	require.NoError(t, r.Start(t.Context()))
	patient := make(chan error)
	go func() { patient <- r.Stop(t.Context()) }()
	<-draining

	ctx, timeOut := context.WithCancelCause(t.Context())
	hasty := make(chan error)
	go func() { hasty <- r.Stop(ctx) }()
	errTimeout := errors.New("drain timeout")
	timeOut(errTimeout)
	select {
	case err := <-hasty:
		require.Fail(t, "Stop returned before the loop", "%v", err)
	case cut <- struct{}{}: // received only once work has ended
	}
	err := <-hasty
	require.ErrorIs(t, err, startstop.ErrCutShort)
	require.ErrorIs(t, err, errTimeout)
	require.Equal(t, err, <-patient)
	require.Equal(t, err, r.Stop(t.Context()))
}

func TestRunnerStopOfLoopsThatReturned(t *testing.T) {
	t.Parallel()
	returned := make(chan context.Context, 1)
	r := startstop.NewRunner("test", quiet(), func(_, work context.Context) { returned <- work })
	ctx := context.WithValue(t.Context(), valueKey{}, "value")
	require.NoError(t, r.Start(ctx))
	work := <-returned
	require.Equal(t, "value", work.Value(valueKey{}))
	<-work.Done() // ends with the last loop
	require.NoError(t, r.Stop(t.Context()))
}
