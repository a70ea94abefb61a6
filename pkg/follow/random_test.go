package follow_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/testenv"
)

// TestForAgreesWithAModel draws histories: users follow and unfollow authors, subscribe to topics and unsubscribe, and authors publish, by clocks
// that move both ways. For decides of each message and each user as a model does that has no spans and no paths of its own: it holds a mark for
// each moment, and a topic is a list of segments.
func TestForAgreesWithAModel(t *testing.T) {
	t.Parallel()
	const seed, moments = 20261125, 24
	histories := 20_000
	if testenv.Long {
		histories = 1_000_000
	}
	random := rand.New(rand.NewPCG(seed, 0))
	counts := make(map[string]int)
	for range histories {
		h := newHistory(moments)
		now := random.IntN(moments)
		for range 4 + random.IntN(24) {
			now = min(max(now+random.IntN(7)-2, 0), moments-1)
			h.happen(random, now)
		}
		h.requireAgreement(t, counts)
	}
	t.Log(counts)
	for _, why := range []string{"named", "follows", "subscribed", "subscribed above", "several", "none"} {
		require.Positive(t, counts[why], "no message was decided by this: %s", why)
	}
}

// names are of users, some of whom are authors. Some are also segments of topics.
var names = []string{"a", "b", "ab", "news"}

// paths are topics. They begin alike, so a comparison of texts instead of segments decides wrongly.
var paths = [][]string{
	{"a"}, {"a", "b"}, {"a", "b", "c"}, {"a", "bc"}, {"ab"}, {"ab", "c"}, {"b"}, {"b", "a"}, {"news"}, {"news", "a", "b"},
}

// source is whom or what a user follows or is subscribed to: an author by name, or a topic by its place in paths.
type source struct {
	author string
	topic  int // below 0 for an author
}

// held is when an edge held, moment by moment.
type held struct {
	at    []bool
	open  bool
	since int // when it was opened last
	end   int // when it ended last
}

// sentMessage is what a message says of its recipients.
type sentMessage struct {
	at        int
	from      string
	to        []string
	followers bool
	topics    []int
}

type history struct {
	moments int
	held    map[string]map[source]*held // by user
	edges   map[string]map[source]follow.Edge
	sent    []sentMessage
	steps   []step // changes of edges
}

// step is a change of an edge, for people.
type step struct {
	at         int
	does, user string
	from       source
}

func newHistory(moments int) *history {
	h := &history{moments: moments, held: make(map[string]map[source]*held), edges: make(map[string]map[source]follow.Edge)}
	for _, user := range names {
		h.held[user], h.edges[user] = make(map[source]*held), make(map[source]follow.Edge)
	}
	return h
}

// happen lets one thing happen at a moment.
func (h *history) happen(random *rand.Rand, now int) {
	user, from := names[random.IntN(len(names))], source{author: names[random.IntN(len(names))], topic: -1}
	if random.IntN(2) == 0 {
		from = source{topic: random.IntN(len(paths))}
	}
	switch random.IntN(5) {
	case 0, 1:
		if from.author != user {
			h.follow(user, from, now)
		}
	case 2:
		h.unfollow(user, from, now)
	default:
		m := sentMessage{at: now, from: user, followers: random.IntN(2) == 0}
		for range random.IntN(3) {
			m.to = append(m.to, names[random.IntN(len(names))])
		}
		for range random.IntN(4) {
			m.topics = append(m.topics, random.IntN(len(paths)))
		}
		if len(m.to)+len(m.topics) == 0 {
			m.followers = true
		}
		h.sent = append(h.sent, m)
	}
}

func (h *history) follow(user string, from source, now int) {
	h.steps = append(h.steps, step{now, "begins", user, from})
	h.edges[user][from], _ = h.edge(user, from).Follow(at(now))
	e := h.held[user][from]
	if e == nil {
		e = &held{at: make([]bool, h.moments)}
		h.held[user][from] = e
	}
	if !e.open {
		e.open, e.since = true, max(now, e.end)
	}
}

func (h *history) unfollow(user string, from source, now int) {
	h.steps = append(h.steps, step{now, "ends", user, from})
	h.edges[user][from], _ = h.edge(user, from).Unfollow(at(now))
	if e := h.held[user][from]; e != nil && e.open {
		e.open, e.end = false, max(now, e.since)
		for moment := e.since; moment < e.end; moment++ {
			e.at[moment] = true
		}
	}
}

// edge returns an edge of the code, which may never have held.
func (h *history) edge(user string, from source) follow.Edge {
	if e, known := h.edges[user][from]; known {
		return e
	}
	followee := message.UserID(from.author).Source()
	if from.topic >= 0 {
		followee = message.Topic(strings.Join(paths[from.topic], "/")).Source()
	}
	return follow.Edge{Follower: message.UserID(user), Followee: followee}
}

// holds reports whether a user had a source at a moment.
func (h *history) holds(user string, from source, moment int) bool {
	e := h.held[user][from]
	return e != nil && (e.at[moment] || e.open && moment >= e.since)
}

// reasons returns why a message is for a user.
func (h *history) reasons(m sentMessage, user string) (all []string) {
	if slices.Contains(m.to, user) {
		all = append(all, "named")
	}
	if m.followers && h.holds(user, source{author: m.from, topic: -1}, m.at) {
		all = append(all, "follows")
	}
	for _, topic := range m.topics {
		for other, path := range paths {
			above := len(path) <= len(paths[topic])
			for i := 0; above && i < len(path); i++ {
				above = path[i] == paths[topic][i]
			}
			if !above || !h.holds(user, source{topic: other}, m.at) {
				continue
			}
			if other == topic {
				all = append(all, "subscribed")
			} else {
				all = append(all, "subscribed above")
			}
		}
	}
	return all
}

// message returns the message of the code.
func (m sentMessage) message(t *testing.T) message.Message {
	t.Helper()
	d := message.Draft{From: message.UserID(m.from), Body: "body"}
	for _, user := range m.to {
		d.To = append(d.To, message.UserID(user))
	}
	if m.followers {
		d.Audience = message.AudienceFollowers
	}
	for _, topic := range m.topics {
		d.Topics = append(d.Topics, message.Topic(strings.Join(paths[topic], "/")))
	}
	made, err := message.New(messagetest.ID(m.at), d, message.DefaultLimits())
	require.NoError(t, err)
	return made
}

// requireAgreement asks the code about each message and each user, and counts the reasons of the model.
func (h *history) requireAgreement(t *testing.T, counts map[string]int) {
	t.Helper()
	for _, m := range h.sent {
		made := m.message(t)
		for _, user := range names {
			reasons := h.reasons(m, user)
			count(counts, reasons)
			var edges, needed []follow.Edge
			for _, e := range h.edges[user] {
				edges = append(edges, e)
			}
			pairs := follow.Pairs(made, message.UserID(user))
			for _, e := range edges {
				if slices.Contains(pairs, follow.Pair{Follower: e.Follower, Followee: e.Followee}) {
					needed = append(needed, e)
				}
			}
			one := slices.ContainsFunc(edges, func(e follow.Edge) bool { return follow.For(made, e.Follower, e) })
			want := []bool{len(reasons) > 0, len(reasons) > 0, len(reasons) > 0}
			got := []bool{
				follow.ForAny(made, message.UserID(user), edges), follow.ForAny(made, message.UserID(user), needed),
				one || made.Names(message.UserID(user)),
			}
			if !slices.Equal(want, got) {
				require.Fail(t, "the code and the model do not agree", "%+v to %s: %v is for the user because of %v, the code says %v\n%+v",
					m, user, want[0], reasons, got, h.steps)
			}
		}
	}
}

func count(counts map[string]int, reasons []string) {
	switch len(reasons) {
	case 0:
		counts["none"]++
	case 1:
		counts[reasons[0]]++
	default:
		counts["several"]++
	}
}
