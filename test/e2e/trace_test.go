//go:build long

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/testenv"
)

// TestCelebrities publishes to the followers of the most followed accounts of a real graph.
func TestCelebrities(t *testing.T) {
	t.Parallel()
	for _, on := range everyStore() {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			ctx := bounded(t, 10*time.Minute)
			w := newWorld(ctx, t, on, map[string]string{"fanout.express_max": "100"}) // so that audiences need scans
			server := w.start(ctx)
			graph := w.graph(ctx)
			w.generate(ctx, w.users, "users", "--follows", w.follows)
			w.generate(ctx, w.messages, "celebrities", "--follows", w.follows, "--count", strconv.Itoa(graph.celebrities))
			require.Contains(t, w.fanmail(ctx, "import", "users", w.users), "imported "+withCommas(graph.users)+" users")
			require.Contains(t, w.fanmail(ctx, "import", "follows", w.follows), "imported "+withCommas(graph.edges)+" edges")
			w.publish(ctx)

			found := w.check(ctx)
			require.Equal(t, []int{graph.celebrities, graph.edges, graph.users, 0}, []int{found.Messages, found.Edges, found.Inboxes, found.Skipped})
			require.Equal(t, graph.followers, found.Delivered)
			w.requireSoundInboxes(ctx)
			server.Stop(ctx)
		})
	}
}

// graph has the numbers of users and edges, of the most followed accounts (the celebrities), and of their followers.
type graph struct{ users, edges, celebrities, followers int }

// recordedGraph is the file of a real graph.
const recordedGraph = "wiki-vote.follows.tsv.gz"

// graph imports a real graph: all of it, or some celebrities and their followers.
func (w *world) graph(ctx context.Context) graph {
	w.Helper()
	if !w.takesAll() {
		return w.partOfGraph(ctx)
	}
	w.follows = w.testdata(recordedGraph)
	return graph{users: 7115, edges: 103_689, celebrities: 20, followers: 5491}
}

// partOfGraph imports some celebrities of the graph and their followers.
func (w *world) partOfGraph(ctx context.Context) graph {
	w.Helper()
	const count = 3
	celebrities := make(map[string]bool)
	for line := range strings.Lines(testenv.Run(ctx, w.T, programs.Driver, "celebrities", "--follows", w.testdata(recordedGraph), "--count", strconv.Itoa(count))) {
		var m message.Draft
		require.NoError(w, json.Unmarshal([]byte(line), &m))
		celebrities[string(m.From)] = true
	}
	users := make(map[string]bool)
	var edges []string
	for _, line := range w.recorded(recordedGraph) {
		follower, followee, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if celebrities[followee] {
			edges = append(edges, line)
			users[follower], users[followee] = true, true
		}
	}
	w.follows = filepath.Join(w.dir, "graph.tsv")
	w.write(w.follows, strings.Join(edges, ""))
	return graph{users: len(users), edges: len(edges), celebrities: count, followers: len(edges)}
}

// takesAll reports whether the world imports the whole graph. Importing it takes minutes on a MongoDB server on the same machine.
func (w *world) takesAll() bool { return full() || w.on == embedded }

func withCommas(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", withCommas(n/1000), n%1000)
}

// part returns the number of mails that a test uses if the whole trace would take too long.
func (w *world) part() int {
	switch {
	case w.on != embedded:
		return 1000
	default:
		return 6000
	}
}

// TestMailTrace publishes 150 days of real mail to active and dormant users.
func TestMailTrace(t *testing.T) {
	t.Parallel()
	for _, on := range everyStore() {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			ctx := bounded(t, 10*time.Minute)
			w := newWorld(ctx, t, on, nil)
			server := w.start(ctx)
			w.messages = w.testdata("email-eu.messages.ndjson.gz")
			w.generate(ctx, w.users, "users", "--last-seen", w.testdata("email-eu.last-seen.tsv"))
			require.Contains(t, w.fanmail(ctx, "import", "users", w.users), "imported 672 users")

			whole := w.takesAll()
			if whole {
				w.publish(ctx, "--connections", "64")
			} else {
				w.publish(ctx, "--connections", "64", "--first", strconv.Itoa(w.part()))
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
				// Mails that are published concurrently may be delivered out of order across the end of a bucket. Then a page needs
				// one bucket more.
				require.LessOrEqual(t, pages.Most, most+1)
				require.LessOrEqual(t, pages.Buckets[most+1], pages.Full/20)
			}
			w.requireSoundInboxes(ctx)
			server.Stop(ctx)
		})
	}
}
