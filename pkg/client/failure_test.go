package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

const receiptJSON = `{"id":"019b7ca9-8c88-7000-8000-000000000000","from":"ann","sent":"2026-01-02T03:04:05.000Z"}`

func answerProblem(w http.ResponseWriter, status int, kind client.ProblemType) {
	w.Header().Set("Content-Type", client.ContentProblem)
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"type":%q,"title":"No","status":%d,"detail":"not now"}`, kind, status)
}

// TestRepeats checks which calls are repeated after which failure of the first try.
func TestRepeats(t *testing.T) {
	t.Parallel()
	draft := message.Draft{From: "ann", To: []message.UserID{"bob"}, Body: "x"}
	calls := map[string]func(context.Context, *client.Client) error{
		"publish": func(ctx context.Context, c *client.Client) error { _, err := c.Publish(ctx, draft, ""); return err },
		"publish with a key": func(ctx context.Context, c *client.Client) error {
			_, err := c.Publish(ctx, draft, "key")
			return err
		},
		"follow": func(ctx context.Context, c *client.Client) error { return c.Follow(ctx, "bob", "ann") },
		"follow batch": func(ctx context.Context, c *client.Client) error {
			_, err := c.FollowBatch(ctx, []follow.Pair{{Follower: "bob", Followee: "ann"}})
			return err
		},
		"login":  func(ctx context.Context, c *client.Client) error { _, err := c.Login(ctx, "bob", 0); return err },
		"status": func(ctx context.Context, c *client.Client) error { _, err := c.Status(ctx, message.MaxID); return err },
	}
	failures := map[string]http.HandlerFunc{
		"busy":        func(w http.ResponseWriter, _ *http.Request) { answerProblem(w, 503, client.ProblemBusy) },
		"clock ahead": func(w http.ResponseWriter, _ *http.Request) { answerProblem(w, 503, client.ProblemClockAhead) },
		"unavailable": func(w http.ResponseWriter, _ *http.Request) { answerProblem(w, 503, client.ProblemUnavailable) },
		"internal":    func(w http.ResponseWriter, _ *http.Request) { answerProblem(w, 500, client.ProblemInternal) },
		"connection":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	}
	repeated := map[string]map[string]bool{
		"busy":        {"publish": true, "publish with a key": true, "follow": true, "follow batch": true, "login": true, "status": true},
		"clock ahead": {"publish": true, "publish with a key": true, "follow": true, "follow batch": true, "login": true, "status": true},
		"unavailable": {"publish with a key": true, "follow": true, "follow batch": true, "login": true, "status": true},
		"internal":    {},
		"connection":  {"publish with a key": true, "follow": true, "follow batch": true, "login": true, "status": true},
	}
	for failure, fail := range failures {
		for name, call := range calls {
			t.Run(name+"/"+failure, func(t *testing.T) {
				t.Parallel()
				var requests atomic.Int64
				c := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
					if requests.Add(1) <= 2 {
						fail(w, r)
						return
					}
					_, _ = fmt.Fprintln(w, receiptJSON)
				})
				err := call(t.Context(), c)
				if repeated[failure][name] {
					require.NoError(t, err)
					require.EqualValues(t, 3, requests.Load())
					return
				}
				require.Error(t, err)
				require.EqualValues(t, 1, requests.Load())
			})
		}
	}
}

func TestRepeatsAreBounded(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		answerProblem(w, 503, client.ProblemBusy)
	}))
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, client.Options{Tries: 3, Pause: 1})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	var problem *client.Problem
	require.ErrorAs(t, c.Follow(t.Context(), "bob", "ann"), &problem)
	require.EqualValues(t, 3, requests.Load())
	require.EqualError(t, problem, "not now (503 Service Unavailable)")
}

func TestRepeatsOfAMessageHaveOneKey(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var keys []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, r.Header.Get(client.IdempotencyKeyHeader))
		answerProblem(w, 503, client.ProblemClockAhead)
	}))
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, client.Options{Tries: 3, Pause: 1})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	_, err = c.Publish(t.Context(), message.Draft{From: "ann", To: []message.UserID{"bob"}, Body: "x"}, "key")
	var problem *client.Problem
	require.ErrorAs(t, err, &problem)
	require.Equal(t, client.ProblemClockAhead, problem.Type)
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []string{"key", "key", "key"}, keys)
}

func TestTheContextEndsAPause(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped by the test")
	c := fakeServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		answerProblem(w, 503, client.ProblemBusy)
		cancel(stopped)
	})
	require.Error(t, c.Follow(ctx, "bob", "ann"))
	require.ErrorIs(t, c.Follow(ctx, "bob", "ann"), stopped)
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	const nowhere = "http://127.0.0.1:1"
	c := connect(t, nowhere)
	_, err := c.Status(t.Context(), message.MaxID)
	require.ErrorContains(t, err, nowhere)
	require.ErrorContains(t, err, "connection refused")
	require.ErrorContains(t, err, `"fanmail serve" starts one`)
}

func TestServersThatAreNotFanmail(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"no such page": http.NotFound,
		"a page":       func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "<html>") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := fakeServer(t, answer).User(t.Context(), "bob")
			require.ErrorContains(t, err, "does not answer as a Fanmail server does")
		})
	}
}

func TestAnswersToABatchThatEndEarly(t *testing.T) {
	t.Parallel()
	drafts := make([]message.Draft, 3)
	for _, tc := range []struct {
		name, answer string
		answers      int
		says         string
	}{
		{"with nothing more", receiptJSON + "\n", 1, "unexpected EOF"},
		{"with a reason", receiptJSON + "\n" + `{"line":2,"error":{"status":413,"detail":"too many lines"}}`, 1, "too many lines (413"},
		{"with too many answers", receiptJSON + receiptJSON + receiptJSON + receiptJSON, 3, "more answers than messages"},
		{"with something else", `{}`, 0, "neither a receipt nor an error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := fakeServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, tc.answer) })
			answers, err := c.PublishBatch(t.Context(), drafts, "")
			require.ErrorContains(t, err, tc.says)
			require.Len(t, answers, tc.answers)
		})
	}
}

func TestWaitDone(t *testing.T) {
	t.Parallel()
	states := []message.State{message.StatePending, message.StateRunning, message.StateDone}
	var asked atomic.Int64
	c := fakeServer(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"fanout":{"state":%q}}`, states[asked.Add(1)-1])
	})
	status, err := c.WaitDone(t.Context(), message.MaxID, 1)
	require.NoError(t, err)
	require.Equal(t, message.StateDone, status.Fanout.State)
	require.EqualValues(t, 3, asked.Load())
}
