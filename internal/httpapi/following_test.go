package httpapi_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/follow"
)

func TestFollowLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	pair := follow.Pair{Follower: "ann", Followee: "bob"}
	for n := range follow.MaxSpans {
		at := w.clock().Add(time.Duration(n) * time.Second)
		_, err := w.db.Edges().Follow(t.Context(), []follow.Pair{pair}, at)
		require.NoError(t, err)
		require.NoError(t, w.db.Edges().Unfollow(t.Context(), pair, at.Add(time.Millisecond)))
	}
	answer := w.ask(t, http.MethodPut, "/v1/users/ann/following/bob", "")
	require.Equal(t, http.StatusConflict, answer.Code)
	p := problem(t, answer)
	require.Equal(t, client.ProblemFollowLimit, p.Type)
	require.Contains(t, p.Detail, "ann has unfollowed bob 256 times, which is the limit")

	require.Equal(t, http.StatusNoContent, w.ask(t, http.MethodPut, "/v1/users/bob/blocked/dan", "").Code)
	answer = w.ask(t, http.MethodPost, "/v1/following:batch",
		`{"follower":"cid","followee":"bob"}`+"\n"+`{"follower":"ann","followee":"bob"}`+"\n"+`{"follower":"dan","followee":"bob"}`)
	require.Equal(t, http.StatusOK, answer.Code)
	require.JSONEq(t, `{"accepted":1,"rejected":[{"line":2,"error":"`+p.Detail+`"},
		{"line":3,"error":"dan cannot follow bob, because one of them blocks the other"}]}`, answer.Body.String())
}
