package settings_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/message"
)

// TestKeysOutliveTheUpgrade reserves a key before the upgrade that lasts for longer than idempotency.ttl says then: that was lowered, by
// a change at level 2 or in the configuration at level 1.
func TestKeysOutliveTheUpgrade(t *testing.T) {
	t.Parallel()
	for name, level := range map[string]int{"level 1": settings.Unrecorded, "level 2": settings.Recorded} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := settings.Highest
			if level == settings.Unrecorded {
				first = level
			}
			w := newWorld(t, first)
			if level == settings.Recorded {
				w.atLevel2(t)
			}
			p := w.process(t, "a", func(c *config.Config) { c.Idempotency.TTL = 12 * time.Hour })
			if level == settings.Recorded {
				p.change(t, "idempotency.ttl", "12h")
			}
			require.Equal(t, level, p.Level())
			require.Zero(t, p.KeysUntil())
			key := message.Key{From: "ann", Key: "k", ID: messagetest.ID(1), Expires: epoch.Add(48 * time.Hour)}
			_, err := w.Keys().Reserve(t.Context(), key, epoch)
			require.NoError(t, err)

			_, err = p.Upgrade(t.Context(), true)
			require.NoError(t, err)
			require.Equal(t, 12*time.Hour, p.KeyTTL())
			require.Equal(t, key.Expires.Add(2*time.Minute+time.Minute), p.KeysUntil(), "clock_tolerance, and until all processes know the change")
		})
	}
}
