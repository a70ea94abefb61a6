// Package browser_test drives the page of 'fanmail demo --serve' in Chromium.
package browser_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log" //nolint:depguard // httputil.ReverseProxy takes no other logger
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// patience is how long the test waits for anything. It is no measure of speed.
const patience = time.Minute

// build builds the program and returns its path.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "fanmail")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, "./cmd/fanmail")
	build.Dir = "../.."
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	return program
}

// startDemo starts the demo and returns the URL of its page. The end of the test stops it, and checks that it ends cleanly.
func startDemo(t *testing.T) string {
	t.Helper()
	program := build(t)
	demo := exec.CommandContext(context.WithoutCancel(t.Context()), program, "demo", "--serve")
	demo.Stderr = os.Stderr
	stdout, err := demo.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, demo.Start())
	t.Cleanup(func() {
		require.NoError(t, demo.Process.Signal(syscall.SIGTERM))
		require.NoError(t, demo.Wait())
	})
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "Open "); ok {
			url, _, _ := strings.Cut(rest, " ")
			return url
		}
	}
	require.Fail(t, "the demo has ended")
	return ""
}

// call sends a request and returns the body of the answer, which has to be a success.
func call(t *testing.T, method, url, body string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Less(t, response.StatusCode, 300, string(text))
	return string(text)
}

// browser is a tab of Chromium with a proxy that can lose all connections.
type browser struct {
	t     *testing.T
	ctx   context.Context //nolint:containedctx // chromedp keeps the tab in it
	proxy *httptest.Server
	down  atomic.Bool
}

func openBrowser(t *testing.T) *browser {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	require.NoError(t, err, "the test needs Debian's package chromium")
	b := &browser{t: t}
	forward := &httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0)}
	b.proxy = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b.down.Load() {
			panic(http.ErrAbortHandler)
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(b.proxy.Close)
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium),
		chromedp.NoSandbox, chromedp.WindowSize(1280, 760), chromedp.ProxyServer(b.proxy.URL), chromedp.Flag("proxy-bypass-list", "<-loopback>"))...)
	t.Cleanup(cancel)
	b.ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	require.NoError(t, chromedp.Do(b.ctx)) // starts it
	return b
}

func (b *browser) disconnect() {
	b.down.Store(true)
	b.proxy.CloseClientConnections()
}

func (b *browser) connect() { b.down.Store(false) }

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, steps...))
}

// section is the selector of a user's inbox.
func section(user string) string { return fmt.Sprintf("section[data-user=%q]", user) }

func (b *browser) click(user, what string) {
	b.t.Helper()
	b.do(chromedp.Click(section(user) + " " + what))
}

// until waits until a condition in JavaScript holds for i, the inbox of a user.
func (b *browser) until(user, condition string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	find := fmt.Sprintf("document.querySelector(`%s`)", section(user))
	_, err := chromedp.Run(ctx, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`new Promise((done) => {
		const i = %s;
		const look = () => { if (%s) done(); };
		new MutationObserver(look).observe(i, { subtree: true, childList: true, attributes: true, characterData: true });
		look();
	})`, find, condition), chromedp.EvalAwaitPromise))
	if err != nil {
		text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string](find+".innerText"))
		require.NoError(b.t, err, "%s: %s\n%s", user, condition, text)
	}
}

func (b *browser) state(user, state string) {
	b.t.Helper()
	b.until(user, fmt.Sprintf("i.dataset.state === '%s'", state))
}

// newest waits until the newest message has a body.
func (b *browser) newest(user, body string) {
	b.t.Helper()
	b.until(user, fmt.Sprintf("i.querySelector('li span')?.textContent === '%s'", body))
}

// inbox waits until an inbox has so many messages, and both its list and its badge so many unread ones.
func (b *browser) inbox(user string, messages, unread int) {
	b.t.Helper()
	b.until(user, fmt.Sprintf("i.querySelectorAll('li').length === %d && i.querySelectorAll('li.unread').length === %[2]d && "+
		"i.querySelector('.badge').textContent === '%[2]d'", messages, unread))
}

// watchStates returns a function that returns the states that an inbox has left since.
func (b *browser) watchStates(user string) func() []string {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("window.left = []; new MutationObserver((all) => left.push(...all.map((r) => r.oldValue)))"+
		".observe(document.querySelector(`%s`), { attributeFilter: ['data-state'], attributeOldValue: true })", section(user))))
	return func() []string {
		b.t.Helper()
		all, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string]("[...new Set(left)].filter((s) => s !== 'live')"))
		require.NoError(b.t, err)
		return all
	}
}

func (b *browser) screenshot() []byte {
	b.t.Helper()
	shot, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	require.NoError(b.t, err)
	return shot
}
