package mongostore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// TestDecisionsByAClockTakeEffectWithinHalfOfTheTolerance computes the time from which the server refuses an update. It depends on the
// tolerance and on the caller's deadline only.
func TestDecisionsByAClockTakeEffectWithinHalfOfTheTolerance(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ timeout, tolerance, want time.Duration }{
		"defaults":                            {0, 0, userstate.DefaultRules().ClockTolerance / 2},
		"a short timeout":                     {time.Second, 0, userstate.DefaultRules().ClockTolerance / 2},
		"a quarter of the tolerance":          {30 * time.Second, 2 * time.Minute, time.Minute},
		"more than a quarter":                 {time.Minute, 2 * time.Minute, time.Minute},
		"a small tolerance":                   {100 * time.Millisecond, 400 * time.Millisecond, 200 * time.Millisecond},
		"a great tolerance":                   {10 * time.Second, time.Hour, 30 * time.Minute},
		"a timeout longer than the tolerance": {time.Minute, time.Second, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := mongostore.Options{URI: "mongodb://unused", Now: time.Now, Timeout: test.timeout}
			if test.tolerance != 0 {
				opts.ClockTolerance = func() time.Duration { return test.tolerance }
			}
			before := time.Now().Truncate(time.Millisecond)
			latest, err := mongostore.Latest(t.Context(), opts)
			after := time.Now()
			require.NoError(t, err)
			require.False(t, latest.Before(before.Add(test.want)), "half of the tolerance is not used up")
			require.False(t, latest.After(after.Add(test.want)), "after half of the tolerance")

			for _, end := range []time.Time{before.Add(-time.Hour), before.Add(test.want)} { // the caller read its clock some time ago
				ctx, cancel := context.WithDeadline(t.Context(), end)
				latest, err := mongostore.Latest(ctx, opts)
				cancel()
				require.NoError(t, err)
				require.True(t, latest.Equal(end), "%v is not the end of the caller's context, %v", latest, end)
			}
			ctx, cancel := context.WithDeadline(t.Context(), before.Add(24*time.Hour))
			defer cancel()
			later, err := mongostore.Latest(ctx, opts)
			require.NoError(t, err)
			require.False(t, later.After(time.Now().Add(test.want)), "the caller has time, the decision has not")
		})
	}
}
