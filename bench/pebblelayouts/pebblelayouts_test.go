package pebblelayouts_test

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/bench/layouttest"
	"github.com/fanmail/fanmail/bench/pebblelayouts"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func options(t *testing.T) pebblelayouts.Options {
	t.Helper()
	return pebblelayouts.Options{
		Dir: t.TempDir(), CacheBytes: 8 << 20, MemTableBytes: 4 << 20, BucketSize: layouttest.BucketSize, Newest: layouttest.Newest,
		Now: time.Now, Logger: zerolog.Nop(),
	}
}

func TestLayouts(t *testing.T) {
	t.Parallel()
	layouttest.Run(t, time.Now(), pebblelayouts.Names(), func(t *testing.T, name string) layouttest.Layout {
		t.Helper()
		l, err := pebblelayouts.Open(t.Context(), name, options(t))
		require.NoError(t, err)
		return l
	})
}

func TestUnknownLayout(t *testing.T) {
	t.Parallel()
	_, err := pebblelayouts.Open(t.Context(), "sideways", options(t))
	require.ErrorContains(t, err, `"sideways"`)
}

// TestSizes tells what a layout has written, and what it takes on disk. Only two layouts need an index.
func TestSizes(t *testing.T) {
	t.Parallel()
	for _, name := range pebblelayouts.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := options(t)
			l, err := pebblelayouts.Open(t.Context(), name, opts)
			require.NoError(t, err)
			_, err = l.Send(t.Context(), bucket.EntryOf(messagetest.Message(1, "ann")), []message.UserID{"bob", "eve"})
			require.NoError(t, err)
			log, _, _ := l.Written()
			require.Positive(t, log)
			require.NoError(t, l.Close(t.Context()))
			records, index, err := pebblelayouts.Sizes(t.Context(), name, opts.Dir)
			require.NoError(t, err)
			require.Positive(t, records)
			require.Equal(t, name == "on-read" || name == "dated", index > 0, "%f", index)
		})
	}
}

// TestFill compares the records of inboxes that are filled with those of inboxes that got one message after the other.
func TestFill(t *testing.T) {
	t.Parallel()
	entries := layouttest.Entries(t, time.Now(), 30)
	recipients := []message.UserID{"bob", "eve"}
	for _, name := range pebblelayouts.Names() {
		if name == "buckets" { // both ways are an append
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var records [2]map[string]string
			for i, give := range []func(l pebblelayouts.Layout){
				func(l pebblelayouts.Layout) { require.NoError(t, l.Fill(t.Context(), entries, recipients)) },
				func(l pebblelayouts.Layout) {
					for _, e := range entries {
						_, err := l.Send(t.Context(), e, recipients)
						require.NoError(t, err)
					}
				},
			} {
				l, err := pebblelayouts.Open(t.Context(), name, options(t))
				require.NoError(t, err)
				give(l)
				records[i], err = pebblelayouts.Records(l)
				require.NoError(t, err)
				require.NoError(t, l.Close(t.Context()))
			}
			require.NotEmpty(t, records[0])
			require.Equal(t, records[1], records[0])
		})
	}
}
