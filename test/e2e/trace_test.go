package e2e_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/test/testenv"
)

// TestCelebrities publishes to the followers of the most followed accounts of a real graph.
func TestCelebrities(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	ctx := bounded(t, 3*time.Minute)
	w := newWorld(t, map[string]string{"fanout.express_max": "100"}) // so that audiences are scanned
	server := w.start(ctx)
	w.follows = w.testdata("wiki-vote.follows.tsv.gz")
	w.generate(ctx, w.users, "users", "--follows", w.follows)
	w.generate(ctx, w.messages, "celebrities", "--follows", w.follows, "--count", "20")
	require.Contains(t, w.fanmail(ctx, "import", "users", w.users), "imported 7,115 users")
	require.Contains(t, w.fanmail(ctx, "import", "follows", w.follows), "imported 103,689 edges")
	w.publish(ctx)

	found := w.check(ctx)
	require.Equal(t, []int{20, 103_689, 7115, 0}, []int{found.Messages, found.Edges, found.Inboxes, found.Skipped})
	require.Equal(t, followersOfTop20, found.Delivered)
	server.Stop(ctx)
}

// followersOfTop20 is how many followers the 20 most followed accounts have together.
const followersOfTop20 = 5491

// part returns how many mails of the trace are enough where the whole would take too long.
func part() int {
	if testenv.Race {
		return 2000
	}
	return 6000
}

// TestMailTrace publishes 150 days of real mail to users of whom some are dormant.
func TestMailTrace(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes a minute")
	}
	ctx := bounded(t, 5*time.Minute)
	w := newWorld(t, nil)
	server := w.start(ctx)
	w.messages = w.testdata("email-eu.messages.ndjson.gz")
	w.generate(ctx, w.users, "users", "--last-seen", w.testdata("email-eu.last-seen.tsv"))
	require.Contains(t, w.fanmail(ctx, "import", "users", w.users), "imported 672 users")

	whole := full() || !testenv.Race
	if whole {
		w.publish(ctx, "--connections", "64")
	} else {
		w.publish(ctx, "--connections", "64", "--first", strconv.Itoa(part()))
	}
	found := w.check(ctx)
	if whole {
		require.Equal(t, 53_633, found.Messages)
		require.Equal(t, 83_024, found.SaidDelivered+found.SaidSkipped)
	}
	require.Positive(t, found.Skipped)
	for i, most := range []int{2, 3} {
		pages := found.Pages[i]
		require.LessOrEqual(t, pages.Average, float64(most))
		// Mails that are published at the same time can be delivered out of order, across the end of a bucket: a page
		// then takes one bucket more.
		require.LessOrEqual(t, pages.Most, most+1)
		require.LessOrEqual(t, pages.Buckets[most+1], pages.Full/20)
	}
	server.Stop(ctx)
}
