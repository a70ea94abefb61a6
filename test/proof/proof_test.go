package main

import (
	"bytes"
	"testing"
	"time"

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

func TestRun(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		"instance":         {[]string{"-run", "^append-3$"}, 0, "nothing", ""},
		"mutation":         {[]string{"-run", "newest of several", "-traces"}, 0, "message 1 is in the inbox twice", ""},
		"long one":         {[]string{"-run", "^append-3-long$"}, 2, "", "nothing matches"},
		"nothing":          {[]string{"-run", "nonsense"}, 2, "", "nothing matches"},
		"not a pattern":    {[]string{"-run", "("}, 2, "", "-run: "},
		"an argument":      {[]string{"append-3"}, 2, "", "unexpected argument"},
		"an unknown flag":  {[]string{"-fast"}, 2, "", "-fast"},
		"a call for help":  {[]string{"-help"}, 0, "", "go run ./test/proof"},
		"in another case":  {[]string{"-run", "NEWEST of SEVERAL"}, 0, "in the inbox twice", ""},
		"with its traces":  {[]string{"-run", "newest of several", "-traces"}, 0, "at first", ""},
		"without a column": {[]string{"-run", "^append-3$"}, 0, "DEPTH", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			code := run(test.args, &stdout, &stderr, func() time.Time { return time.Time{} })
			require.Equal(t, test.code, code, "%s", stderr.String())
			require.Contains(t, stdout.String(), test.stdout)
			require.Contains(t, stderr.String(), test.stderr)
		})
	}
}
