//go:build mongodb

package mongolayouts_test

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/bench/layouttest"
	"github.com/fanmail/fanmail/bench/mongolayouts"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/leaktest"
	"github.com/fanmail/fanmail/test/testenv"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func open(t *testing.T, name string) mongolayouts.Layout {
	t.Helper()
	uri, database := testenv.MongoDB(t)
	l, err := mongolayouts.Open(t.Context(), name, mongolayouts.Options{
		URI: uri, Database: database, Operations: 2, Commands: 2, Timeout: time.Minute, BucketSize: layouttest.BucketSize, Newest: layouttest.Newest,
		Now: time.Now, Logger: zerolog.Nop(),
	})
	require.NoError(t, err)
	return l
}

func TestLayouts(t *testing.T) {
	t.Parallel()
	layouttest.Run(t, time.Now(), mongolayouts.Names(), func(t *testing.T, name string) layouttest.Layout {
		t.Helper()
		return open(t, name)
	})
}

// TestSizes tells how many documents a layout writes, and the sizes of what it keeps.
func TestSizes(t *testing.T) {
	t.Parallel()
	written := map[string]int{"on-read": 1, "counter": 6, "buckets": 6} // buckets stores the states of users who are new
	for _, name := range mongolayouts.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := open(t, name)
			documents, err := l.Send(t.Context(), bucket.EntryOf(messagetest.Message(1, "ann")), []message.UserID{"bob", "eve", "joe"})
			require.NoError(t, err)
			want, other := written[name]
			if !other {
				want = 3
			}
			require.Equal(t, want, documents)
			require.Positive(t, l.Written())
			sizes, err := l.Sizes(t.Context())
			require.NoError(t, err)
			require.NotEmpty(t, sizes.Indexes)
			require.NoError(t, l.Close(t.Context()))
		})
	}
}
