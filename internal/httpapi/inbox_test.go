package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// TestWire records requests and answers byte by byte.
func TestWire(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.see(t, "bob", "cy")
	w.deliver(t, "bob", 1, 2)
	m := messagetest.Message(3, "ann")
	m.To, m.Topics = []message.UserID{"al", "bob", "cy"}, []message.Topic{"news", "programming/go"}
	_, err := w.appender.Append(t.Context(), []bucket.Append{{Owner: "bob", Entries: []bucket.Entry{bucket.EntryOf(m)}}})
	require.NoError(t, err)
	published := w.must(t, http.StatusAccepted, http.MethodPost, "/v1/messages",
		`{"from":"ann","to":["bob"],"audience":"followers","body":"<b>","content_type":"text/html","attrs":{ "n": 1 }}`)
	id := strings.Split(published, `"`)[3]
	var wire strings.Builder
	wire.WriteString(published)
	for _, target := range []string{
		"/v1/messages/" + id, "/v1/users/bob", "/v1/users/bob/inbox?limit=2", "/v1/users/cy/inbox", "/v1/users/bob/followers",
	} {
		answer := w.ask(t, http.MethodGet, target, "")
		require.Equal(t, http.StatusOK, answer.Code)
		require.Equal(t, client.ContentJSON, answer.Header().Get("Content-Type"))
		wire.WriteString(answer.Body.String())
	}
	requireGolden(t, "wire.golden", wire.String())
}

func TestInboxReportsTheBucketsItRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.see(t, "bob")
	w.deliver(t, "bob", 1, 130)
	for target, buckets := range map[string]string{"?limit=50": "2", "?limit=100": "3", "": "2"} {
		answer := w.ask(t, http.MethodGet, "/v1/users/bob/inbox"+target, "")
		require.Equal(t, http.StatusOK, answer.Code)
		require.Equal(t, buckets, answer.Header().Get(client.BucketsReadHeader), target)
	}
}

// Times that a client writes with an offset count, and the cursor of a page goes with the same times.
func TestInboxBetween(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.see(t, "bob")
	w.deliver(t, "bob", 1, 130)
	c, err := client.New(w.serve(t), client.Options{})
	require.NoError(t, err)
	defer c.Close()
	at := func(n int) time.Time { return messagetest.ID(n).Time().In(time.FixedZone("", 3600)) }
	opts := client.InboxOptions{Since: at(40), Until: at(101), Limit: 7, Peek: true}
	want := 100
	for m, err := range c.InboxAll(t.Context(), "bob", opts) {
		require.NoError(t, err)
		require.Equal(t, messagetest.ID(want), m.ID)
		want--
	}
	require.Equal(t, 39, want)
}

func TestPeekDoesNotCountAsViewing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.see(t, "bob")
	seen := w.contents(t, "bob").States["bob"].LastViewed
	w.pass(1000e9)
	w.must(t, http.StatusOK, http.MethodGet, "/v1/users/bob/inbox?peek=true", "")
	w.must(t, http.StatusOK, http.MethodHead, "/v1/users/bob/inbox", "")
	require.Equal(t, seen, w.contents(t, "bob").States["bob"].LastViewed)
	w.must(t, http.StatusOK, http.MethodGet, "/v1/users/bob/inbox?peek=false", "")
	require.Equal(t, w.clock(), w.contents(t, "bob").States["bob"].LastViewed)

	before := w.contents(t, "typo")
	w.must(t, http.StatusNotFound, http.MethodGet, "/v1/users/typo/inbox?peek=true", "")
	w.must(t, http.StatusNotFound, http.MethodHead, "/v1/users/typo/inbox", "")
	require.Equal(t, before, w.contents(t, "typo"))
}

func TestHeadIsGetWithoutBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.see(t, "bob")
	w.deliver(t, "bob", 1, 1)
	url := w.serve(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodHead, url+"/v1/users/bob/inbox", nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, "1", answer.Header.Get(client.BucketsReadHeader))
}

// A purge counts each message once.
func TestPurge(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.see(t, "bob")
	w.deliver(t, "bob", 1, 60)
	w.pass(1000e9)
	until := messagetest.ID(20).Time().Format(client.TimeLayout)
	for _, test := range []struct{ body, answer string }{
		{`{"until":"` + until + `","dry_run":true}`, `{"purged":20}`},
		{`{"until":"` + until + `"}`, `{"purged":20}`},
		{`{"until":"` + until + `","dry_run":false}`, `{"purged":0}`},
	} {
		require.JSONEq(t, test.answer, w.must(t, http.StatusOK, http.MethodPost, "/v1/users/bob/inbox:purge", test.body))
	}
	require.Contains(t, w.must(t, http.StatusOK, http.MethodGet, "/v1/users/bob/inbox?limit=1", ""), `"total":40,"unread":40`)
	w.must(t, http.StatusNoContent, http.MethodDelete, "/v1/users/bob/inbox/"+messagetest.ID(20).String(), "")

	c, err := client.New(w.serve(t), client.Options{})
	require.NoError(t, err)
	defer c.Close()
	for _, dry := range []bool{true, false} {
		n, err := c.Purge(t.Context(), "bob", client.Purge{Until: client.Time{Time: messagetest.ID(25).Time()}, DryRun: dry})
		require.NoError(t, err)
		require.EqualValues(t, 5, n)
	}
}

func TestReadAndDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.see(t, "bob")
	w.deliver(t, "bob", 1, 3)
	id := messagetest.ID(2).String()
	for range 2 { // each request is idempotent
		w.must(t, http.StatusNoContent, http.MethodPost, "/v1/users/bob/inbox/read", `{"up_to":"`+id+`"}`)
		w.must(t, http.StatusNoContent, http.MethodDelete, "/v1/users/bob/inbox/"+id, "")
	}
	page := w.must(t, http.StatusOK, http.MethodGet, "/v1/users/bob/inbox", "")
	require.NotContains(t, page, `"id":"`+id)
	require.Contains(t, page, `"total":2,"unread":1,`)
}
