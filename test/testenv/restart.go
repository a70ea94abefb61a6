package testenv

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// Restart describes the replacement of a process by a successor on the same address.
type Restart struct {
	Role string
	// Begun is the time of SIGTERM. Ended is the time from Begun until the process had ended, Took until the successor was ready.
	Begun       time.Time
	Ended, Took time.Duration
	// Said has the readiness of the process and of its successor.
	Said []Probe
}

// String returns the restart in one line.
func (r Restart) String() string {
	var line strings.Builder
	fmt.Fprintf(&line, "%s: exit 0 after %d ms; balancer:", r.Role, r.Ended.Milliseconds())
	for _, said := range r.Said {
		fmt.Fprintf(&line, " %s %d ms,", said.Readiness, said.At.Sub(r.Begun).Milliseconds())
	}
	fmt.Fprintf(&line, " next after %d ms", r.Took.Milliseconds())
	return line.String()
}

// RestartEach replaces the processes one after another: rehydrators, fan-out workers, publishers. Readers of the data are replaced
// before its writers. Each process must end without errors, and its successor must be ready, before the next replacement.
// RestartEach calls done after each.
func (a *Apart) RestartEach(ctx context.Context, binaries Binaries, done func(Restart)) {
	a.t.Helper()
	for _, binary := range []string{binaries.Rehydrator, binaries.FanoutWorker, binaries.Publisher} {
		for _, m := range a.members {
			if m.binary == binary {
				done(a.restart(ctx, m))
			}
		}
	}
}

// restart replaces one process.
func (a *Apart) restart(ctx context.Context, m *member) Restart {
	a.t.Helper()
	r := Restart{Role: filepath.Base(m.binary), Begun: time.Now()}
	m.Terminate()
	require.Zero(a.t, m.Code(ctx), "%s exits with an error", m.binary)
	r.Ended = time.Since(r.Begun)
	a.requireSound(m)
	// The address is free at once. Without this wait, the successor could answer before a probe has noticed the end of the process.
	Eventually(ctx, a.t, "it is seen that "+r.Role+" has ended", func() bool { return a.probes.readiness(m.addr) == Away })
	a.start(ctx, m)
	Eventually(ctx, a.t, "it is seen that "+r.Role+" is ready", func() bool { return a.probes.readiness(m.addr) == Ready })
	r.Took = time.Since(r.Begun)
	r.Said = a.probes.since(m.addr, r.Begun)
	return r
}
