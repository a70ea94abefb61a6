package testenv

import (
	"context"
	"maps"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Apart is Fanmail with separate processes for each role, which share a NATS server and a MongoDB database. Requests go to a front,
// which distributes them over the processes like a load balancer.
type Apart struct {
	t        *testing.T
	site     *Site
	settings map[string]string
	nats     *Process
	natsArgs []string
	members  []*member
	front    *front
	probes   *probes // nil unless the front uses probes
}

// member is a process of a role, or its successor on the same address.
type member struct {
	binary string
	addr   string
	*Process
}

// The number of processes of each role.
const (
	publishers    = 2
	fanoutWorkers = 3
	rehydrators   = 2
)

// StartApart starts the processes of a site, and returns when they are ready. The front listens on the address of the site.
func (s *Site) StartApart(ctx context.Context, t *testing.T, binaries Binaries) *Apart {
	t.Helper()
	a := &Apart{t: t, site: s, settings: s.settings()}
	a.startNATS(ctx, binaries.NATS)
	for binary, count := range map[string]int{binaries.Publisher: publishers, binaries.FanoutWorker: fanoutWorkers, binaries.Rehydrator: rehydrators} {
		for range count {
			m := &member{binary: binary, addr: freeAddr(t)}
			a.members = append(a.members, m)
			a.start(ctx, m)
		}
	}
	if s.Probe > 0 {
		a.probes = startProbes(t, s.Probe, a.of(binaries.Publisher, binaries.FanoutWorker, binaries.Rehydrator))
	}
	a.front = startFront(ctx, t, s.Addr, a.of(binaries.Publisher), a.of(binaries.Rehydrator), a.probes)
	return a
}

// of returns the addresses of the processes of some roles.
func (a *Apart) of(roles ...string) (addrs []string) {
	for _, m := range a.members {
		if slices.Contains(roles, m.binary) {
			addrs = append(addrs, m.addr)
		}
	}
	return addrs
}

// Unanswered returns the requests to which the front received no answer, and the errors.
func (a *Apart) Unanswered() (failed []string) {
	for _, p := range []*pool{a.front.publishers, a.front.rehydrators} {
		p.mu.Lock()
		failed = append(failed, p.failed...)
		p.mu.Unlock()
	}
	return failed
}

// Publisher returns the URL of the first publisher.
func (a *Apart) Publisher() string { return "http://" + a.front.publishers.addrs[0] }

// Rehydrator returns the URL of the first rehydrator.
func (a *Apart) Rehydrator() string { return "http://" + a.front.rehydrators.addrs[0] }

func (a *Apart) startNATS(ctx context.Context, binary string) {
	a.t.Helper()
	addr := freeAddr(a.t)
	host, port, err := net.SplitHostPort(addr)
	require.NoError(a.t, err)
	a.natsArgs = []string{binary, "--addr", host, "--port", port, "--jetstream", "--store_dir", filepath.Join(a.site.Data, "nats-server")}
	if a.site.NATSConfig != "" {
		a.natsArgs = append(a.natsArgs, "--config", a.site.NATSConfig)
	}
	a.nats = Exec(ctx, a.t, nil, a.natsArgs[0], a.natsArgs[1:]...)
	a.settings["nats.url"] = "nats://" + addr
}

// NATS returns the URL of the NATS server.
func (a *Apart) NATS() string { return a.settings["nats.url"] }

// RestartNATS kills the NATS server, as kill -9 does, and starts it again on the same data.
func (a *Apart) RestartNATS(ctx context.Context) {
	a.t.Helper()
	a.nats.Kill()
	a.nats = Exec(ctx, a.t, nil, a.natsArgs[0], a.natsArgs[1:]...)
}

// KillNATS kills the NATS server, as kill -9 does.
func (a *Apart) KillNATS() { a.nats.Kill() }

// FreezeOne stops a random process for d with SIGSTOP, and returns its name.
func (a *Apart) FreezeOne(d time.Duration) string {
	a.t.Helper()
	m := a.members[rand.IntN(len(a.members))]
	m.Freeze()
	time.Sleep(d)
	m.Thaw()
	return filepath.Base(m.binary)
}

// StepClock sets the clocks of all processes to their next offsets, one after another.
func (a *Apart) StepClock(ctx context.Context) {
	a.t.Helper()
	for _, m := range a.members {
		m.StepClock(ctx)
	}
}

// Of returns the URLs of the processes of a role, given its program.
func (a *Apart) Of(binary string) (urls []string) {
	for _, addr := range a.of(binary) {
		urls = append(urls, "http://"+addr)
	}
	return urls
}

// URLs returns the URLs of all processes.
func (a *Apart) URLs() []string {
	urls := make([]string, len(a.members))
	for i, m := range a.members {
		urls[i] = "http://" + m.addr
	}
	return urls
}

// start starts a process and waits until it is ready.
func (a *Apart) start(ctx context.Context, m *member) {
	a.t.Helper()
	a.exec(ctx, m)
	Eventually(ctx, a.t, filepath.Base(m.binary)+" is ready", func() bool {
		require.True(a.t, m.Running(), "%s has ended", m.binary)
		return ready(m.Stderr(), "http://"+m.addr)
	})
}

// KillOne kills a random process with SIGKILL, starts its successor, and returns its name. It does not wait until the successor is
// ready.
func (a *Apart) KillOne(ctx context.Context) string {
	a.t.Helper()
	m := a.members[rand.IntN(len(a.members))]
	m.Kill()
	a.requireSound(m)
	a.exec(ctx, m)
	return filepath.Base(m.binary)
}

func (a *Apart) exec(ctx context.Context, m *member) {
	a.t.Helper()
	settings := maps.Clone(a.settings)
	settings["addr"] = m.addr
	m.Process = a.site.exec(ctx, a.t, settings, m.binary)
}

// AwaitReady waits until all processes are ready.
func (a *Apart) AwaitReady(ctx context.Context) {
	a.t.Helper()
	for _, m := range a.members {
		Eventually(ctx, a.t, filepath.Base(m.binary)+" is ready", func() bool { return ready(m.Stderr(), "http://"+m.addr) })
	}
}

// Kill kills all processes except the NATS server.
func (a *Apart) Kill() {
	for _, m := range a.members {
		m.Kill()
	}
	a.front.stop()
}

// Stop terminates all processes, the NATS server last. It requires that they end without errors.
func (a *Apart) Stop(ctx context.Context) {
	a.t.Helper()
	a.front.stop()
	for _, m := range a.members {
		m.Terminate()
	}
	for _, m := range a.members {
		require.Zero(a.t, m.Code(ctx), "%s exits with an error", m.binary)
	}
	a.RequireSound()
	a.nats.Terminate()
	a.nats.Code(ctx)
}

// RequireSound makes the checks of Server.RequireSound for all processes.
func (a *Apart) RequireSound() {
	a.t.Helper()
	for _, m := range a.members {
		a.requireSound(m)
	}
}

func (a *Apart) requireSound(m *member) {
	a.t.Helper()
	(&Server{m.Process, "http://" + m.addr, a.site.Provoked}).RequireSound()
}
