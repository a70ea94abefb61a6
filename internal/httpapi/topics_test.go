package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

func TestPathsOfTopics(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	segment := strings.Repeat("x", message.MaxSegmentBytes)
	for path, status := range map[string]int{
		"a": 201, "a/b": 201, "a%2Fb%2fc": 201, "a/b%2Fd/e": 201, "%E5%90%8D%E5%89%8D/%C3%BC": 201,
		segment: 201, segment + "x": 422, strings.Repeat("d/", 7) + "d": 201, strings.Repeat("d/", 8) + "d": 422,
		"a%01b": 422, "a%00b": 422, "a/%20": 422, "a%20b": 422, "a/%2e%2e/b": 422, "%2e": 422, "%2F": 422, "a%2F%2Fb": 422, "a%2F": 422, "%2Fa": 422,
		"a//b": 404, "a/../b": 404, "a/": 422, "%ff": 422, "": 422,
	} {
		answer := w.askRaw(t, http.MethodPut, "/v1/topics/"+path+"?parents=true")
		if answer.Code == http.StatusNoContent { // another path has created it
			answer.Code = http.StatusCreated
		}
		require.Equal(t, status, answer.Code, "%s: %s", path, answer.Body)
		if status == http.StatusUnprocessableEntity {
			require.True(t, strings.HasPrefix(problem(t, answer).Field, "topic"), path)
		}
	}
	listed := w.must(t, http.StatusOK, http.MethodGet, "/v1/topics?limit=3", "")
	require.JSONEq(t, `{"topics":["a","a/b","a/b/c"],"next":"a/b/c"}`, listed)
	require.JSONEq(t, `{"topics":["a/b/c","a/b/d","a/b/d/e"],"next":null}`, w.must(t, http.StatusOK, http.MethodGet, "/v1/topics?under=a%2Fb&after=a/b", ""))
	require.JSONEq(t, `{"topic":"名前/ü"}`, w.must(t, http.StatusOK, http.MethodGet, "/v1/topics/%E5%90%8D%E5%89%8D%2F%C3%BC", ""))
	require.Equal(t, http.StatusOK, w.askRaw(t, http.MethodGet, "/v1/topics/a/b").Code)
	w.must(t, http.StatusUnprocessableEntity, http.MethodGet, "/v1/topics?under=a%01b", "")
	w.must(t, http.StatusUnprocessableEntity, http.MethodGet, "/v1/topics/a?parents=true", "")
	w.must(t, http.StatusMethodNotAllowed, http.MethodPost, "/v1/topics/a", "")
}

func TestTopicsOverHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	ctx := t.Context()
	c, err := client.New(w.serve(t), client.Options{})
	require.NoError(t, err)
	defer c.Close()
	sport, local := message.Topic("news/sport"), message.Topic("news/local")
	refused := func(err error, want client.ProblemType, detail string) {
		t.Helper()
		var p *client.Problem
		require.ErrorAs(t, err, &p)
		require.Equal(t, want, p.Type)
		require.Equal(t, "topic", p.Field)
		require.Contains(t, p.Detail, detail)
	}
	refused(c.CreateTopic(ctx, sport, false), client.ProblemInvalid, `there is no topic "news": create that first`)
	refused(c.Topic(ctx, sport), client.ProblemNotFound, "no such topic")
	for range 2 {
		require.NoError(t, c.CreateTopic(ctx, sport, true))
	}
	require.NoError(t, c.Topic(ctx, sport))
	result, err := c.CreateTopicBatch(ctx, []message.Topic{local, "none\x01x", "old", "news\x01 "})
	require.NoError(t, err)
	require.Equal(t, 2, result.Accepted)
	require.Len(t, result.Rejected, 2)
	require.Equal(t, 2, result.Rejected[0].Line)
	require.Equal(t, 4, result.Rejected[1].Line)

	refused(c.Subscribe(ctx, "bob", "none"), client.ProblemInvalid, `is "none", and there is no such topic`)
	for range 2 {
		require.NoError(t, c.Subscribe(ctx, "bob", sport))
	}
	result, err = c.SubscribeBatch(ctx, []client.Subscription{{User: "bob", Topic: "news"}, {User: "ann", Topic: "none"}, {User: "ann", Topic: "news"}})
	require.NoError(t, err)
	require.Equal(t, 2, result.Accepted)
	require.Equal(t, 2, result.Rejected[0].Line)
	require.NoError(t, c.Follow(ctx, "bob", "news"))
	mine, err := c.UserTopics(ctx, "bob", "", 0)
	require.NoError(t, err)
	require.Equal(t, client.TopicPage{Topics: []message.Topic{"news", sport}}, mine)
	page, err := c.Topics(ctx, "news", "", 2)
	require.NoError(t, err)
	require.Equal(t, client.TopicPage{Topics: []message.Topic{"news", local}, Next: "news/local"}, page)
	users, err := c.Subscribers(ctx, "news", "", 0)
	require.NoError(t, err)
	require.ElementsMatch(t, []message.UserID{"ann", "bob"}, users.Users)
	_, err = c.Subscribers(ctx, "none", "", 0)
	refused(err, client.ProblemNotFound, "no such topic")

	// Topics are no authors, also if they have the same name.
	authors, err := c.Following(ctx, "bob", "", 0)
	require.NoError(t, err)
	require.Equal(t, []message.UserID{"news"}, authors.Users)
	fans, err := c.Followers(ctx, "news", "", 0)
	require.NoError(t, err)
	require.Equal(t, []message.UserID{"bob"}, fans.Users)

	refused(c.DeleteTopic(ctx, "news"), client.ProblemConflict, "there are topics below news: delete those first")
	refused(c.DeleteTopic(ctx, sport), client.ProblemConflict, "users are subscribed to news/sport")
	for range 2 {
		require.NoError(t, c.Unsubscribe(ctx, "bob", sport))
		require.NoError(t, c.DeleteTopic(ctx, sport))
	}
	require.NoError(t, c.Unsubscribe(ctx, "bob", "none"))
	refused(c.Topic(ctx, sport), client.ProblemNotFound, "")
	for _, err := range []error{
		c.CreateTopic(ctx, "", true), c.Topic(ctx, ""), c.DeleteTopic(ctx, "a\x01"), c.Subscribe(ctx, "", "a"), c.Subscribe(ctx, "bob", ""),
	} {
		require.ErrorIs(t, err, message.ErrInvalid)
	}
	_, err = c.Subscribers(ctx, "", "", 0)
	require.ErrorIs(t, err, message.ErrInvalid)
	_, err = c.UserTopics(ctx, "", "", 0)
	require.ErrorIs(t, err, message.ErrInvalid)
}

func TestSubscriptionsAreTheUsers(t *testing.T) {
	t.Parallel()
	w := guarded(t, settings{})
	w.must(t, http.StatusCreated, http.MethodPut, "/v1/topics/news", "", as("operator")...)
	lines := `{"user":"bob","topic":"news"}` + "\n" + `{"user":"cy","topic":"news"}` + "\n" + `{"user":"bob","topic":"a\u0001b"}`
	answer := w.must(t, http.StatusOK, http.MethodPost, "/v1/subscriptions:batch", lines, as("bob")...)
	require.Contains(t, answer, `{"accepted":1,"rejected":[{"line":2,"error":"the token does not belong to \"cy\""},{"line":3,"error":"topic`)
	require.JSONEq(t, `{"users":["bob"],"next":null}`, w.must(t, http.StatusOK, http.MethodGet, "/v1/subscriptions?topic=news", "", as("operator")...))
}
