package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/httpapi"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// held is a call of a store that holds a request until its client is gone.
type held chan struct{}

// hold tells the test that the call has begun, and waits for the end of the request.
func (h held) hold(ctx context.Context) error {
	h <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

// heldUsers is a store of users that holds every view.
type heldUsers struct {
	userstate.Store
	held held
}

func (s heldUsers) View(ctx context.Context, _ []userstate.View) ([]userstate.Viewed, error) {
	return nil, s.held.hold(ctx)
}

// heldMessages is a store of messages that holds what requests need from it.
type heldMessages struct {
	message.Store
	held held
	// kept means that an insert takes effect before it is held, and succeeds.
	kept bool
}

func (s heldMessages) Insert(ctx context.Context, messages []message.Message, timing message.Timing) ([]message.Stamp, error) {
	if !s.kept {
		return nil, s.held.hold(ctx)
	}
	stamps, err := s.Store.Insert(ctx, messages, timing)
	_ = s.held.hold(ctx) // the client is gone, and the insert has taken effect
	return stamps, err
}

func (s heldMessages) ToFollowers(ctx context.Context, _ []message.Range, _ message.Order, _ int) ([]message.Stored, error) {
	return nil, s.held.hold(ctx)
}

// lookingMessages is a store of messages that holds the look for later messages.
type lookingMessages struct {
	message.Store
	held held
	on   *atomic.Bool // whether it is held
}

func (s lookingMessages) AnyAfter(ctx context.Context, after message.ID) (bool, error) {
	if !s.on.Load() {
		return s.Store.AnyAfter(ctx, after)
	}
	return false, s.held.hold(ctx)
}

// hangUp sends a part of a request or all of it to a server, and closes the connection when until returns. It returns when the server has
// finished the request.
func (w *world) hangUp(t *testing.T, request string, until func(net.Conn)) {
	t.Helper()
	server := httptest.NewServer(w.handler)
	defer server.Close()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	_, err = conn.Write([]byte(strings.ReplaceAll(request, "\n", "\r\n")))
	require.NoError(t, err)
	until(conn)
	before := strings.Count(w.log.String(), `"message":"request"`)
	require.NoError(t, conn.Close())
	require.Eventually(t, func() bool {
		return strings.Count(w.log.String(), `"message":"request"`) > before
	}, time.Minute, time.Millisecond)
}

// posted is a request with a body.
func posted(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\nHost: localhost\nContent-Type: application/json\nContent-Length: %d\n\n%s", path, len(body), body)
}

// half returns a request without the end of its body.
func half(request string) string { return request[:len(request)-10] }

// A client that hangs up is recorded as 499. It is neither a failure of the server nor a warning, whatever the request was waiting for.
func TestHangingUp(t *testing.T) {
	t.Parallel()
	const edge = `{"follower":"ben","followee":"ann"}`
	for name, test := range map[string]struct {
		request string
		// early means that the client hangs up in the middle of the body.
		early bool
		route string
	}{
		"a page":               {request: "GET /v1/users/ben/inbox HTTP/1.1\nHost: localhost\n\n", route: "/v1/users/{user}/inbox"},
		"a login":              {request: posted("/v1/users/ben/login", ""), route: "/v1/users/{user}/login"},
		"a batch":              {request: posted("/v1/following:batch", edge), route: "/v1/following:batch"},
		"a publish":            {request: posted("/v1/messages", draft(`"body":"x"`)), route: "/v1/messages"},
		"a batch of messages":  {request: posted("/v1/messages:batch", draft(`"body":"x"`)), route: "/v1/messages:batch"},
		"a probe":              {request: "GET /readyz HTTP/1.1\nHost: localhost\n\n", route: "/readyz"},
		"half a message":       {request: half(posted("/v1/messages", draft(`"body":"x"`))), early: true, route: "/v1/messages"},
		"half a batch":         {request: half(posted("/v1/following:batch", edge)), early: true, route: "/v1/following:batch"},
		"half of the messages": {request: half(posted("/v1/messages:batch", draft(`"body":"x"`))), early: true, route: "/v1/messages:batch"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held, measured := make(held, 1), prometheus.NewRegistry()
			w := newWorld(t, settings{
				users:    func(s userstate.Store) userstate.Store { return heldUsers{s, held} },
				messages: func(s message.Store) message.Store { return heldMessages{Store: s, held: held} },
				services: func(s *httpapi.Services) {
					s.Ready = func(ctx context.Context) (reasons, limited []client.Reason) {
						return []client.Reason{{Name: client.ReasonStore, Detail: held.hold(ctx).Error()}}, nil
					}
				},
				options: func(o *httpapi.Options) { o.Metrics = measured },
			})
			w.hangUp(t, test.request, func(net.Conn) {
				if !test.early {
					<-held
				}
			})
			log := w.log.String()
			require.NotContains(t, log, `"level":"warn"`)
			require.NotContains(t, log, `"level":"error"`)
			require.Equal(t, 1, strings.Count(log, "\n"), log)
			require.Contains(t, log, `"status":499,"error":"`)
			counted := metricsText(t, measured)
			require.Regexp(t, `class="4xx",method="[A-Z]+",route="`+strings.NewReplacer("{", `\{`, "}", `\}`).Replace(test.route)+`"} 1\n`, counted)
			require.NotRegexp(t, `class="[235]xx".* 1\n`, counted)
			require.Empty(t, w.contents(t).Unfinished)
		})
	}
}

// A request that the server cuts off, because it stops, did fail.
func TestCutOff(t *testing.T) {
	t.Parallel()
	held := make(held, 1)
	w := newWorld(t, settings{users: func(s userstate.Store) userstate.Store { return heldUsers{s, held} }})
	ctx, cut := context.WithCancelCause(t.Context())
	answered := make(chan int)
	go func() {
		answer := httptest.NewRecorder()
		w.handler.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/users/ben/login", http.NoBody))
		answered <- answer.Code
	}()
	<-held
	cut(errors.New("the server stops"))
	require.Equal(t, http.StatusServiceUnavailable, <-answered)
	require.Contains(t, w.log.String(), `"status":503,`)
}

// What the store took before the client hung up is kept: the event of the message is emitted, and the request did succeed.
func TestHangingUpKeepsWhatWasAccepted(t *testing.T) {
	t.Parallel()
	held := make(held, 1)
	w := newWorld(t, settings{messages: func(s message.Store) message.Store { return heldMessages{Store: s, held: held, kept: true} }})
	request := strings.Replace(posted("/v1/messages", draft(`"body":"x"`)), "Host:", "Idempotency-Key: k\nHost:", 1)
	w.hangUp(t, request, func(net.Conn) { <-held })
	kept := w.contents(t)
	require.Len(t, kept.Unfinished, 1)
	require.Equal(t, 1, kept.Events)
	require.NotContains(t, w.log.String(), `"level":"warn"`)
	require.NotContains(t, w.log.String(), `"level":"error"`)
	require.Contains(t, w.log.String(), `"status":202`)

	w.hangUp(t, request, func(net.Conn) { <-held })
	require.Equal(t, kept.Unfinished, w.contents(t).Unfinished, "the same request publishes nothing twice")
}

// A client that hangs up between two messages of a batch has those that were answered.
func TestHangingUpInABatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	line := draft(`"body":"x"`) + "\n"
	request := "POST /v1/messages:batch HTTP/1.1\nHost: localhost\nTransfer-Encoding: chunked\n\n" + fmt.Sprintf("%x\n", len(line)) + line
	w.hangUp(t, strings.TrimSuffix(request, "\n"), func(conn net.Conn) {
		_, err := conn.Write([]byte("\n\r\n"))
		require.NoError(t, err)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil) //nolint:bodyclose // closing it would wait for its end
		require.NoError(t, err)
		first, err := bufio.NewReader(answer.Body).ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, first, `"id":`)
	})
	require.NotContains(t, w.log.String(), `"level":"warn"`)
	require.NotContains(t, w.log.String(), `"level":"error"`)
	require.Contains(t, w.log.String(), `"status":499,"error":"`)
	require.Len(t, w.contents(t).Unfinished, 1)
}

// A view of an active user raises the horizon. If the client hangs up before the end of that, a sweep ends it, without a warning.
func TestHangingUpDuringARaise(t *testing.T) {
	t.Parallel()
	held, on := make(held, 1), new(atomic.Bool)
	w := newWorld(t, settings{
		messages: func(s message.Store) message.Store { return lookingMessages{Store: s, held: held, on: on} },
		rules:    userstate.DefaultRules,
	})
	w.see(t, "ben")
	on.Store(true)
	w.pass(userstate.DefaultRules().DormantAfter / 2)
	w.hangUp(t, "GET /v1/users/ben/inbox HTTP/1.1\nHost: localhost\n\n", func(net.Conn) { <-held })
	require.Contains(t, w.log.String(), "a login has ended before its horizon was settled")
	require.NotContains(t, w.log.String(), `"level":"warn"`)
	require.NotContains(t, w.log.String(), `"level":"error"`)
}
