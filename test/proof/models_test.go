//go:build long

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProtocolsAreRight(t *testing.T) {
	t.Parallel()
	for _, i := range instances() {
		if i.long {
			continue
		}
		t.Run(i.name, func(t *testing.T) {
			t.Parallel()
			found := i.run()
			require.Empty(t, found.violation, "%s", found.trace)
			require.Greater(t, found.states, 1000, "an instance that hardly does anything proves nothing")
			t.Logf("%d states, %d steps, depth %d", found.states, found.transitions, found.depth)
		})
	}
}

func TestMutationsAreCaught(t *testing.T) {
	t.Parallel()
	known := make(map[mutation]bool)
	for _, s := range shortcuts() {
		require.False(t, known[s.is], "%s is there twice", s.name)
		known[s.is] = true
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			found := s.run()
			require.NotEmpty(t, found.violation)
			require.Greater(t, len(found.trace), 1)
			require.Len(t, found.trace, found.depth+1, "the trace has a line for each step, and one for the beginning")
			t.Logf("%s, after %d steps", found.violation, found.depth)
		})
	}
	for is := correct + 1; is < mutations; is++ {
		require.True(t, known[is], "mutation %d is not tried", is)
	}
}

// Where nothing is repeated, and a task is removed before its continuation is worked on, a record needs no
// compare-and-set: what is wrong with emitFirst is the order alone.
func TestOrderOfRecordingAlone(t *testing.T) {
	t.Parallel()
	require.Empty(t, explore(&scanning{mutation: plainRecord, owners: 3, batch: 2}).violation)
	require.NotEmpty(t, explore(&scanning{mutation: emitFirst, owners: 3, batch: 2}).violation)
}
