package testenv

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// Restart is how a process was replaced by another one on the same address.
type Restart struct {
	Role string
	// Begun is when it was told to terminate, Ended how long after that it had ended, Took when the next one was ready.
	Begun       time.Time
	Ended, Took time.Duration
	// Said is what it, and the next one, answered when asked whether they are ready.
	Said []Probe
}

// String says it in one line.
func (r Restart) String() string {
	var line strings.Builder
	fmt.Fprintf(&line, "%s: exit 0 after %d ms; balancer:", r.Role, r.Ended.Milliseconds())
	for _, said := range r.Said {
		fmt.Fprintf(&line, " %s %d ms,", said.Readiness, said.At.Sub(r.Begun).Milliseconds())
	}
	fmt.Fprintf(&line, " next after %d ms", r.Took.Milliseconds())
	return line.String()
}

// RestartEach replaces the processes one after the other, first those that only read what others write: rehydrators, fan-out workers,
// publishers. Each is told to terminate and has to end without complaint, and the next one to be ready, before the turn of another. It
// calls done after each.
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
	// The operating system takes the address back at once, and the next one may be there before anybody has noticed.
	Eventually(ctx, a.t, "it is seen that "+r.Role+" has ended", func() bool { return a.probes.readiness(m.addr) == Away })
	a.start(ctx, m)
	Eventually(ctx, a.t, "it is seen that "+r.Role+" is ready", func() bool { return a.probes.readiness(m.addr) == Ready })
	r.Took = time.Since(r.Begun)
	r.Said = a.probes.since(m.addr, r.Begun)
	return r
}
