//go:build mongodb

package app_test

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/app"
	between "github.com/fanmail/fanmail/internal/clocks"
	"github.com/fanmail/fanmail/test/testenv"
)

// TestStartWithAClockApartFromTheDatabases starts processes whose clocks are ahead of the database's, or behind it.
func TestStartWithAClockApartFromTheDatabases(t *testing.T) {
	t.Parallel()
	uri, database := testenv.MongoDB(t)
	cfg, opts := defaults(t.TempDir())
	cfg.Store, cfg.MongoDB.URI, cfg.MongoDB.Database = config.StoreMongoDB, config.URL(uri), database
	require.NoError(t, app.Init(t.Context(), cfg, false, zerolog.Nop()))
	for ahead, refused := range map[time.Duration]bool{
		0: false, time.Minute: false, -time.Minute: false, 10 * time.Minute: true, -10 * time.Minute: true,
	} {
		opts.Metrics = nil
		opts.Now = func() time.Time { return time.Now().Add(ahead) }
		a := app.New(cfg, opts)
		err := a.Start(t.Context())
		if refused {
			require.ErrorIs(t, err, between.ErrApart, ahead)
			require.ErrorContains(t, err, "by the database's clock")
		} else {
			require.NoError(t, err, ahead)
		}
		require.NoError(t, a.Stop(t.Context()))
	}
}
