//go:build long && hosttools

package security_test

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/test/testenv"
)

// request is one that is protected. ID stands for the message that ann has published to bob, NOW for the time.
type request struct {
	method, target, body string
	// right is the name of the token that may, another that of one that is valid and may not.
	right, another string
	// refused is how the other one's is refused.
	refused int
}

var requests = []request{
	{"POST", "/v1/messages", `{"from":"ann","to":["bob"],"body":"x"}`, "ANN", "DEE", 403},
	{"POST", "/v1/messages:batch", `{"from":"ann","to":["bob"],"body":"x"}`, "ANN", "BOB", 403},
	{"GET", "/v1/messages/ID", "", "BOB", "CY", 404},
	{"PUT", "/v1/users/bob/following/ann", "", "BOB", "CY", 403},
	{"DELETE", "/v1/users/bob/following/ann", "", "BOB", "CY", 403},
	{"POST", "/v1/following:batch", `{"follower":"bob","followee":"ann"}`, "BOB", "ANN", 403},
	{"GET", "/v1/users/bob/followers", "", "BOB", "CY", 403},
	{"GET", "/v1/users/bob/following", "", "BOB", "CY", 403},
	{"POST", "/v1/users/bob/login", "", "BOB", "CY", 403},
	{"GET", "/v1/users/bob", "", "BOB", "CY", 403},
	{"GET", "/v1/users/bob/inbox", "", "BOB", "CY", 403},
	{"POST", "/v1/users/bob/inbox/read", `{"up_to":"ID"}`, "BOB", "CY", 403},
	{"POST", "/v1/users/bob/inbox:purge", `{"until":"2001-01-01T00:00:00Z"}`, "BOB", "CY", 403},
	{"DELETE", "/v1/users/bob/inbox/ID", "", "BOB", "CY", 403},
	{"PUT", "/v1/users/bob", `{"last_viewed":"NOW"}`, "OPERATOR", "BOB", 403},
	{"POST", "/v1/users:batch", `{"user":"bob","last_viewed":"NOW"}`, "OPERATOR", "BOB", 403},
	{"PUT", "/v1/users/bob/retention", `{"max_age":"30d"}`, "OPERATOR", "BOB", 403},
	{"GET", "/v1/admin/explain?user=bob&message=ID", "", "OPERATOR", "BOB", 403},
	{"POST", "/v1/admin/audit", `{"user":"bob"}`, "OPERATOR", "BOB", 403},
	{"GET", "/v1/admin/dlq", "", "OPERATOR", "BOB", 403},
	{"POST", "/v1/admin/audit", `{"user":"bob"}`, "OPERATOR", "VIEWER", 403},
	{"GET", "/v1/users/bob/inbox", "", "BOB", "VIEWER", 403},
	{"GET", "/v1/admin/processes", "", "VIEWER", "BOB", 403},
	{"GET", "/metrics", "", "WATCHER", "BOB", 403},
}

// TestTranscript sends each kind of protected request by curl: without a token, with a wrong one, an expired one, another user's,
// and the right one. With -v it prints what one would see in a terminal.
func TestTranscript(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	i := newIssuer(t)
	site := testenv.NewSite(t, i.settings(map[string]string{"operator": "scopes: [admin]", "watcher": "scopes: [metrics]", "viewer": "scopes: [operate]"}))
	server := site.Start(ctx, t, fanmail)
	tokens := map[string]string{
		"ANN": i.token("ann", "publish", time.Hour), "DEE": i.token("dee", "publish read", time.Hour),
		"BOB": i.token("bob", "read", time.Hour), "CY": i.token("cy", "read", time.Hour),
		"EXPIRED": i.token("bob", "publish read admin metrics", -time.Minute, "*"), "WRONG": opaqueToken("nobody"),
		"OPERATOR": opaqueToken("operator"), "WATCHER": opaqueToken("watcher"), "VIEWER": opaqueToken("viewer"),
	}
	id := publish(ctx, t, site.URL(), tokens["ANN"])
	transcript := &transcript{t: t, url: site.URL(), id: id, tokens: tokens}
	for _, r := range requests {
		transcript.expect(ctx, r, "", 401)
		transcript.expect(ctx, r, "WRONG", 401)
		transcript.expect(ctx, r, "EXPIRED", 401)
		transcript.expect(ctx, r, r.another, r.refused)
		transcript.expect(ctx, r, r.right, 200)
	}
	t.Log(transcript.text.String())
	for name, token := range tokens {
		require.NotContains(t, server.Stderr(), token, "the token of %s is in the log", name)
	}
	server.Stop(ctx)
}

// publish publishes a message from ann to bob, waits until he has it, and returns its id.
func publish(ctx context.Context, t *testing.T, url, token string) string {
	t.Helper()
	published := testenv.Exec(ctx, t, map[string]string{"token": token}, fanmail,
		"publish", "--server", url, "--from", "ann", "--to", "bob", "--body", "x", "--wait", "--json")
	require.Zero(t, published.Code(ctx), published.Stderr())
	found := regexp.MustCompile(`"id":\s*"([0-9a-f-]{36})"`).FindStringSubmatch(published.Stdout())
	require.Len(t, found, 2, published.Stdout())
	return found[1]
}

// transcript is what one would see in a terminal.
type transcript struct {
	t       *testing.T
	url, id string
	tokens  map[string]string
	text    strings.Builder
}

// expect sends a request with a token, and requires that it is answered with a status: 200 stands for any success.
func (s *transcript) expect(ctx context.Context, r request, token string, status int) {
	s.t.Helper()
	fill := strings.NewReplacer("ID", s.id, "NOW", time.Now().UTC().Format(time.RFC3339Nano))
	target, body := fill.Replace(r.target), fill.Replace(r.body)
	args, shown := []string{"-sS", "-i", "-X", r.method, s.url + target}, fmt.Sprintf("curl -i -X %s '%s'", r.method, s.url+target)
	if body != "" {
		args, shown = append(args, "--json", body), shown+fmt.Sprintf(" --json '%s'", body)
	}
	if token != "" {
		args, shown = append(args, "-H", "Authorization: Bearer "+s.tokens[token]), shown+fmt.Sprintf(` -H "Authorization: Bearer $%s"`, token)
	}
	out, err := exec.CommandContext(ctx, "curl", args...).CombinedOutput()
	require.NoError(s.t, err, "%s", out)
	fmt.Fprintf(&s.text, "\n$ %s\n%s", shown, shorter(string(out)))
	var got int
	_, err = fmt.Sscanf(string(out), "HTTP/1.1 %d", &got)
	require.NoError(s.t, err, "%s", out)
	if status == 200 && got/100 == 2 {
		return
	}
	require.Equal(s.t, status, got, "%s\n%s", shown, out)
	require.Contains(s.t, string(out), client.ContentProblem)
	require.Equal(s.t, status == 401, strings.Contains(string(out), "Www-Authenticate: Bearer realm=\"fanmail\"\r\n") || strings.Contains(string(out), "invalid_token"))
}

// shorter returns what matters of an answer: the status, who may ask, and the beginning of the body.
func shorter(answer string) string {
	const most = 400
	head, body, _ := strings.Cut(answer, "\r\n\r\n")
	var kept strings.Builder
	for n, line := range strings.Split(head, "\r\n") {
		if name, _, _ := strings.Cut(line, ":"); n == 0 || name == "Www-Authenticate" || name == "Retry-After" {
			kept.WriteString(line + "\n")
		}
	}
	if len(body) > most {
		body = body[:most] + "…\n"
	}
	return kept.String() + body
}

// TestOthersAreRefused starts servers that others could reach.
func TestOthersAreRefused(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "example.com:0"} {
		refused := testenv.Exec(ctx, t, nil, fanmail, "serve", "--addr", addr)
		require.Equal(t, 2, refused.Code(ctx), addr)
		require.Contains(t, refused.Stderr(), "which others can reach, and there is no authentication: listen on a loopback address")
		t.Logf("\n$ fanmail serve --addr %s; echo $?\n%s2", addr, refused.Stderr())
	}
	for name, start := range map[string]struct {
		settings map[string]string
		warning  string
	}{
		"insecure":       {map[string]string{"insecure": "true"}, "insecure: every client that reaches this server may read every inbox and publish as any user"},
		"authentication": {newIssuer(t).settings(nil), "tokens and messages are not encrypted here"},
	} {
		site := testenv.NewSite(t, start.settings)
		site.Addr = strings.Replace(site.Addr, "127.0.0.1", "0.0.0.0", 1)
		process := testenv.Exec(ctx, t, map[string]string{"log.format": "json", "data": site.Data, "addr": site.Addr}, fanmail, arguments(start.settings)...)
		testenv.Eventually(ctx, t, name+" is ready", func() bool { return strings.Contains(process.Stderr(), "fanmail is ready") })
		require.Contains(t, process.Stderr(), start.warning)
		process.Terminate()
		require.Zero(t, process.Code(ctx))
	}
}

// arguments returns the command line that serves with settings.
func arguments(settings map[string]string) []string {
	args := []string{"serve"}
	for key, value := range settings {
		args = append(args, "--"+strings.NewReplacer(".", "-", "_", "-").Replace(key)+"="+value)
	}
	return args
}
