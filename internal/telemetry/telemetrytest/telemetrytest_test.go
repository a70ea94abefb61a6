package telemetrytest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/telemetry/telemetrytest"
)

// recorder is a testing.TB that records the logged lines. end runs its cleanup.
type recorder struct {
	testing.TB

	lines    []string
	cleanups []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Log(args ...any)  { r.lines = append(r.lines, fmt.Sprint(args...)) }
func (r *recorder) end() {
	for _, f := range r.cleanups {
		f()
	}
}

func TestLogger(t *testing.T) {
	t.Parallel()
	test := &recorder{TB: t}
	log := telemetrytest.Logger(test)
	log.Debug().Int("tasks", 3).Msg("batch")
	test.end()
	log.Error().Msg("too late")
	require.Equal(t, []string{"DBG batch tasks=3"}, test.lines)
}
