package natsbus_test

import (
	"context"
	"testing"
	"time"

	"github.com/fanmail/fanmail/internal/bus/bustest"
	"github.com/fanmail/fanmail/internal/natsbus"
)

// TestBus holds the bus to its contract.
func TestBus(t *testing.T) {
	t.Parallel()
	bustest.Run(t, func(t *testing.T) bustest.Harness {
		t.Helper()
		b, js := loginService(t, natsbus.Options{Partitions: bustest.Partitions, Lease: time.Hour})
		return bustest.Harness{
			Bus: b,
			Login: func(ctx context.Context, payload []byte) error {
				_, err := js.Publish(ctx, loginSubject, payload)
				return err
			},
		}
	})
}
