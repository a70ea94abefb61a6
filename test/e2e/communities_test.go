//go:build long

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/testenv"
)

// treeOf has the numbers for a run of TestCommunities.
type treeOf struct {
	edges, topics, messages, kills int
	// pace is the number of published messages per second, returns that of returning users.
	pace, returns int
}

func communitiesSize(on store) treeOf {
	switch {
	case full() && on == apart:
		return treeOf{edges: 103_689, topics: 500, messages: 500, kills: 20, pace: 5, returns: 10}
	case full():
		return treeOf{edges: 103_689, topics: 500, messages: 500, kills: 20, pace: 50, returns: 50}
	default:
		return treeOf{edges: 8000, topics: 150, messages: 60, kills: 3, pace: 30, returns: 100}
	}
}

// TestCommunities publishes to topics in a tree of four levels, which are the communities of a real graph, while processes are killed
// and dormant users return. At the end every inbox is exactly right, and the audit finds nothing. With all of the data there are 500 topics
// of 7,115 users, and a second run on MongoDB with separate processes.
//
// "driver communities" makes the tree: who follows whom counts in both directions, and the Louvain method splits the whole graph. Then it splits the
// largest community that has not been split, again and again, until there are enough communities of at least 3 users. A topic is a community,
// and the topic above it is the community that it is a part of.
//
// Users in the order of their names subscribe to the lowest topic of their community, every fourth to the one above that, and every
// sixteenth to the one at the top. Every fifth user is dormant, and half of those return. Messages are by members of their
// topics, and to topics of each level in turn. Half of them also go to the author's followers, some to a second topic, some also to users whom they name.
func TestCommunities(t *testing.T) {
	t.Parallel()
	stores := []store{embedded}
	if full() && testenv.OnMongoDB {
		stores = append(stores, apart)
	}
	for _, on := range stores {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			ctx := bounded(t, 15*time.Minute)
			size, random := communitiesSize(on), rand.New(rand.NewPCG(seed(t), 0))
			w := newWorld(ctx, t, mongoDBFor(on), impatient(map[string]string{"fanout.express_max": "20", "fanout.medium_max": "300", "fanout.batch_owners": "40"}))
			w.on = on
			kill, stop := w.startToKill(ctx)
			tree := w.plantCommunities(ctx, size)
			w.write(w.messages, tree.messages(size.messages, random))

			driver := w.drive(ctx, "--connections", "16", "--pace", strconv.Itoa(size.pace), "--timeout", "45m")
			back := w.comeBack(ctx, "--file", tree.returning, "--pace", strconv.Itoa(size.returns))
			killed := make(map[string]int)
			for n := range size.kills {
				testenv.Eventually(ctx, t, "more messages are accepted", func() bool {
					return w.accepted() > (n+1)*size.messages/(size.kills+1) || !driver.Running()
				})
				killed[kill(ctx)]++
			}
			require.Zero(t, driver.Code(ctx), "publishing failed")
			require.Zero(t, back.Code(ctx), "coming back failed")
			if on == embedded { // a crash may have lost the look of a user, which is not synced
				require.Zero(t, w.comeBack(ctx, "--file", tree.returning).Code(ctx), "coming back again failed")
			}
			w.write(w.published, tree.subscribed+strings.Join(w.contents(w.published), ""))
			found := w.check(ctx)
			require.Equal(t, size.messages, found.Messages)
			w.requireSoundInboxes(ctx)
			t.Logf("%d users, %d topics (%v by level), %d subscriptions, %d edges, %d messages, %d deliveries, %d skipped; killed %v; %d users returned, and %d messages were recovered",
				found.Inboxes, len(tree.topics), tree.byLevel(), tree.subscriptions, found.Edges, found.Messages, found.SaidDelivered, found.SaidSkipped,
				killed, found.Looks.Users, found.Looks.Recovered)
			stop(ctx)
		})
	}
}

// mongoDBFor returns the kind of store of a world before it has separate processes.
func mongoDBFor(on store) store {
	if on == apart {
		return mongoDB
	}
	return on
}

// startToKill starts the programs. It returns how to kill one with SIGKILL and start its successor, which returns its name, and how to stop all.
func (w *world) startToKill(ctx context.Context) (kill func(context.Context) string, stop func(context.Context)) {
	w.Helper()
	if w.on == apart {
		roles := w.site.StartApart(ctx, w.T, w.programs)
		return roles.KillOne, func(ctx context.Context) {
			roles.AwaitReady(ctx)
			roles.Stop(ctx)
		}
	}
	server := w.start(ctx)
	kill = func(ctx context.Context) string {
		server.Kill()
		server.RequireSound()
		server = w.start(ctx)
		return "fanmail"
	}
	return kill, func(ctx context.Context) { server.Stop(ctx) }
}

// communityTree is a tree of topics with their members.
type communityTree struct {
	topics  []message.Topic            // each after the one above it
	members map[message.Topic][]string // those of the topics below, too
	users   []string                   // in the order of their names

	returning     string // the file of the dormant users who return
	subscriptions int
	subscribed    string // the log of the subscriptions, for the checker
}

// plantCommunities makes users, edges, topics and subscriptions of the communities of the recorded graph.
func (w *world) plantCommunities(ctx context.Context, size treeOf) *communityTree {
	w.Helper()
	w.follows = filepath.Join(w.dir, "graph.tsv")
	w.write(w.follows, strings.Join(w.recorded(recordedGraph)[:size.edges], ""))
	testenv.Run(ctx, w.T, programs.Driver, "communities", "--follows", w.follows, "--dir", w.dir, "--topics", strconv.Itoa(size.topics), "--depth", "4")
	tree := &communityTree{members: make(map[message.Topic][]string)}
	w.ageUsers(ctx, tree)
	w.fanmail(ctx, "import", "users", w.users)
	w.fanmail(ctx, "import", "follows", w.follows)
	tree.topics = w.createTopics(ctx)
	require.Len(w, tree.topics, size.topics)
	var subscriptions []client.Subscription
	for i, line := range w.contents(filepath.Join(w.dir, "members.tsv")) {
		user, lowest, _ := strings.Cut(strings.TrimSpace(line), "\t")
		path := slices.Collect(message.ParseTopic(lowest).Path())
		for _, topic := range path {
			tree.members[topic] = append(tree.members[topic], user)
		}
		at := len(path) - 1
		switch {
		case i%16 == 15:
			at = 0
		case i%4 == 3:
			at = max(0, at-1)
		}
		subscriptions = append(subscriptions, client.Subscription{User: message.UserID(user), Topic: path[at]})
	}
	tree.subscriptions = len(subscriptions)
	w.subscribe(ctx, tree, subscriptions)
	return tree
}

// ageUsers writes when the users of the graph were seen: every fifth is dormant. It writes which of those return.
func (w *world) ageUsers(ctx context.Context, tree *communityTree) {
	w.Helper()
	var users, returning strings.Builder
	for i, line := range slices.Collect(strings.Lines(testenv.Run(ctx, w.T, programs.Driver, "users", "--follows", w.follows))) {
		var seen client.Seen
		require.NoError(w, json.Unmarshal([]byte(line), &seen))
		tree.users = append(tree.users, string(seen.User))
		if i%5 == 4 {
			seen.LastViewed = seen.LastViewed.Add(-2 * dormantAfter)
			if i%10 == 9 {
				fmt.Fprintln(&returning, seen.User)
			}
		}
		require.NoError(w, json.NewEncoder(&users).Encode(seen))
	}
	w.write(w.users, users.String())
	tree.returning = filepath.Join(w.dir, "returning")
	w.write(tree.returning, returning.String())
}

// subscribe makes the subscriptions, and keeps the log of that.
func (w *world) subscribe(ctx context.Context, tree *communityTree, subscriptions []client.Subscription) {
	w.Helper()
	var lines strings.Builder
	for some := range slices.Chunk(subscriptions, 1000) {
		require.NoError(w, json.NewEncoder(&lines).Encode(map[string]any{"subscribe": some}))
	}
	file, log := filepath.Join(w.dir, "subscriptions.ndjson"), filepath.Join(w.dir, "subscribed.ndjson")
	w.write(file, lines.String())
	testenv.Run(ctx, w.T, programs.Driver, "publish", "--server", w.site.URL(), "--file", file, "--log", log)
	tree.subscribed = strings.Join(w.contents(log), "")
}

// levels returns the topics of each level, the topmost first.
func (c *communityTree) levels() [][]message.Topic {
	var levels [][]message.Topic
	for _, topic := range c.topics {
		level := len(topic.Segments())
		if level > len(levels) {
			levels = append(levels, nil)
		}
		levels[level-1] = append(levels[level-1], topic)
	}
	return levels
}

// byLevel returns how many topics there are of each level.
func (c *communityTree) byLevel() (counts []int) {
	for _, topics := range c.levels() {
		counts = append(counts, len(topics))
	}
	return counts
}

// messages returns lines for the driver.
func (c *communityTree) messages(count int, random *rand.Rand) string {
	levels := c.levels()
	var lines strings.Builder
	for n := range count {
		of := func(level int) message.Topic { return levels[level][random.IntN(len(levels[level]))] }
		topic := of(n % len(levels))
		members := c.members[topic]
		draft := message.Draft{From: message.UserID(members[random.IntN(len(members))]), Topics: []message.Topic{topic}, Body: fmt.Sprintf("message %d", n)}
		if n/len(levels)%2 == 0 {
			draft.Audience = message.AudienceFollowers
		}
		if other := of(random.IntN(len(levels))); n%7 == 0 && other != topic {
			draft.Topics = append(draft.Topics, other)
		}
		if n%5 == 0 {
			draft.To = []message.UserID{message.UserID(c.users[random.IntN(len(c.users))])}
		}
		text, err := json.Marshal(draft)
		if err != nil {
			panic(err) // a draft is strings
		}
		lines.Write(append(text, '\n'))
	}
	return lines.String()
}
