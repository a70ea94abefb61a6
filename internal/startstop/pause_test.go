package startstop_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/startstop"
)

func TestPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		startstop.Pause(t.Context(), time.Hour)
		require.Equal(t, time.Hour, time.Since(began))

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began = time.Now()
		startstop.Pause(ctx, time.Hour)
		require.Equal(t, time.Minute, time.Since(began))
	})
}
