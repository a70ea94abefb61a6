package httpapi_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/httpapi"
)

// A client that is answered before it has sent its body cannot hold the connection. The server has no other timeout here.
func TestUnreadBodies(t *testing.T) {
	t.Parallel()
	w := guarded(t, settings{options: func(o *httpapi.Options) { o.BatchLines = 1 }})
	server := httptest.NewServer(w.handler)
	t.Cleanup(server.Close)
	dial := func(t *testing.T) net.Conn {
		t.Helper()
		var dialer net.Dialer
		conn, err := dialer.DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
		return conn
	}
	send := func(t *testing.T, conn net.Conn, start, who, body string) {
		t.Helper()
		request := start + " HTTP/1.1\nHost: localhost\nAuthorization: Bearer " + token(who) + "\n" + body
		_, err := io.WriteString(conn, strings.ReplaceAll(request, "\n", "\r\n"))
		require.NoError(t, err)
	}
	const message = `{"from":"dee","to":["bob"],"body":"x"}` + "\n"
	const line = `{"follower":"bob","followee":"ann"}` + "\n"
	for name, test := range map[string]struct{ start, who, body, status string }{
		"no token":        {"POST /v1/messages", "nobody", "Content-Length: 100\n\n{", "401"},
		"in chunks":       {"POST /v1/messages", "nobody", "Transfer-Encoding: chunked\n\n1\n{\n", "401"},
		"another's inbox": {"POST /v1/users/cy/inbox/read", "bob", "Content-Length: 100\n\n{", "403"},
		"no path":         {"POST /v2", "bob", "Content-Length: 100\n\n{", "404"},
		"no method":       {"PATCH /v1/messages", "bob", "Content-Length: 100\n\n{", "405"},
		"no body wanted":  {"GET /v1/topics", "bob", "Content-Length: 100\n\n{", "200"},
		"many messages":   {"POST /v1/messages:batch", "dee", "Content-Length: 1000\n\n" + message + message + message, "200"},
		"too many lines":  {"POST /v1/following:batch", "bob", "Content-Length: 1000\n\n" + line + line + line, "413"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t)
			send(t, conn, test.start, test.who, test.body)
			answer, err := io.ReadAll(conn)
			require.NoError(t, err, "the server closes the connection")
			require.Contains(t, string(answer), "HTTP/1.1 "+test.status)
		})
	}
	t.Run("a body that has arrived", func(t *testing.T) {
		t.Parallel()
		conn := dial(t)
		reader := bufio.NewReader(conn)
		for range 2 {
			send(t, conn, "POST /v1/messages", "nobody", "Content-Length: 1\n\n{")
			answer, err := http.ReadResponse(reader, nil)
			require.NoError(t, err, "the connection stays")
			_, err = io.Copy(io.Discard, answer.Body)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
		}
	})
}
