//go:build long

package security_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/app/embedded"
	"github.com/fanmail/fanmail/internal/telemetry/telemetrytest"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/testenv"
)

// silence is the status of a connection that was closed without an answer.
const silence = 0

// TestHostileRequests sends ten thousand hostile requests over connections of their own, most of them with a token that may do
// everything but operate: it is the insider who gets furthest. Then the server has to be as it was, and to serve.
//
//nolint:paralleltest // it counts the goroutines of this process
func TestHostileRequests(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	i := newIssuer(t)
	s := &hostileServer{token: i.token("insider", "publish read", time.Hour, "*"), log: new(telemetrytest.Buffer)}
	stop := s.start(t, i, 20*time.Second, nil)
	defer stop()
	s.exchange(ctx, t, "before")
	goroutines, heap := settled()

	sent := 0
	var table strings.Builder
	columns := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(columns, "class\tsent\tanswers\texpected")
	for n, class := range classes() {
		random := rand.New(rand.NewPCG(uint64(n), 20260102))
		counts := s.attackWith(ctx, t, i, class, random)
		_, _ = fmt.Fprintf(columns, "%s\t%d\t%s\t%s\n", class.name, class.count, counted(counts), statuses(class.expected))
		if class.cut && counts[silence] <= class.count/20 {
			delete(counts, silence)
		}
		for status := range counts {
			require.Contains(t, class.expected, status, "%s: %s", class.name, counted(counts))
		}
		sent += class.count
	}
	require.Equal(t, 10_000, sent)
	s.exchange(ctx, t, "after")

	var nowGoroutines int
	var nowHeap uint64
	testenv.Eventually(ctx, t, "goroutines have ended, and memory is given back", func() bool {
		nowGoroutines, nowHeap = settled()
		return nowGoroutines <= goroutines+5 && nowHeap < heap+64<<20 // the server's own pools grow and shrink
	})
	require.NotContains(t, s.log.String(), "panic")
	require.NotContains(t, s.log.String(), `"level":"error"`)
	require.NotContains(t, s.log.String(), s.token)
	_, _ = fmt.Fprintf(columns, "all\t%d\t\t\n", sent)
	require.NoError(t, columns.Flush())
	t.Logf("\n%s\ngoroutines %d before, %d after; heap %d MiB before, %d MiB after; it still publishes and reads",
		table.String(), goroutines, nowGoroutines, heap>>20, nowHeap>>20)
}

// settled returns how many goroutines there are, and how many bytes are in use.
func settled() (goroutines int, heap uint64) {
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return runtime.NumGoroutine(), memory.HeapAlloc
}

// hostileServer is a server in this process, so that what it leaves behind can be counted.
type hostileServer struct {
	app       *app.App
	addr, url string
	token     string
	log       *telemetrytest.Buffer
}

// attackWith attacks the server. Slow clients attack another one, which waits for clients less long than the others may need on a busy
// machine.
func (s *hostileServer) attackWith(ctx context.Context, t *testing.T, i *issuer, c class, random *rand.Rand) map[int]int {
	t.Helper()
	if !c.slow() {
		return s.attack(ctx, c, random)
	}
	impatient := &hostileServer{token: s.token, log: s.log}
	stop := impatient.start(t, i, 4*time.Second, nil)
	defer stop()
	return impatient.attack(ctx, c, random)
}

// start starts the server, which waits for the header and the body of a request no longer than a limit. change, unless it is nil, changes the
// configuration.
func (s *hostileServer) start(t *testing.T, i *issuer, limit time.Duration, change func(*config.Config)) (stop func()) {
	t.Helper()
	cfg := config.Default()
	cfg.Addr, cfg.Data = "127.0.0.1:0", t.TempDir()
	keys := i.settings(nil)
	cfg.Auth = config.Auth{JWTKeysFile: keys["auth.jwt_keys_file"], JWTAudience: keys["auth.jwt_audience"]}
	cfg.Limits.Body, cfg.Limits.Attrs, cfg.Limits.Recipients = config.KiB, config.KiB, 100
	cfg.HTTP.ReadHeaderTimeout, cfg.HTTP.ReadTimeout = limit, limit
	cfg.HTTP.WriteTimeout, cfg.HTTP.IdleTimeout = time.Minute, time.Second
	cfg.NATS.MaxPublished, cfg.NATS.MaxFanout = 16*config.MiB, 16*config.MiB
	cfg.NATS.MaxLogin, cfg.NATS.MaxDLQ = 16*config.MiB, 16*config.MiB
	cfg.Embedded.Cache, cfg.Embedded.Memtable, cfg.Embedded.MinFree = 8*config.MiB, 4*config.MiB, 0
	if change != nil {
		change(&cfg)
	}
	s.app = app.New(cfg, app.Options{Embedded: embedded.Engines{}, Logger: zerolog.New(s.log)})
	require.NoError(t, s.app.Start(t.Context()))
	s.url = s.app.URL()
	s.addr = strings.TrimPrefix(s.url, "http://")
	return func() { require.NoError(t, s.app.Stop(context.WithoutCancel(t.Context()))) }
}

// exchange publishes a message, and reads it from its recipient's inbox.
func (s *hostileServer) exchange(ctx context.Context, t *testing.T, body string) {
	t.Helper()
	c, err := client.New(s.url, client.Options{Token: func(context.Context) (string, error) { return s.token, nil }})
	require.NoError(t, err)
	defer c.Close()
	receipt, err := c.Publish(ctx, message.Draft{From: "ann", To: []message.UserID{"insider"}, Body: body}, "")
	require.NoError(t, err)
	_, err = c.Login(ctx, "insider", client.DefaultLoginWait)
	require.NoError(t, err)
	_, err = c.WaitDone(ctx, receipt.ID, 0)
	require.NoError(t, err)
	page, err := c.Inbox(ctx, "insider", client.InboxOptions{})
	require.NoError(t, err)
	require.Equal(t, body, page.Messages[0].Body)
}

// attack sends the requests of a class, many at a time, and returns how often each status was answered.
func (s *hostileServer) attack(ctx context.Context, c class, random *rand.Rand) map[int]int {
	requests := make(chan attempt)
	counts := make(map[int]int)
	var mu sync.Mutex
	var workers sync.WaitGroup
	for range c.atOnce() {
		workers.Go(func() {
			for a := range requests {
				status := a.send(ctx, s.addr)
				mu.Lock()
				counts[status]++
				mu.Unlock()
			}
		})
	}
	for n := range c.count {
		requests <- c.make(random, s.token, n)
	}
	close(requests)
	workers.Wait()
	return counts
}

// attempt is what is sent over a connection.
type attempt struct {
	text string
	// slow is what is sent after it, a byte at a time, for as long as the server lets that happen.
	slow string
	// leave closes the connection without waiting for an answer.
	leave bool
}

// patience is longer than the server is to wait for anything.
const patience = time.Minute

// send returns the status of the answer, or silence.
func (a attempt) send(ctx context.Context, addr string) int {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return -1 // which no class expects
	}
	defer conn.Close() //nolint:errcheck // whatever is to be known of it, is
	_ = conn.SetDeadline(time.Now().Add(patience))
	var writer sync.WaitGroup
	defer writer.Wait()
	answered := make(chan struct{})
	defer close(answered)
	writer.Go(func() {
		// The server may answer, and close, before it has read everything: that is no failure.
		_, _ = conn.Write([]byte(a.text))
		for n := range len(a.slow) {
			select {
			case <-answered:
				return
			case <-time.After(100 * time.Millisecond):
			}
			if _, err := conn.Write([]byte{a.slow[n]}); err != nil {
				return
			}
		}
	})
	if a.leave {
		return silence
	}
	var status int
	head := make([]byte, 12)
	for read := 0; read < len(head); {
		n, err := conn.Read(head[read:])
		if read += n; err != nil {
			return silence
		}
	}
	if _, err := fmt.Sscanf(string(head), "HTTP/1.1 %d", &status); err != nil {
		return -1
	}
	return status
}

func counted(counts map[int]int) string {
	parts := make([]string, 0, len(counts))
	for _, status := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s × %d", statuses([]int{status}), counts[status]))
	}
	return strings.Join(parts, ", ")
}

func statuses(of []int) string {
	texts := make([]string, len(of))
	for n, status := range of {
		if texts[n] = strconv.Itoa(status); status == silence {
			texts[n] = "closed"
		}
	}
	return strings.Join(texts, " or ")
}
