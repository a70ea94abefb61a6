package statemachine_test

import (
	"context"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// topics are those that users subscribe to: a path of three, one whose path begins alike, and one that is called like a user.
var topics = []message.Topic{
	message.Topic("t"), message.Topic("t/a"), message.Topic("t/a/b"), message.Topic("ta"), message.Topic("author-0"),
}

// sources returns the authors and the topics.
func (m *machine) sources() (all []message.Source) {
	for _, author := range m.model.users[:authorCount] {
		all = append(all, author.Source())
	}
	for _, topic := range topics {
		all = append(all, topic.Source())
	}
	return all
}

func drawTopic(t *rapid.T) message.Topic { return rapid.SampledFrom(topics).Draw(t, "topic") }

// drawTopics draws the topics of a message: mostly none, and sometimes several that reach the same subscribers.
func drawTopics(t *rapid.T) (drawn []message.Topic) {
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2, 3}).Draw(t, "topics") {
		drawn = append(drawn, drawTopic(t))
	}
	return drawn
}

// subscribe lets users subscribe to topics.
func (m *machine) subscribe(t *rapid.T) {
	drawn := rapid.SliceOfNDistinct(rapid.Custom(m.drawSubscription), 1, 3, rapid.ID).Draw(t, "subscriptions")
	m.begin(t, drawn)
}

func (m *machine) drawSubscription(t *rapid.T) follow.Pair {
	return follow.Pair{Follower: m.user(t, "subscriber"), Followee: drawTopic(t).Source()}
}

// begin opens edges.
func (m *machine) begin(t *rapid.T, pairs []follow.Pair) {
	w := m.worker(t)
	now := m.clock.Skewed(w.skew)()
	m.call(t, 2, nil, func(ctx context.Context) error {
		return m.rig.Following(w.skew).Follow(ctx, pairs)
	}, func(_ *rapid.T, err error) {
		for _, p := range pairs {
			if err == nil {
				m.model.followed(p, now)
			}
		}
	})
}

// unsubscribe ends a subscription.
func (m *machine) unsubscribe(t *rapid.T) { m.end(t, m.drawSubscription(t)) }

// end ends an edge.
func (m *machine) end(t *rapid.T, pair follow.Pair) {
	w := m.worker(t)
	m.call(t, 1, nil, func(ctx context.Context) error {
		return m.rig.Following(w.skew).Unfollow(ctx, pair)
	}, func(*rapid.T, error) {})
}

// subscribe lets a user and their twin subscribe to a topic.
func (m *twins) subscribe(t *rapid.T) {
	require.NoError(t, m.rig.Following(m.worker(t).skew).Follow(t.Context(), m.pairs(m.draw(t), drawTopic(t).Source())))
}

// unsubscribe ends the subscriptions of a user and their twin to a topic.
func (m *twins) unsubscribe(t *rapid.T) { m.end(t, m.pairs(m.draw(t), drawTopic(t).Source())) }

// end ends edges at a time when it can be told of each message whether it was sent before.
func (m *twins) end(t *rapid.T, pairs []follow.Pair) {
	m.clock.Advance(rig.ClockTolerance)
	following := m.rig.Following(m.worker(t).skew)
	for _, pair := range pairs {
		require.NoError(t, following.Unfollow(t.Context(), pair))
	}
}
