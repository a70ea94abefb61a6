//go:build long

package e2e_test

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/testenv"
)

// nginx returns the path of nginx. Without one, it unpacks that of Debian, which is not installed.
func nginx(ctx context.Context, t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("nginx"); err == nil {
		return path
	}
	dir := t.TempDir()
	unpack := exec.CommandContext(ctx, "sh", "-ec", "{ apt-get download nginx || { apt-get update && apt-get download nginx; }; } && dpkg-deb --extract ./*.deb .")
	unpack.Dir = dir
	out, err := unpack.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return filepath.Join(dir, "usr", "sbin", "nginx")
}

// TestStreamThroughNginx follows an inbox through nginx, with the configuration in deploy/. A message that arrives after 70 s of silence, longer than
// the time-out of most proxies, is in the same stream.
func TestStreamThroughNginx(t *testing.T) {
	t.Parallel()
	const silence = 70 * time.Second
	ctx := bounded(t, 3*time.Minute)
	w := newWorld(ctx, t, embedded, impatient(nil))
	server := w.site.Start(ctx, t, programs.Fanmail)
	c := w.client()
	require.NoError(t, c.SetSeen(ctx, "ben", time.Now()))

	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "examples", "nginx", "fanmail.conf"))
	require.NoError(t, err)
	listen := "127.0.0.1:" + testenv.FreePort(t)
	conf := regexp.MustCompile(`(?m)^ +ssl_.*\n`).ReplaceAllString(string(text), "")
	conf = regexp.MustCompile(`listen 443 ssl http2`).ReplaceAllString(conf, "listen "+listen)
	conf = regexp.MustCompile(`server 127\.0\.0\.1:\d+`).ReplaceAllString(conf, "server "+w.site.Addr)
	conf += strings.ReplaceAll("client_body_temp_path %/1; proxy_temp_path %/2; fastcgi_temp_path %/3; uwsgi_temp_path %/4; scgi_temp_path %/5;", "%", w.dir)
	path := filepath.Join(w.dir, "nginx.conf")
	w.write(path, "daemon off;\nmaster_process off;\nerror_log stderr;\npid "+w.dir+"/nginx.pid;\nevents {}\nhttp {\naccess_log off;\n"+conf+"}\n")
	proxy := testenv.Exec(ctx, t, nil, nginx(ctx, t), "-e", "stderr", "-p", w.dir, "-c", path)

	streams := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(streams.CloseIdleConnections)
	f := &follower{site: "http://" + listen, user: "ben", http: streams, pages: c}
	ended := make(chan error, 1)
	following, leave := context.WithCancel(ctx)
	defer leave()
	go func() {
		for f.shown().cursor == "" && following.Err() == nil {
			f.note(f.listen(following, time.Hour)) // nginx starts
		}
		ended <- f.trouble
	}()
	testenv.Eventually(ctx, t, "the stream is open", func() bool {
		require.True(t, proxy.Running(), proxy.Stderr())
		return f.shown().cursor != ""
	})
	select {
	case err := <-ended:
		require.Fail(t, "the stream has ended", "%v", err)
	case <-time.After(silence):
	}
	receipt, err := c.Publish(ctx, message.Draft{From: "ann", To: []message.UserID{"ben"}, Body: "late"}, "")
	require.NoError(t, err)
	testenv.Eventually(ctx, t, "the message arrives", func() bool { return len(f.shown().held) == 1 })
	require.Contains(t, f.shown().held, receipt.ID)
	require.Empty(t, ended, "it is the same stream")
	leave()
	t.Log("the client has left:", <-ended)
	proxy.Terminate()
	proxy.Code(ctx)
	server.Stop(ctx)
}
