package audit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/verdict"
)

func (w *world) subscription(path string) follow.Pair {
	return follow.Pair{Follower: "ben", Followee: message.Topic(path).Source()}
}

// subscribe subscribes ben to a topic.
func (w *world) subscribe(path string, at time.Time) {
	t := w.t
	t.Helper()
	_, err := w.db.Edges().Follow(t.Context(), []follow.Pair{w.subscription(path)}, at)
	require.NoError(t, err)
}

func (w *world) unsubscribe(path string, at time.Time) {
	t := w.t
	t.Helper()
	require.NoError(t, w.db.Edges().Unfollow(t.Context(), w.subscription(path), at))
}

// topical stores a message by cleo to topics.
func (w *world) topical(sent time.Time, paths ...string) message.Message {
	w.t.Helper()
	m := message.Message{ID: w.id(sent), From: "cleo", Body: "topical"}
	for _, path := range paths {
		m.Topics = append(m.Topics, message.Topic(path))
	}
	return w.store(m, sent)
}

func TestExplainTopics(t *testing.T) {
	t.Parallel()
	sent := epoch.Add(-10 * time.Minute)
	for name, test := range map[string]struct {
		arrange  func(w *world) message.Message
		verdict  verdict.Verdict
		sentence string
	}{
		"subscribed to a topic above": {
			arrange: func(w *world) message.Message {
				w.subscribe("go", sent)
				m := w.topical(sent, "go/fmt")
				w.deliver(m)
				return m
			},
			verdict: verdict.Delivered, sentence: "ben has ID: it was delivered into bucket 0, slot 0 of their inbox.",
		},
		"missing": {
			arrange: func(w *world) message.Message {
				w.subscribe("go", sent.Add(-time.Minute*30))
				return w.pass(w.topical(sent, "go/fmt"))
			},
			verdict: verdict.Missing,
		},
		"never subscribed": {
			arrange: func(w *world) message.Message {
				w.subscribe("go/fmt", sent)
				return w.pass(w.topical(sent, "go", "news"))
			},
			verdict:  verdict.NotSubscribedThen,
			sentence: "ID is not for ben: it is to go, news, and they were never subscribed to any of that or to what is above it.",
		},
		"subscribed later": {
			arrange: func(w *world) message.Message {
				w.subscribe("go", sent.Add(time.Minute))
				return w.pass(w.topical(sent, "go/fmt"))
			},
			verdict:  verdict.NotSubscribedYet,
			sentence: "ID is not for ben: it is to go/fmt, and they subscribed to go at 2026-01-02T02:55:05.000Z, 1m0s after it was sent.",
		},
		"unsubscribed, and subscribed again": {
			arrange: func(w *world) message.Message {
				w.subscribe("go", sent.Add(-2*time.Minute))
				w.unsubscribe("go", sent.Add(-time.Minute))
				w.subscribe("go", sent.Add(time.Minute))
				return w.pass(w.topical(sent, "go"))
			},
			verdict: verdict.NotSubscribedThen,
			sentence: "ID is not for ben: it is to go, and they had ended their subscription to go at 2026-01-02T02:53:05.000Z, 1m0s before it was sent, " +
				"and began again only at 2026-01-02T02:55:05.000Z.",
		},
		"neither subscribed nor following": {
			arrange: func(w *world) message.Message {
				m := message.Message{ID: w.id(sent), From: "eve", Audience: message.AudienceFollowers, Body: "x", Topics: []message.Topic{"news"}}
				return w.pass(w.store(m, sent))
			},
			verdict: verdict.NotSubscribedThen,
			sentence: "ID is not for ben: it is to news, and they were never subscribed to any of that or to what is above it; " +
				"and it is to the followers of eve, whom they have never followed.",
		},
		"following, though not subscribed": {
			arrange: func(w *world) message.Message {
				m := message.Message{ID: w.id(sent), From: "ann", Audience: message.AudienceFollowers, Body: "x", Topics: []message.Topic{"news"}}
				m = w.store(m, sent)
				w.deliver(m)
				return m
			},
			verdict: verdict.Delivered,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			m := test.arrange(w)
			e, err := w.Explain(t.Context(), "ben", m.ID)
			require.NoError(t, err)
			require.Equal(t, test.verdict, e.Verdict, e.Sentence)
			if test.sentence != "" {
				require.Equal(t, test.sentence, strings.ReplaceAll(e.Sentence, m.ID.String(), "ID"))
			}
		})
	}
}

// An audit expects a message once, by however many edges it is for the user, and finds it missing once. It tolerates a message that was sent
// close to the end of a subscription.
func TestAuditOfTopics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sent := epoch.Add(-10 * time.Minute)
	for _, path := range []string{"go", "go/fmt", "news"} {
		w.subscribe(path, sent.Add(-time.Hour))
	}
	overlapping := message.Message{
		ID: w.id(sent), From: "ann", Audience: message.AudienceFollowers, To: []message.UserID{"ben"}, Body: "x",
		Topics: []message.Topic{message.Topic("go/fmt"), "news"},
	}
	m := w.store(overlapping, sent)
	w.deliver(m, w.topical(sent.Add(time.Second), "go", "news"), w.toFollowers(sent.Add(2*time.Second)))
	w.unsubscribe("news", epoch.Add(-5*time.Minute))
	late := w.topical(epoch.Add(-4*time.Minute), "news")
	w.deliver(late)
	missing := w.pass(w.topical(sent.Add(3*time.Second), "go/fmt", "news"))
	var found []audit.Finding
	summary, err := w.Audit(t.Context(), audit.Request{User: "ben"}, func(e audit.Event) error {
		if e.Finding != nil {
			found = append(found, *e.Finding)
		}
		return nil
	})
	require.NoError(t, err)
	require.EqualValues(t, 4, summary.Expected)
	require.Len(t, found, 1)
	require.Equal(t, verdict.MissingEntry, found[0].Kind)
	require.Equal(t, missing.ID, found[0].Message)
	require.EqualValues(t, 1, summary.Tolerated)
}
