package browser_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

const (
	// operator is the token of the test.
	operator = "a-token-of-an-operator-who-may-do-all"
	// audience makes a message one for the workers.
	audience = 20_000
)

// tokens returns a file with the token of the operator.
func tokens(t *testing.T) string {
	t.Helper()
	hash := sha256.Sum256([]byte(operator))
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil,
		"tokens: [{name: test, sha256: %s, scopes: [admin, publish, read], user: \"*\", senders: [\"*\"]}]\n", hex.EncodeToString(hash[:])), 0o600))
	return path
}

// startServer starts a server with authentication, and returns its URL. The end of the test stops it.
func startServer(t *testing.T) string {
	t.Helper()
	program := build(t)
	server := exec.Command(program, "serve", "--addr=127.0.0.1:0", "--data="+t.TempDir(), "--auth-tokens-file="+tokens(t), "--log-format=json") //nolint:noctx // it ends by a signal
	server.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "FANMAIL_TEST_") })                          // the server knows no such setting
	stderr, err := server.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		require.NoError(t, server.Process.Signal(syscall.SIGTERM))
		require.NoError(t, server.Wait())
	})
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), `"url":"`); ok {
			url, _, _ := strings.Cut(rest, `"`)
			go func() {
				for lines.Scan() { // until the server ends, or it would wait for a reader
				}
			}()
			return url
		}
	}
	require.Fail(t, "the server has ended")
	return ""
}

// ask sends a request to the API as the operator.
func ask(t *testing.T, method, url, content, body string) {
	t.Helper()
	_, err := answer(t.Context(), method, url, content, body)
	require.NoError(t, err)
}

// answer is ask with the answer.
func answer(ctx context.Context, method, url, content, body string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", content)
	request.Header.Set("Authorization", "Bearer "+operator)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 300 {
		err = errors.New(string(text))
	}
	return string(text), err
}

// sendUntil publishes one message after the other, each when the one before is done, until it may stop. It returns how many.
func sendUntil(ctx context.Context, url string, stop <-chan struct{}) (sent int, err error) {
	for {
		select {
		case <-stop:
			return sent, nil
		default:
		}
		receipt, err := answer(ctx, "POST", url+"/v1/messages", "application/json", `{"from":"ann","audience":"followers","body":"x"}`)
		if err != nil {
			return sent, err
		}
		_, id, _ := strings.Cut(receipt, `"id":"`)
		id, _, _ = strings.Cut(id, `"`)
		for status := ""; !strings.Contains(status, `"state":"done"`); {
			if status, err = answer(ctx, "GET", url+"/v1/messages/"+id, "application/json", ""); err != nil {
				return sent, err
			}
		}
		sent++
	}
}

// shows waits until a condition in JavaScript holds, on the page that is open.
func (b *browser) shows(condition string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	look := chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`new Promise((done) => {
		const look = () => { if (%s) done(); };
		new MutationObserver(look).observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
		look();
	})`, condition), chromedp.EvalAwaitPromise)
	_, err := chromedp.Run(ctx, look)
	for err != nil && ctx.Err() == nil && strings.Contains(err.Error(), "navigated") { // a click has left the page: the next one is looked at
		_, err = chromedp.Run(ctx, look)
	}
	if err != nil {
		text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
		require.NoError(b.t, err, "%s\n%s", condition, text)
	}
}

// value evaluates an expression on the page that is open.
func value[T any](b *browser, expression string, opts ...chromedp.EvaluateOption) T {
	b.t.Helper()
	got, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, opts...))
	require.NoError(b.t, err)
	return got
}

// logIn opens the console, which asks for a token, and gives it the operator's.
func (b *browser) logIn(console string) {
	b.t.Helper()
	b.do(chromedp.Navigate(console))
	b.shows(`document.querySelector("[name=token]")`)
	b.do(chromedp.SetValue(`[name="token"]`, operator), chromedp.Click("main button"))
	b.shows(`document.querySelector("#health")`)
}

// says waits until a part of the page has a text.
func (b *browser) says(part, text string) {
	b.t.Helper()
	b.shows(fmt.Sprintf("document.querySelector(%q)?.innerText.includes(%q)", part, text))
}

// violations returns how often the page has violated its policy. It fails the test if the page has asked another server for anything.
func (b *browser) violations() int {
	b.t.Helper()
	count, err := chromedp.Run(b.ctx, chromedp.Evaluate[int](`new Promise((done) => {
		let count = 0;
		new ReportingObserver((all) => { count += all.length; }, { types: ["csp-violation"], buffered: true }).observe();
		setTimeout(() => done(count), 200);
	})`, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err)
	foreign, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](
		`performance.getEntriesByType("resource").map((e) => e.name).filter((name) => !name.startsWith(location.origin + "/console/"))`))
	require.NoError(b.t, err)
	require.Empty(b.t, foreign)
	return count
}

func TestTheConsoleMoves(t *testing.T) {
	t.Parallel()
	url := startServer(t)
	var users, follows strings.Builder
	for n := range audience {
		fmt.Fprintf(&users, "{\"user\":\"fan-%d\",\"last_viewed\":%q}\n", n, time.Now().UTC().Format(time.RFC3339))
		fmt.Fprintf(&follows, "{\"follower\":\"fan-%d\",\"followee\":\"ann\"}\n", n)
	}
	for from := 0; from < audience; from += 10_000 { // the most lines of a batch
		part := func(text string) string { return strings.Join(strings.SplitAfter(text, "\n")[from:from+10_000], "") }
		ask(t, "POST", url+"/v1/users:batch", "application/x-ndjson", part(users.String()))
		ask(t, "POST", url+"/v1/following:batch", "application/x-ndjson", part(follows.String()))
	}

	b := openBrowser(t)
	b.logIn(url) // which leads to the console
	b.shows(`document.querySelector("#health .good") && !document.querySelector("#live").hidden`)
	b.shows(`document.querySelector("#underway").innerText.includes("No message")`)

	// The page is not loaded again: the partitions of a message move in it, until none is under way.
	b.do(chromedp.Evaluate[chromedp.Void](`window.kept = true`))
	stop, sent := make(chan struct{}), 0
	var sending sync.WaitGroup
	var failed error
	sending.Go(func() { sent, failed = sendUntil(t.Context(), url, stop) })
	b.shows(`document.querySelector("#underway .cells .done, #underway .cells .running")`)
	if shot := b.screenshot(); *update {
		require.NoError(t, os.WriteFile("../../docs/console.png", shot, 0o600))
	}
	close(stop)
	sending.Wait()
	require.NoError(t, failed)
	b.shows(`document.querySelector("#underway").innerText.includes("No message")`)
	b.shows(`window.kept && document.querySelector("#live").textContent === "live"`)
	require.Zero(t, b.violations())

	b.do(chromedp.Navigate(url + "/console/messages?state=done"))
	b.shows(`document.querySelectorAll("#messages tbody tr").length === ` + strconv.Itoa(min(sent, 200)))
	b.do(chromedp.Click("#messages tbody a"))
	b.shows(`document.querySelector("#message")?.innerText.includes("20,000 delivered")`)
	for _, path := range []string{"why", "dead-letters", "dormancy", "users/fan-1/inbox"} {
		b.do(chromedp.Navigate(url + "/console/" + path))
		b.shows(`document.querySelector("main h1")`)
		require.Zero(t, b.violations(), path)
	}

	b.do(chromedp.Evaluate[chromedp.Void](`document.body.insertAdjacentHTML("beforeend", '<p style="color: red">x</p>')`))
	require.Equal(t, 1, b.violations(), "a violation would have been noticed")
}
