package bench_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/app/embedded"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	year = 365 * 24 * time.Hour
	page = 50
)

// BenchmarkFirstPage opens the inbox of users who were away for a year: each of them once, for none of them has been seen
// since. The next one comes when the inbox of the one before has been rebuilt.
func BenchmarkFirstPage(b *testing.B) {
	for _, messages := range []int{sized(*missed), 10} {
		b.Run(fmt.Sprintf("missed=%d", messages), func(b *testing.B) {
			users := named("user", 1+sized(*openings))
			past := newReturn(b, messages, users)
			c := past.serve(b)
			var took durations
			for _, user := range users {
				start := time.Now()
				got, err := c.Inbox(b.Context(), user, client.InboxOptions{Limit: page})
				took = append(took, time.Since(start))
				require.NoError(b, err)
				require.Len(b, got.Messages, min(page, messages))
				require.Equal(b, past.last().ID, got.Messages[0].ID)
				require.False(b, got.Complete)
				past.awaitRebuilt(b, c, user)
			}
			cold, warm := took[0], took[1:]
			b.ReportMetric(warm.percentile(50), "p50-ms")
			b.ReportMetric(warm.percentile(99), "p99-ms")
			b.ReportMetric(milliseconds(cold), "cold-ms")
			if *store == config.StoreEmbedded {
				raw := past.rawPages(b, page)
				b.ReportMetric(raw.percentile(50), "raw-p50-ms")
				b.ReportMetric(raw.percentile(50)/warm.percentile(50), "of-raw")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// past is a year in which messages were published to users who did not look.
type past struct {
	*archive
	authors  []message.UserID
	messages []message.Ref
}

func newReturn(b *testing.B, messages int, users []message.UserID) *past {
	b.Helper()
	p := &past{archive: newArchive(b, year), authors: named("author", sized(*followed))}
	random := rand.New(rand.NewPCG(1, 2))
	p.messages = p.publish(b, messages, func(int) message.UserID { return p.authors[random.IntN(len(p.authors))] })
	seen := p.begin.Add(-config.Default().DormantAfter)
	p.populate(b, users, seen, func(int) []message.UserID { return p.authors })
	require.NoError(b, p.close())
	return p
}

func (p *past) last() message.Ref { return p.messages[len(p.messages)-1] }

// serve runs everything that "fanmail serve" runs on the data folder, none of which is cached, and returns a client.
func (p *past) serve(b *testing.B) *client.Client {
	b.Helper()
	forget(b, p.dir)
	cfg := config.Default()
	cfg.Addr = "127.0.0.1:0"
	p.configure(&cfg)
	a := app.New(cfg, app.Options{Embedded: embedded.Engines{}, Logger: zerolog.Nop()})
	require.NoError(b, a.Start(b.Context()))
	b.Cleanup(func() { require.NoError(b, a.Stop(context.WithoutCancel(b.Context()))) })
	c, err := client.New(a.URL(), client.Options{})
	require.NoError(b, err)
	b.Cleanup(c.Close)
	return c
}

// awaitRebuilt waits until a user's inbox is rebuilt, and begins the rebuilding if no process has.
func (p *past) awaitRebuilt(b *testing.B, c *client.Client, user message.UserID) {
	b.Helper()
	for {
		login, err := c.Login(b.Context(), user, client.MaxLoginWait)
		require.NoError(b, err)
		if login.State == client.Active {
			return
		}
	}
}
