package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/deadletter"
	"github.com/fanmail/fanmail/internal/httpapi"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/internal/telemetry/telemetrytest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

func TestProblemOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		err    error
		status int
		kind   client.ProblemType
		field  string
	}{
		{"invalid value", &message.InvalidError{Field: "to[3]", Reason: "is empty"}, 422, client.ProblemInvalid, "to[3]"},
		{"message not found", message.ErrNotFound, 404, client.ProblemNotFound, "id"},
		{"corrupt record", message.ErrCorrupt, 500, client.ProblemDamaged, ""},
		{"damaged user", fmt.Errorf("%w: %w", deadletter.ErrDamaged, message.ErrCorrupt), 409, client.ProblemConflict, "id"},
		{"key reused", message.ErrKeyReused, 422, client.ProblemKeyReused, "Idempotency-Key"},
		{"store unavailable", message.ErrUnavailable, 503, client.ProblemUnavailable, ""},
		{"key changed", message.ErrKeyChanged, 503, client.ProblemUnavailable, ""},
		{"entry not found", bucket.ErrNotFound, 404, client.ProblemNotFound, "id"},
		{"contended", bucket.ErrContended, 503, client.ProblemUnavailable, ""},
		{"entry too large", bucket.ErrTooLarge, 500, client.ProblemInternal, ""},
		{"cursor", bucket.ErrCursor, 422, client.ProblemInvalid, "before"},
		{"user not found", userstate.ErrNotFound, 404, client.ProblemNotFound, "user"},
		{"rehydration unfinished", rehydrate.ErrUnfinished, 503, client.ProblemUnavailable, ""},
		{"rehydration lost", rehydrate.ErrLost, 500, client.ProblemInternal, ""},
		{"backwards", userstate.ErrBackwards, 409, client.ProblemBackwards, "last_viewed"},
		{"following oneself", follow.ErrSelf, 422, client.ProblemInvalid, "followee"},
		{"followed too often", &follow.FullError{Pair: follow.Pair{Follower: "ann", Followee: "bob"}}, 409, client.ProblemFollowLimit, "followee"},
		{"following too many", &follow.FullError{Pair: follow.Pair{Follower: "ann", Followee: message.Topic("go").Source()}, Max: 3}, 409, client.ProblemFollowLimit, "topic"},
		{"fan-out not planned", progress.ErrNotFound, 500, client.ProblemInternal, ""},
		{"dead letter that cannot be read", deadletter.ErrUnreadable, 409, client.ProblemConflict, "id"},
		{"malformed event", event.ErrMalformed, 500, client.ProblemInternal, ""},
		{"busy", publish.ErrBusy, 503, client.ProblemBusy, ""},
		{"late", publish.ErrLate, 503, client.ProblemBusy, ""},
		{"behind", publish.ErrBehind, 503, client.ProblemBusy, ""},
		{"ahead", publish.ErrAhead, 503, client.ProblemClockAhead, ""},
		{"disk full", syscall.ENOSPC, 503, client.ProblemUnavailable, ""},
		{"client gone", context.Canceled, 503, client.ProblemUnavailable, ""},
		{"out of time", context.DeadlineExceeded, 503, client.ProblemUnavailable, ""},
		{"anything else", errors.New("password is hunter2"), 500, client.ProblemInternal, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := httpapi.ProblemOf(fmt.Errorf("store: %w", tc.err))
			require.Equal(t, tc.status, p.Status)
			require.Equal(t, tc.kind, p.Type)
			require.Equal(t, tc.field, p.Field)
			require.NotEmpty(t, p.Title)
			require.NotEmpty(t, p.Detail)
			require.Equal(t, tc.status == http.StatusServiceUnavailable, p.RetryAfter > 0)
			if tc.status == http.StatusInternalServerError {
				require.NotContains(t, p.Detail, tc.err.Error())
			}
		})
	}
}

func TestProblemDocuments(t *testing.T) {
	t.Parallel()
	w := badWorld(t)
	var documents strings.Builder
	for _, bad := range []struct{ method, target, body string }{
		{http.MethodPost, "/v1/messages", `{"from":"ann","to":["bob"],"body":"<&>","x":1}`},
		{http.MethodPost, "/v1/messages", `{"from":"ann","to":["bob",""],"body":"x"}`},
		{http.MethodGet, "/v1/nothing", ``},
		{http.MethodPatch, "/v1/users/bob", ``},
	} {
		answer := w.ask(t, bad.method, bad.target, bad.body)
		documents.Write(answer.Body.Bytes())
	}
	requireGolden(t, "problems.golden", documents.String())
}

// brokenStore is a message store whose Insert returns an error of the test.
type brokenStore struct {
	message.Store
	insert func() error
}

func (s brokenStore) Insert(ctx context.Context, messages []message.Message, timing message.Timing) ([]message.Stamp, error) {
	if err := s.insert(); err != nil {
		return nil, err
	}
	return s.Store.Insert(ctx, messages, timing)
}

func TestFailures(t *testing.T) {
	t.Parallel()
	secret := errors.New("block 17 of secret.sst is gone")
	for _, tc := range []struct {
		name   string
		insert func() error
		status int
		logged string
	}{
		{"a store that fails", func() error { return secret }, 500, secret.Error()},
		{"a store that panics", func() error { panic(secret) }, 500, "a handler panicked"},
		{"a full disk", func() error { return fmt.Errorf("append to the log: %w", syscall.ENOSPC) }, 503, "no space left"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, settings{messages: func(s message.Store) message.Store { return brokenStore{s, tc.insert} }})
			answer := w.ask(t, http.MethodPost, "/v1/messages", draft(`"body":"x"`))
			require.Equal(t, tc.status, answer.Code)
			require.Equal(t, tc.status == 503, answer.Header().Get("Retry-After") == "1")
			p := problem(t, answer)
			require.NotContains(t, p.Detail, "secret")
			require.Contains(t, w.log.String(), tc.logged)
			require.Contains(t, w.log.String(), answer.Header().Get(client.RequestIDHeader))
		})
	}
}

func TestBusy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.bus.fail(errors.New("stream is full"))
	w.must(t, http.StatusAccepted, http.MethodPost, "/v1/messages", draft(`"body":"stored, not emitted"`))
	for _, target := range []string{"/v1/messages", "/v1/messages:batch"} {
		answer := w.ask(t, http.MethodPost, target, draft(`"body":"x"`))
		require.Equal(t, http.StatusServiceUnavailable, answer.Code)
		require.Equal(t, "1", answer.Header().Get("Retry-After"))
		require.Equal(t, client.ProblemBusy, problem(t, answer).Type)
	}
	require.Len(t, w.contents(t).Unfinished, 1, "nothing was taken")
	w.bus.fail(nil)
	w.pass(publish.RetryAfter)
	w.must(t, http.StatusAccepted, http.MethodPost, "/v1/messages", draft(`"body":"x"`))
}

// A server whose clock is ahead of the store's refuses messages until the clock is corrected.
func TestClockAhead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.setAhead(userstate.DefaultRules().ClockTolerance + time.Millisecond)
	for _, target := range []string{"/v1/messages", "/v1/messages:batch"} {
		answer := w.ask(t, http.MethodPost, target, draft(`"body":"x"`), client.IdempotencyKeyHeader, target)
		require.Equal(t, http.StatusServiceUnavailable, answer.Code)
		require.Equal(t, "1", answer.Header().Get("Retry-After"))
		require.Equal(t, client.ProblemClockAhead, problem(t, answer).Type)
	}
	require.Empty(t, w.contents(t).Unfinished)
	w.setAhead(0)
	for _, target := range []string{"/v1/messages", "/v1/messages:batch"} {
		answer := w.ask(t, http.MethodPost, target, draft(`"body":"x"`), client.IdempotencyKeyHeader, target)
		require.Less(t, answer.Code, 300)
		require.NotContains(t, answer.Body.String(), "error")
	}
	require.Len(t, w.contents(t).Unfinished, 2)
}

// A server whose clock is behind the store's refuses messages, and says why.
func TestClockBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.setAhead(-10 * time.Minute)
	answer := w.ask(t, http.MethodPost, "/v1/messages", draft(`"body":"x"`))
	require.Equal(t, http.StatusServiceUnavailable, answer.Code)
	p := problem(t, answer)
	require.Equal(t, client.ProblemBusy, p.Type)
	require.Contains(t, p.Detail, "the server's clock is behind the store's")
	w.setAhead(0)
	w.must(t, http.StatusAccepted, http.MethodPost, "/v1/messages", draft(`"body":"x"`))
}

func TestHealth(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	require.JSONEq(t, `{"status":"ok"}`, w.must(t, http.StatusOK, http.MethodGet, "/healthz", ""))
	require.JSONEq(t, `{"status":"ready"}`, w.must(t, http.StatusOK, http.MethodGet, "/readyz", ""))

	w = newWorld(t, settings{limited: []client.Reason{{Name: client.ReasonBus, Detail: "the bus is away"}}})
	require.JSONEq(t, `{"status":"ready","limited":[{"name":"bus","detail":"the bus is away"}]}`, w.must(t, http.StatusOK, http.MethodGet, "/readyz", ""))

	w = newWorld(t, settings{ready: []client.Reason{
		{Name: client.ReasonStopping, Detail: "it is stopping"}, {Name: client.ReasonBus, Detail: "the event bus is away"},
	}})
	require.JSONEq(t, `{"status":"ok"}`, w.must(t, http.StatusOK, http.MethodGet, "/healthz", ""))
	answer := w.ask(t, http.MethodGet, "/readyz", "")
	require.Equal(t, "close", answer.Header().Get("Connection"), "a client who hears that the server is stopping must not use the connection again")
	require.Equal(t, http.StatusServiceUnavailable, answer.Code)
	require.JSONEq(t, `{"type":"urn:fanmail:problem:unavailable","title":"The server cannot do this at the moment","status":503,
		"detail":"the server is not ready: it is stopping; the event bus is away",
		"reasons":[{"name":"stopping","detail":"it is stopping"},{"name":"bus","detail":"the event bus is away"}]}`, answer.Body.String())
	require.Equal(t, "1", answer.Header().Get("Retry-After"))
}

// The log has one line when a process is not ready any more, and one when it is ready again, however often monitoring asks.
func TestReadinessIsLoggedWhenItChanges(t *testing.T) {
	t.Parallel()
	var missing []client.Reason
	w := newWorld(t, settings{services: func(s *httpapi.Services) {
		s.Ready = func(context.Context) (reasons, limited []client.Reason) { return missing, nil }
	}})
	store, bus := client.Reason{Name: client.ReasonStore, Detail: "the store is away"}, client.Reason{Name: client.ReasonBus, Detail: "the bus is away"}
	ask := func(status int, reasons ...client.Reason) {
		missing = reasons
		for range 3 {
			w.must(t, status, http.MethodGet, "/readyz", "")
			w.pass(time.Second)
		}
	}
	ask(http.StatusOK)
	ask(http.StatusServiceUnavailable, store)
	ask(http.StatusServiceUnavailable, store, bus)
	ask(http.StatusServiceUnavailable, bus)
	ask(http.StatusOK)
	ask(http.StatusServiceUnavailable, client.Reason{Name: client.ReasonStopping, Detail: "it is stopping"}, store)
	var lines []string
	for line := range strings.Lines(w.log.String()) {
		if !strings.Contains(line, `"level":"debug"`) {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	require.Equal(t, []string{
		`{"level":"warn","missing":["store"],"details":["the store is away"],"message":"this process is not ready: /readyz answers 503 until what is missing is back"}`,
		`{"level":"info","missing":["store"],"took":"9s","message":"this process is ready again"}`,
	}, lines)
}

// A process that starts answers 503 to everything, and its log has no line for each of these answers.
func TestStartingLogsNoAnswers(t *testing.T) {
	t.Parallel()
	log := &telemetrytest.Buffer{}
	handler := httpapi.NewStarting(func() string { return "the store" }, httpapi.Options{Logger: zerolog.New(log).Level(zerolog.InfoLevel), Now: time.Now})
	for _, path := range []string{"/readyz", "/v1/messages/x"} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		require.Equal(t, http.StatusServiceUnavailable, answer.Code)
	}
	require.Empty(t, log.String())
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	require.Equal(t, "measured\n", w.must(t, http.StatusOK, http.MethodGet, "/metrics", ""))
	require.Equal(t, http.StatusMethodNotAllowed, w.ask(t, http.MethodPost, "/metrics", "").Code)
}

func TestLogHasIDsAndNoBodies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.must(t, http.StatusAccepted, http.MethodPost, "/v1/messages", draft(`"body":"a secret"`))
	w.must(t, http.StatusNoContent, http.MethodPut, "/v1/users/ann/following/bob", "")
	log := w.log.String()
	require.NotContains(t, log, "secret")
	stored := w.contents(t).Unfinished[0].ID.String()
	for _, part := range []string{
		`"pattern":"/v1/messages"`, `"status":202`, `"message_id":"` + stored + `"`,
		`"pattern":"/v1/users/{user}/following/{followee}"`, `"user":"ann"`, `"followee":"bob"`, `"method":"PUT"`, `"took":"0s"`,
	} {
		require.Contains(t, log, part)
	}
}

// forgetfulStore is a message store whose ToFollowers, which follows need, succeeds only once.
type forgetfulStore struct {
	message.Store
	calls atomic.Int64
}

func (s *forgetfulStore) ToFollowers(ctx context.Context, ranges []message.Range, order message.Order, limit int) ([]message.Stored, error) {
	if s.calls.Add(1) > 1 {
		return nil, errors.New("block 17 is gone")
	}
	return s.Store.ToFollowers(ctx, ranges, order, limit)
}

func TestFailureInTheMiddleOfABatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{messages: func(s message.Store) message.Store { return &forgetfulStore{Store: s} }})
	var edges strings.Builder
	for n := range 1500 {
		fmt.Fprintf(&edges, `{"follower":"fan-%04d","followee":"star"}`+"\n", n)
	}
	answer := w.ask(t, http.MethodPost, "/v1/following:batch", edges.String())
	require.Equal(t, http.StatusInternalServerError, answer.Code)
	p := problem(t, answer)
	require.Equal(t, 1001, p.Line)
	require.Contains(t, p.Detail, "the lines before this one were handled")
	require.Equal(t, 1, w.contents(t, "fan-0999").Following["fan-0999"])
	require.Contains(t, w.log.String(), "block 17 is gone")
}
