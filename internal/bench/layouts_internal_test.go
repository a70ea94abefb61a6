package bench

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
)

// TestOwnLayoutMayNotShowTwice lets a recipe that shows deliveries twice take the place of buckets: the run fails.
func TestOwnLayoutMayNotShowTwice(t *testing.T) {
	t.Parallel()
	for recipe, failure := range map[string]string{"counter": "shown twice", "bucket-values": ""} {
		t.Run(recipe, func(t *testing.T) {
			t.Parallel()
			env := Env{Config: config.Default(), Dir: t.TempDir(), Logger: zerolog.Nop(), Now: time.Now, Tell: func(string) {}, Body: 20}
			x := &comparing{
				env: env, recipients: users("user", 0, 5),
				o: LayoutsOptions{There: 6, Messages: 2, Layouts: []string{recipe}, BucketSize: 2, Newest: 4, Redeliver: 1},
			}
			x.draw()
			require.NoError(t, x.open(t.Context()))
			x.layouts[0].name = "buckets"
			require.NoError(t, x.fill(t.Context()))
			require.NoError(t, x.send(t.Context()))
			if err := x.redeliver(t.Context()); failure == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, failure)
			}
			_, err := x.layouts[0].finish(t.Context())
			require.NoError(t, err)
		})
	}
}
