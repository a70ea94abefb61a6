package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

const month = 31 * 24 * time.Hour

// transcript records requests and their answers.
type transcript struct {
	*world
	strings.Builder
}

func (s *transcript) request(t *testing.T, method, target, body string) {
	t.Helper()
	answer := s.ask(t, method, target, body)
	fmt.Fprintf(&s.Builder, "%s %s %s\n%d ", method, target, body, answer.Code)
	if retry := answer.Header().Get("Retry-After"); retry != "" {
		fmt.Fprintf(&s.Builder, "Retry-After: %s ", retry)
	}
	s.WriteString(strings.TrimSpace(answer.Body.String()) + "\n\n")
}

func (w *world) publish(t *testing.T, body string) {
	t.Helper()
	w.must(t, http.StatusAccepted, http.MethodPost, "/v1/messages", body)
	w.pass(time.Second) // gives each message another id
}

// logIn begins logins that wait. It returns the channels of their answers when the server has recorded all of them.
func (w *world) logIn(t *testing.T, user message.UserID, logins int) []<-chan string {
	t.Helper()
	var answers []<-chan string
	for range logins {
		w.pass(time.Second) // gives each login another recorded time
		answer := make(chan string, 1)
		answers = append(answers, answer)
		go func() {
			got := w.ask(t, http.MethodPost, "/v1/users/"+string(user)+"/login?wait=60s", "")
			answer <- fmt.Sprintf("%d %s", got.Code, got.Body)
		}()
		require.Eventually(t, func() bool {
			return w.contents(t, user).States[user].LastViewed.Equal(w.clock())
		}, time.Minute, time.Millisecond)
	}
	return answers
}

// TestLoginOfADormantUser records how a dormant user returns, and what another client sees meanwhile.
func TestLoginOfADormantUser(t *testing.T) {
	t.Parallel()
	s := &transcript{world: newWorld(t, settings{})}
	s.see(t, "bob", "dora")
	s.must(t, http.StatusNoContent, http.MethodPut, "/v1/users/bob/following/ann", "")
	s.pass(month)
	s.publish(t, `{"from":"ann","audience":"followers","body":"to followers"}`)
	s.publish(t, `{"from":"zoe","to":["bob","cy"],"body":"by name"}`)
	s.publish(t, `{"from":"zoe","audience":"followers","body":"to others"}`)
	s.pass(time.Hour)

	s.request(t, http.MethodGet, "/v1/users/bob", "")
	s.request(t, http.MethodGet, "/v1/users/bob/inbox?peek=true", "")
	s.request(t, http.MethodGet, "/v1/users/bob", "")
	s.request(t, http.MethodPost, "/v1/users/bob/login", "")
	s.rest(t)
	s.request(t, http.MethodGet, "/v1/users/bob", "")
	s.request(t, http.MethodGet, "/v1/users/bob/inbox", "")
	s.request(t, http.MethodPost, "/v1/users/bob/login?wait=0", "")
	s.request(t, http.MethodPost, "/v1/users/cy/login?wait=1m", "")
	s.request(t, http.MethodPut, "/v1/users/dora", `{"last_viewed":"2026-02-02T00:00:00Z"}`)
	s.rest(t)
	s.request(t, http.MethodGet, "/v1/users/dora", "")
	requireGolden(t, "login.golden", s.String())
}

// TestWhileAnInboxIsBeingRebuilt records the answers during a rehydration.
func TestWhileAnInboxIsBeingRebuilt(t *testing.T) {
	t.Parallel()
	s := &transcript{world: newWorld(t, settings{idle: true})}
	s.publish(t, `{"from":"ann","to":["bob"],"body":"one"}`)
	s.publish(t, `{"from":"ann","to":["bob"],"body":"two"}`)
	s.pass(time.Hour)
	s.request(t, http.MethodPost, "/v1/users/bob/login?wait=0s", "")
	s.request(t, http.MethodPost, "/v1/users/bob/login?wait=1ms", "")
	s.request(t, http.MethodGet, "/v1/users/bob", "")
	s.request(t, http.MethodGet, "/v1/users/bob/inbox?limit=1", "")
	s.pass(time.Second)
	s.request(t, http.MethodPut, "/v1/users/bob", `{"last_viewed":"`+s.clock().Format(client.TimeLayout)+`"}`)
	s.request(t, http.MethodPost, "/v1/users/bob/inbox/read", `{"up_to":"019b7ca9-8c88-7000-8000-000000000000"}`)
	s.request(t, http.MethodPost, "/v1/users:batch", `{"user":"cy","last_viewed":"`+s.clock().Format(client.TimeLayout)+`"}`)
	waiting := s.logIn(t, "bob", 3)
	s.work()
	s.WriteString("POST /v1/users/bob/login?wait=60s, three times at once\n")
	for _, answer := range waiting {
		s.WriteString(<-answer)
	}
	s.rest(t)
	s.WriteString("\n")
	s.request(t, http.MethodGet, "/v1/users/bob/inbox?limit=1", "")
	requireGolden(t, "rehydrating.golden", s.String())
	require.NotContains(t, s.log.String(), `"level":"warn"`, "the answers tell all of it")
}

func TestLoginTakesABody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	for _, body := range []string{"", "{}", "whatever"} {
		w.must(t, http.StatusOK, http.MethodPost, "/v1/users/bob/login", body)
	}
}

func TestLoginOfAClientThatLeaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{idle: true})
	ctx, leave := context.WithCancel(t.Context())
	leave()
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/users/bob/login?wait=60s", nil))
	require.Equal(t, http.StatusServiceUnavailable, answer.Code)
	require.Equal(t, client.ProblemUnavailable, problem(t, answer).Type)
}
