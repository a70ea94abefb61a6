package rig_test

import (
	"testing"

	"github.com/fanmail/fanmail/internal/bus/bustest"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// TestBus holds the bus behind the seam to the contract of the bus in front of it.
func TestBus(t *testing.T) {
	t.Parallel()
	bustest.Run(t, func(t *testing.T) bustest.Harness {
		t.Helper()
		b := rig.NewBus(t, bustest.Partitions)
		return bustest.Harness{Bus: b, Login: b.PutLogin}
	})
}
