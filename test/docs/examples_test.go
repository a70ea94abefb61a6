//go:build hosttools

package docs_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/test/testenv"
)

// example is a publisher and a reader in some language: the programs and their first arguments.
type example struct{ publisher, reader []string }

func TestExampleInGo(t *testing.T) {
	t.Parallel()
	testExample(t, example{publisher: []string{program("go/publisher")}, reader: []string{program("go/reader")}})
}

// testExample runs an example against a server with tokens, behind two addresses that are busy at first. The user's id and the bodies need
// encoding.
func testExample(t *testing.T, e example) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	tokens := t.TempDir()
	site := testenv.NewSite(t, map[string]string{"auth.tokens_file": writeTokens(t, tokens)})
	server := site.Start(ctx, t, program("fanmail"))
	publisher, rehydrator := newBusy(t, site.URL()), newBusy(t, site.URL())
	settings := map[string]string{"publisher": publisher.server.URL, "rehydrator": rehydrator.server.URL}
	run := func(command []string, token string, args ...string) *testenv.Process {
		settings["token_file"] = filepath.Join(tokens, token)
		return testenv.Exec(ctx, t, settings, command[0], append(command[1:len(command):len(command)], args...)...)
	}
	publish := func(key, body string) string {
		p := run(e.publisher, "news", "ann", "ben+%2f-é", key, body)
		require.Zero(t, p.Code(ctx), "%s%s", p.Stdout(), p.Stderr())
		return p.Stdout()
	}
	read := func() string {
		p := run(e.reader, "sign-in", "ben+%2f-é")
		require.Zero(t, p.Code(ctx), "%s%s", p.Stdout(), p.Stderr())
		return strings.Replace(p.Stdout(), "new: the inbox is still loading", "new: 3 recovered", 1) // on a machine that is busy for long
	}

	first := publish("greeting-1", "Hello, Ben.")
	require.Regexp(t, `^[0-9a-f-]{36}: 0 delivered, 1 skipped\n$`, first, "Ben was never seen")
	require.Equal(t, first, publish("greeting-1", "Hello, Ben."), "the same key is the same message")
	publish("greeting-2", "Grüße <&> \"")
	publish("greeting-3", "three")
	require.Equal(t, "ben+%2f-é was new: 3 recovered\npage 1, 3 unread\nann: three\nann: Grüße <&> \"\npage 2, 3 unread\nann: Hello, Ben.\n", read())
	require.Contains(t, publish("greeting-4", "four"), ": 1 delivered, 0 skipped\n", "Ben is known")
	require.Equal(t, "ben+%2f-é was active: 0 recovered\npage 1, 1 unread\nann: four\nann: three\npage 2, 1 unread\nann: Grüße <&> \"\nann: Hello, Ben.\n", read())
	require.Contains(t, read(), "page 1, 0 unread\n", "the reader has marked all as read")
	following := run(e.reader, "sign-in", "ben+%2f-é", "--follow")
	shows := func(text string) {
		require.Eventually(t, func() bool { return strings.Contains(following.Stdout(), text) }, time.Minute, 10*time.Millisecond, "%s", text)
	}
	shows("page 2, 0 unread\n")
	publish("greeting-6", "five")
	shows(", 1 unseen: ann: five\n")
	following.Kill()

	reused := run(e.publisher, "news", "ann", "ben+%2f-é", "greeting-1", "Another message")
	require.Equal(t, 1, reused.Code(ctx))
	require.Contains(t, reused.Stderr(), "key of another message")
	forbidden := run(e.publisher, "sign-in", "ann", "ben+%2f-é", "greeting-5", "Not mine to send")
	require.Equal(t, 1, forbidden.Code(ctx))
	require.Contains(t, forbidden.Stderr(), "(403")
	require.NotContains(t, forbidden.Stderr(), "Traceback")

	publisher.require(t, "/v1/messages")
	rehydrator.require(t, "/v1/users/")
	server.Stop(ctx)
}

// writeTokens writes two tokens to files of their own, and returns the file by which a server knows them.
func writeTokens(t *testing.T, dir string) string {
	t.Helper()
	var file strings.Builder
	file.WriteString("tokens:\n")
	for name, grants := range map[string]string{"news": `scopes: [publish], senders: [ann]`, "sign-in": `scopes: [read], user: "*"`} {
		token := "sesame-" + name + strings.Repeat("0", 32)
		hash := sha256.Sum256([]byte(token))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(token+"\n"), 0o600))
		fmt.Fprintf(&file, "  - {name: %s, sha256: %s, %s}\n", name, hex.EncodeToString(hash[:]), grants)
	}
	path := filepath.Join(dir, "tokens.yaml")
	require.NoError(t, os.WriteFile(path, []byte(file.String()), 0o600))
	return path
}

// busy is a proxy in front of a server. It refuses the first request and breaks its repetitions off, as an overloaded set-up would do.
type busy struct {
	server *httptest.Server
	mu     sync.Mutex
	paths  []string
	asked  time.Time // when it asked for a pause
	paused time.Duration
}

func newBusy(t *testing.T, target string) *busy {
	t.Helper()
	to, err := url.Parse(target)
	require.NoError(t, err)
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: transport}
	b := &busy{}
	b.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		b.paths = append(b.paths, r.URL.EscapedPath())
		count := len(b.paths)
		if count == 2 {
			b.paused = time.Since(b.asked)
		}
		b.mu.Unlock()
		switch count {
		case 1:
			w.Header().Set("Content-Type", client.ContentProblem)
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = fmt.Fprintf(w, `{"type":%q,"title":"Too many requests","status":429}`, client.ProblemRateLimited)
			b.mu.Lock()
			b.asked = time.Now()
			b.mu.Unlock()
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprint(w, "<html>a load balancer</html>")
		case 3:
			panic(http.ErrAbortHandler) // after the request, before an answer
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		b.server.Close()
		transport.CloseIdleConnections()
	})
	return b
}

// require requires that the requests were all below a path, that the first one was repeated, and that the pause was as long as the proxy had
// asked for.
func (b *busy) require(t *testing.T, below string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Greater(t, len(b.paths), 4)
	for i, path := range b.paths {
		require.True(t, strings.HasPrefix(path, below), path)
		if i < 4 {
			require.Equal(t, b.paths[0], path)
		}
	}
	require.GreaterOrEqual(t, b.paused, 900*time.Millisecond) // a second, to the accuracy of clocks
}
