package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// plan stores messages of an author with these numbers. All are planned, with these scans, unless there are none.
func (w *world) plan(tb testing.TB, from message.UserID, scans []progress.Scan, ns ...int) {
	tb.Helper()
	for _, n := range ns {
		_, err := w.db.Messages().Insert(tb.Context(), []message.Message{messagetest.Message(n, from)}, messagetest.AnyTime)
		require.NoError(tb, err)
		if scans == nil {
			continue
		}
		all := make([]int, len(scans))
		moves := make([]progress.Move, len(scans))
		for p, scan := range scans {
			all[p], moves[p] = p, progress.Move{ID: messagetest.ID(n), Partition: p, To: scan}
		}
		_, err = w.db.Progress().Plan(tb.Context(), messagetest.ID(n), "medium", all, w.clock())
		require.NoError(tb, err)
		_, err = w.db.Progress().Step(tb.Context(), moves, w.clock())
		require.NoError(tb, err)
	}
}

func (w *world) conclude(tb testing.TB, from message.UserID, ns ...int) {
	tb.Helper()
	for _, n := range ns {
		ending := message.Ending{Ref: message.Ref{From: from, ID: messagetest.ID(n)}, Lane: "bulk", Delivered: int64(n), Skipped: 1}
		require.NoError(tb, w.db.Messages().Conclude(tb.Context(), []message.Ending{ending}))
	}
}

// list returns the numbers of the messages of a list, page by page, with "|" before each further page.
func (w *world) list(tb testing.TB, query string, headers ...string) string {
	tb.Helper()
	var all []string
	for after := ""; ; {
		var page client.MessagePage
		body := w.must(tb, http.StatusOK, http.MethodGet, "/v1/messages?"+query+after, "", headers...)
		require.NoError(tb, json.Unmarshal([]byte(body), &page))
		for _, m := range page.Messages {
			all = append(all, strconv.FormatInt(m.Sent.Sub(messagetest.Epoch).Milliseconds(), 10))
		}
		if page.Next == "" {
			return strings.Join(all, " ")
		}
		all, after = append(all, "|"), "&after="+string(page.Next)
	}
}

var (
	dead    = progress.Scan{Joined: true, Dead: true, Delivered: 1}
	running = []progress.Scan{{Joined: true, Delivered: 5, Skipped: 2}, {Joined: true, Done: true, Delivered: 3}}
)

func TestMessagesAreListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.plan(t, "ann", nil, 1, 8, 15)
	w.plan(t, "bob", nil, 2)
	w.plan(t, "ann", running, 3, 9)
	w.plan(t, "ann", []progress.Scan{{Done: true, Delivered: 7}, dead}, 4, 10)
	w.plan(t, "ann", []progress.Scan{{}, dead.GiveUp()}, 5)
	w.plan(t, "ann", nil, 6, 11, 12)
	w.plan(t, "bob", running, 7, 13)
	w.conclude(t, "ann", 6, 11, 12)
	w.conclude(t, "bob", 7, 13)
	blocked := messagetest.Message(14, "ann")
	blocked.Blocked = 3
	_, err := w.db.Messages().Insert(t.Context(), []message.Message{blocked}, messagetest.AnyTime)
	require.NoError(t, err)
	w.conclude(t, "ann", 14)
	// A message that was stored too late was never sent.
	_, err = w.db.Messages().Insert(t.Context(), []message.Message{messagetest.Message(0, "ann")}, message.Timing{Slack: -1})
	require.NoError(t, err)
	for query, want := range map[string]string{
		"":                            "1 2 3 5 8 9 15",
		"limit=2":                     "1 2 | 3 5 | 8 9 | 15",
		"from=bob":                    "2",
		"state=pending":               "1 2 8 15",
		"state=pending&from=ann":      "1 8 15",
		"state=running":               "3 5 9",
		"state=running&limit=1":       "3 | 5 | 9",
		"state=dead":                  "4 10",
		"state=dead&from=bob":         "",
		"state=done":                  "14 13 12 11 7 6",
		"state=done&limit=4":          "14 13 12 11 | 7 6",
		"state=done&limit=6":          "14 13 12 11 7 6",
		"state=done&from=bob&limit=1": "13 | 7",
		"state=done&from=nobody":      "",
	} {
		require.Equal(t, want, w.list(t, query), query)
	}
	line := func(n int, rest string) string {
		return fmt.Sprintf(`{"id":%q,"from":"ann","sent":"2026-01-02T03:04:05.%03dZ",%s}`, messagetest.ID(n), n, rest)
	}
	for query, want := range map[string]string{
		"limit=1":              line(1, `"state":"pending","recipients":0,"delivered":0,"skipped":0,"waiting_for":"router"`),
		"state=running":        line(3, `"state":"running","lane":"medium","recipients":10,"delivered":8,"skipped":2`),
		"state=dead":           line(4, `"state":"dead","lane":"medium","recipients":8,"delivered":8,"skipped":0,"waiting_for":"dead-letter"`),
		"state=done&from=ann":  line(14, `"state":"done","lane":"bulk","recipients":18,"delivered":14,"skipped":4`),
		"state=done&from=none": `{"messages":[],"next":null}`,
	} {
		require.Contains(t, w.must(t, http.StatusOK, http.MethodGet, "/v1/messages?"+query, ""), want)
	}
}

// TestManyUnwantedMessages has a page end before the server has looked at all of them.
func TestManyUnwantedMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	messages := []message.Message{}
	for n := range 2500 {
		messages = append(messages, messagetest.Message(n, "ann"))
	}
	messages[2400].From = "bob"
	_, err := w.db.Messages().Insert(t.Context(), messages, messagetest.AnyTime)
	require.NoError(t, err)
	require.Equal(t, "| | 2400", w.list(t, "from=bob"))
	require.Equal(t, "| | 2400", w.list(t, "from=bob&limit=200"))
	w.conclude(t, "bob", 2400)
	require.Equal(t, "2400", w.list(t, "state=done&from=bob"))
	require.Equal(t, "| |", w.list(t, "state=dead"))
}

func TestWhoMayListMessages(t *testing.T) {
	t.Parallel()
	w := guarded(t, settings{})
	w.plan(t, "ann", running, 1)
	w.plan(t, "dee", nil, 2)
	for _, test := range []struct{ who, query, want string }{
		{"operator", "", "1 2"},
		{"ann", "from=ann", "1"},
		{"dee", "from=dee", "2"},
	} {
		require.Equal(t, test.want, w.list(t, test.query, as(test.who)...))
	}
	for _, test := range []struct{ who, target, want string }{
		{"ann", "/v1/messages", "the token does not allow to list the messages of all authors: name a sender of the token as from"},
		{"ann", "/v1/messages?from=dee", `the token does not allow to list the messages of \"dee\", because it does not allow to publish as them`},
		{"bob", "/v1/messages?from=bob", "the token lacks the scope for this: it takes publish or operate or admin"},
		{"gateway", "/v1/messages", "the token lacks the scope for this: it takes publish or operate or admin"},
	} {
		require.Contains(t, w.must(t, http.StatusForbidden, http.MethodGet, test.target, "", as(test.who)...), test.want)
	}
}

func TestPartitionsOfAMessage(t *testing.T) {
	t.Parallel()
	w := guarded(t, settings{})
	w.plan(t, "ann", []progress.Scan{{}, running[0], running[1], dead, dead.GiveUp()}, 1)
	m := messagetest.Message(2, "ann")
	m.To = []message.UserID{"bob"}
	_, err := w.db.Messages().Insert(t.Context(), []message.Message{m}, messagetest.AnyTime)
	require.NoError(t, err)
	target := "/v1/messages/" + messagetest.ID(1).String()
	for _, who := range []string{"ann", "operator"} {
		require.Contains(t, w.must(t, http.StatusOK, http.MethodGet, target+"?partitions=true", "", as(who)...), `"partitions":[`+
			`{"partition":0,"state":"waiting","delivered":0,"skipped":0},{"partition":1,"state":"running","delivered":5,"skipped":2},`+
			`{"partition":2,"state":"done","delivered":3,"skipped":0},{"partition":3,"state":"dead","delivered":1,"skipped":0},`+
			`{"partition":4,"state":"given_up","delivered":1,"skipped":0}],"moved":"2026-01-02T03:04:05.000Z"}}`)
	}
	require.NotContains(t, w.must(t, http.StatusOK, http.MethodGet, target, "", as("ann")...), "partitions")
	w.conclude(t, "ann", 1)
	require.NotContains(t, w.must(t, http.StatusOK, http.MethodGet, target+"?partitions=true", "", as("ann")...), "partition")
	refused := w.must(t, http.StatusForbidden, http.MethodGet, "/v1/messages/"+m.ID.String()+"?partitions=true", "", as("bob")...)
	require.Contains(t, refused, "only the sender and operators may see the partitions")
}
