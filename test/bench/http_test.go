package bench_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// serve runs everything that "fanmail serve" runs, and returns a client for it.
func serve(b *testing.B) *client.Client {
	b.Helper()
	cfg := config.Default()
	cfg.Addr, cfg.Data = "127.0.0.1:0", b.TempDir()
	a := app.New(cfg, app.Options{Logger: zerolog.Nop()})
	require.NoError(b, a.Start(b.Context()))
	b.Cleanup(func() { require.NoError(b, a.Stop(context.WithoutCancel(b.Context()))) })
	c, err := client.New(a.URL(), client.Options{})
	require.NoError(b, err)
	b.Cleanup(c.Close)
	return c
}

// BenchmarkAccept publishes messages of 200 bytes to one recipient, each by a request of its own, beside synced
// writes of one record each by as many goroutines. Deliveries go on meanwhile, as they do in a server.
func BenchmarkAccept(b *testing.B) {
	for _, connections := range []int{1, 16} {
		b.Run(fmt.Sprintf("connections=%d", connections), func(b *testing.B) {
			c := serve(b)
			require.NoError(b, c.SetSeen(b.Context(), "ben", time.Now()))
			draft := message.Draft{From: "ann", To: []message.UserID{"ben"}, Body: strings.Repeat("x", 200)}
			raw := rawSyncs(b, connections)
			b.ResetTimer()
			spread(b.N, connections, func() error {
				_, err := c.Publish(b.Context(), draft, "")
				return err
			})
			rate := float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(rate, "messages/s")
			b.ReportMetric(raw, "raw-synced-writes/s")
			b.ReportMetric(rate/raw, "of-raw")
		})
	}
}

// BenchmarkPublishToReadable measures, on an idle server, the time from a request to publish to a direct message being
// in its recipient's inbox, asked for over and over.
func BenchmarkPublishToReadable(b *testing.B) {
	c := serve(b)
	require.NoError(b, c.SetSeen(b.Context(), "ben", time.Now()))
	draft := message.Draft{From: "ann", To: []message.UserID{"ben"}, Body: strings.Repeat("x", 200)}
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		receipt, err := c.Publish(b.Context(), draft, "")
		require.NoError(b, err)
		for {
			page, err := c.Inbox(b.Context(), "ben", client.InboxOptions{Limit: 1, Peek: true})
			require.NoError(b, err)
			if len(page.Messages) > 0 && page.Messages[0].ID == receipt.ID {
				break
			}
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

// rawSyncs returns how many records of an entry's size Pebble writes a second, each in a synced commit of its own, by so
// many goroutines.
func rawSyncs(b *testing.B, writers int) float64 {
	b.Helper()
	db, err := pebble.Open(b.TempDir(), &pebble.Options{Logger: quiet{}})
	require.NoError(b, err)
	const each = 2000
	value := make([]byte, entryBytes)
	var next atomic.Int64
	start := time.Now()
	spread(each*writers, writers, func() error {
		return db.Set(fmt.Appendf(nil, "%016d", next.Add(1)), value, pebble.Sync)
	})
	elapsed := time.Since(start)
	require.NoError(b, db.Close())
	return float64(each*writers) / elapsed.Seconds()
}

// spread calls do n times, from so many goroutines.
func spread(n, goroutines int, do func() error) {
	var left atomic.Int64
	left.Store(int64(n))
	var group sync.WaitGroup
	for range goroutines {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				if err := do(); err != nil {
					panic(err)
				}
			}
		})
	}
	group.Wait()
}
