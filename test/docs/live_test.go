//go:build hosttools

package docs_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// follower runs live.mjs with the inbox of its first argument. Every token is another one. It prints what live shows, and the error that ends it.
const follower = `const { live } = await import(process.argv[1]);
let tokens = 0;
const show = (messages, { unseen }) => console.log(unseen, messages.map(({ id, read }) => id + (read ? "r" : "")).join());
await live(process.argv[2], async () => "t" + ++tokens, show, 1500).catch((error) => console.log(error.message));`

// The live inbox in JavaScript gets a new token, waits as long as it is asked to, leaves a silent connection, and holds what its frames and pages say.
func TestLiveInJavaScript(t *testing.T) {
	t.Parallel()
	const text = `"messages":[{"id":"%s","read":false}],"unseen":%d,"version":[%d],"cursor":"%s"`
	frame := func(format string, args ...any) string {
		return "event: frame\nid: c\ndata: {" + fmt.Sprintf(format, args...) + "}\n\n"
	}
	status := func(code int, after string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", after)
			w.WriteHeader(code)
		}
	}
	silent := func(stream string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for i := range stream { // a character may arrive in parts
				_, _ = w.Write([]byte{stream[i]})
			}
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}
	page := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, body) }
	}
	script := []struct {
		request string // its token, path and position
		answer  http.HandlerFunc
	}{
		{"t1 /events ", status(401, "")},
		{"t2 /events ", status(429, "1")},
		{"t2 /events ", status(503, "1")},
		{"t2 /events ", silent(": hello\nretry: 10\n\n" + frame(text+`,"reset":true`, "b", 1, 1, "c1") + "event: weather\ndata: rain\n\n: heartbeat\n\n" +
			frame(text, "d", 2, 2, "c2") + frame(text+`,"flags":[{"id":"b","read":true,"archived":false},{"id":"a","read":true,"archived":false}]`, "c", 1, 3, "c3") +
			frame(`"gone":["d"],"unseen":0,"version":[4],"cursor":"c4"`) +
			frame(`"flags":[{"id":"c","read":true,"archived":true}],"unseen":0,"version":[5],"cursor":"c5"`))},
		{"t2 /events c5", silent(frame(`"older":true,"unseen":0,"version":[6],"cursor":"c6"`) + frame(`"expired_up_to":"b","unseen":0,"version":[6],"cursor":"c7"`))},
		{"t2 ?limit=50 ", page(`{"messages":[],"version":[5]}`)}, // of a moment before the frame
		{"t2 ?limit=50 ", page(`{"messages":[{"id":"e","read":true},{"id":"b","read":false}],"version":[7]}`)},
		{"t2 /events c7", page(frame(`"flags":[{"id":"f","read":false,"archived":false}],"unseen":1,"version":[8],"cursor":"c8"`))},
		{"t2 ?limit=50 ", page(`{"messages":[{"id":"f","read":false},{"id":"e","read":true}],"version":[8]}`)},
		{"t2 /events c8", page(frame(`"messages":[{"id":"g"}],"reset":true,"unseen":9,"version":[1],"cursor":"d1"`))},
		{"t2 /events d1", status(403, "")},
	}
	var times []time.Time
	var got, want []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, path := r.Header.Get("Authorization")[len("Bearer "):], r.URL.String()[len("/inbox"):]
		times, got = append(times, time.Now()), append(got, token+" "+path+" "+r.Header.Get("Last-Event-ID"))
		script[min(len(got), len(script))-1].answer(w, r)
	}))
	t.Cleanup(server.Close)
	for _, step := range script {
		want = append(want, step.request)
	}
	live, err := filepath.Abs(filepath.Join(root, "docs/examples/javascript/live.mjs"))
	require.NoError(t, err)
	node := exec.CommandContext(t.Context(), "node", "--input-type=module", "--eval", follower, "file://"+(&url.URL{Path: live}).String(), server.URL+"/inbox")
	out, err := node.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "1 b\n2 d,b\n1 d,c,br\n0 c,br\n0 br\n0 er,b\n0 er\n1 f,er\n9 g\n"+server.URL+"/inbox: 403\n", string(out))
	require.Equal(t, want, got)
	require.GreaterOrEqual(t, times[2].Sub(times[1]), 900*time.Millisecond)
	require.GreaterOrEqual(t, times[3].Sub(times[2]), 900*time.Millisecond)
	require.GreaterOrEqual(t, times[4].Sub(times[3]), 1500*time.Millisecond, "silence")
}
