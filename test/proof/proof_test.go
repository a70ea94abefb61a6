package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
