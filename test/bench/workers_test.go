package bench_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
	"github.com/fanmail/fanmail/test/testenv"
)

const (
	workersFollowers = 20_000
	workersMessages  = 20
)

// BenchmarkWorkers publishes 20 messages by two authors with the same 20,000 active followers, on MongoDB, to one fanout-worker
// and to three, each a process of its own; they take turns on the same data. Beside the deliveries in a second it tells how many
// processors the workers kept busy: on a machine that they share with the MongoDB server, the others are left to that.
func BenchmarkWorkers(b *testing.B) {
	*store = config.StoreMongoDB
	built, err := testenv.Build(b.Context(), b.TempDir())
	require.NoError(b, err)
	backend := openBackend(b, b.TempDir(), time.Now)
	server, err := natsserver.Start(b.Context(), natsserver.Options{
		Dir: b.TempDir(), Addr: "127.0.0.1:0", Logger: zerolog.Nop(),
	})
	require.NoError(b, err)
	b.Cleanup(server.Stop)
	bus, err := natsbus.Connect(b.Context(), natsbus.Options{Server: server, Logger: zerolog.Nop()})
	require.NoError(b, err)
	b.Cleanup(bus.Close)
	p := newPublishing(backend, bus)
	p.populate(b, workersFollowers, "one", "two")

	cfg := config.Default()
	backend.configure(&cfg)
	env := slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "FANMAIL_") })
	env = append(env, "FANMAIL_ADDR=127.0.0.1:0", "FANMAIL_STORE=mongodb", "FANMAIL_NATS_URL="+server.ClientURL(),
		"FANMAIL_MONGODB_URI="+string(cfg.MongoDB.URI), "FANMAIL_MONGODB_DATABASE="+cfg.MongoDB.Database, "FANMAIL_LOG_LEVEL=warn",
		"FANMAIL_NATS_MAX_PUBLISHED=16MiB", "FANMAIL_NATS_MAX_FANOUT=16MiB", "FANMAIL_NATS_MAX_LOGIN=16MiB", "FANMAIL_NATS_MAX_DLQ=16MiB") // no more than there is
	crews := []*crew{newCrew(b, 1, p), newCrew(b, 3, p)}
	for b.Loop() {
		for _, c := range crews {
			c.work(b, built.FanoutWorker, env)
		}
	}
	for _, c := range crews {
		b.ReportMetric(c.rate(), c.name+"/s")
		b.ReportMetric(c.processor.Seconds()/c.life.Seconds(), c.name+"-cpus")
	}
	b.ReportMetric(crews[1].rate()/crews[0].rate(), "times-one")
	b.ReportMetric(0, "ns/op")
}

// crew is a number of workers, and what they have done.
type crew struct {
	*way
	size int
	// life is for how long they ran, and processor the processor time that they used.
	life, processor time.Duration
}

func newCrew(b *testing.B, size int, p *pipeline) *crew {
	b.Helper()
	return &crew{size: size, way: &way{name: fmt.Sprintf("workers=%d", size), deliver: func(context.Context) (int64, error) {
		return p.await(b, p.publish(b, workersMessages, "one", "two")), nil
	}}}
}

// work starts the workers, and measures them when they are ready and warm.
func (c *crew) work(b *testing.B, binary string, env []string) {
	b.Helper()
	began := time.Now()
	started := make([]*exec.Cmd, c.size)
	for i := range started {
		started[i] = exec.Command(binary) //nolint:noctx // it is stopped in order
		started[i].Env, started[i].Stderr = env, os.Stderr
		require.NoError(b, started[i].Start())
	}
	_, err := c.deliver(b.Context())
	require.NoError(b, err)
	c.take(b)
	for _, w := range started {
		require.NoError(b, w.Process.Signal(syscall.SIGTERM))
	}
	for _, w := range started {
		require.NoError(b, w.Wait())
		c.processor += w.ProcessState.UserTime() + w.ProcessState.SystemTime()
	}
	c.life += time.Since(began)
}
