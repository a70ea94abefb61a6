package testenv

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/fanmail/fanmail/pkg/client"
)

// Readiness is the answer of a process to /readyz.
type Readiness string

// The answers. Any other Readiness is the name of the first reason why the process is not ready.
const (
	Ready    = Readiness("ready")
	Starting = Readiness(client.ReasonStarting)
	Stopping = Readiness(client.ReasonStopping)
	// Away means that the process does not answer.
	Away = Readiness("away")
)

// Probe is a change of a process's readiness.
type Probe struct {
	At        time.Time
	Addr      string
	Readiness Readiness
}

// probeTimeout is longer than the time in which a process notices that its store does not answer.
const probeTimeout = 5 * time.Second

// probes polls the readiness of processes, like a load balancer, and records the changes.
type probes struct {
	every  time.Duration
	client *http.Client

	mu   sync.Mutex
	last map[string]Readiness
	log  []Probe
}

// startProbes polls the processes at some addresses, each once per interval, until the test ends.
func startProbes(t *testing.T, every time.Duration, addrs []string) *probes {
	t.Helper()
	p := &probes{
		every: every, last: make(map[string]Readiness),
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: probeTimeout},
	}
	ctx, stop := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	for _, addr := range addrs {
		p.note(addr, p.ask(ctx, addr))
		asking.Go(func() { p.watch(ctx, addr) })
	}
	t.Cleanup(func() {
		stop()
		asking.Wait()
	})
	return p
}

func (p *probes) watch(ctx context.Context, addr string) {
	ticker := time.NewTicker(p.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			p.note(addr, p.ask(ctx, addr))
		}
	}
}

// ask requests the readiness of a process once.
func (p *probes) ask(ctx context.Context, addr string) Readiness {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", http.NoBody)
	if err != nil {
		return Away
	}
	answer, err := p.client.Do(request)
	if ctx.Err() != nil {
		return p.readiness(addr) // the test is over
	}
	if err != nil {
		return Away
	}
	defer func() { _ = answer.Body.Close() }() // the body is not needed
	if answer.StatusCode == http.StatusOK {
		return Ready
	}
	var problem client.Problem
	if json.NewDecoder(answer.Body).Decode(&problem) != nil || len(problem.Reasons) == 0 {
		return Away
	}
	return Readiness(problem.Reasons[0].Name)
}

func (p *probes) note(addr string, now Readiness) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last[addr] != now {
		p.last[addr] = now
		p.log = append(p.log, Probe{At: time.Now(), Addr: addr, Readiness: now})
	}
}

// ready reports whether requests may go to a process, according to its last answer. A process without a reachable store counts as
// ready: all processes share the store, so the front would otherwise have no process left.
func (p *probes) ready(addr string) bool {
	switch p.readiness(addr) {
	case Starting, Stopping, Away:
		return false
	default:
		return true
	}
}

func (p *probes) readiness(addr string) Readiness {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last[addr]
}

// since returns the changes of a process since a time.
func (p *probes) since(addr string, begun time.Time) (said []Probe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, probe := range p.log {
		if probe.Addr == addr && probe.At.After(begun) {
			said = append(said, probe)
		}
	}
	return said
}
