//go:build long

package security_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/telemetry/telemetrytest"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/testenv"
)

// startForStreams starts a server that knows two JSON Web Tokens, and opaque ones.
func startForStreams(t *testing.T, change func(*config.Config)) (s *hostileServer, i *issuer) {
	t.Helper()
	i = newIssuer(t)
	s = &hostileServer{token: i.token("insider", "publish read metrics", time.Hour, "*"), log: new(telemetrytest.Buffer)}
	t.Cleanup(s.start(t, i, 20*time.Second, change))
	s.exchange(t.Context(), t, "first")
	return s, i
}

// ask sends a request. The test closes the answer when it ends.
func (s *hostileServer) ask(ctx context.Context, t *testing.T, method, path, token string, headers ...string) (status int, header http.Header, body io.Reader) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, http.NoBody)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	once := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := once.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer.StatusCode, answer.Header, answer.Body
}

// frame asks once for a frame.
func (s *hostileServer) frame(ctx context.Context, t *testing.T, user, cursor, token string) (status int, f client.Frame) {
	t.Helper()
	status, _, body := s.ask(ctx, t, http.MethodGet, "/v1/users/"+user+"/inbox/changes?cursor="+cursor, token)
	text, err := io.ReadAll(body)
	require.NoError(t, err)
	if status == http.StatusOK {
		require.NoError(t, json.Unmarshal(text, &f))
	}
	return status, f
}

// forged returns a cursor with another number at a place, and with a valid checksum.
func forged(t *testing.T, owner, cursor string, place int, n uint64) string {
	t.Helper()
	const checksum = 8
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	require.NoError(t, err)
	b = b[:len(b)-checksum]
	binary.BigEndian.PutUint64(b[place:], n)
	sum := sha256.Sum256(slices.Concat(b, []byte(owner)))
	return base64.RawURLEncoding.EncodeToString(append(b, sum[:checksum]...))
}

// TestForgedCursors sends cursors that the server has not given to their sender. None shows what is not the sender's.
func TestForgedCursors(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, i := startForStreams(t, nil)
	status, own := s.frame(ctx, t, "insider", "", s.token)
	require.Equal(t, http.StatusOK, status)
	require.True(t, own.Reset)
	_, others := s.frame(ctx, t, "other", "", i.token("other", "read", time.Hour))
	for _, cursor := range []string{others.Cursor, "x", "%00", strings.Repeat("A", len(own.Cursor)), own.Cursor[1:], own.Cursor + "%0A", strings.Repeat("A", 10_000)} {
		status, _ = s.frame(ctx, t, "insider", cursor, s.token)
		require.Equal(t, http.StatusUnprocessableEntity, status, cursor)
	}
	status, _ = s.frame(ctx, t, "other", others.Cursor, s.token)
	require.Equal(t, http.StatusForbidden, status)
	status, _, _ = s.ask(ctx, t, http.MethodGet, "/v1/users/other/inbox/events", s.token)
	require.Equal(t, http.StatusForbidden, status)

	const numbers, deletions = 8, 4 // after the version: the epoch, two hashes, and five that rise; that of deletions may be misread
	for n := range numbers {
		for _, value := range []uint64{0, 1 << 40, math.MaxInt64, 1 << 63, math.MaxUint64} {
			cursor := forged(t, "insider", own.Cursor, 1+8*n, value)
			status, f := s.frame(ctx, t, "insider", cursor, s.token)
			require.Equal(t, http.StatusOK, status, "number %d is %d", n, value)
			if ahead := n >= 3 && n != deletions && int64(value) > 1; ahead || n == 0 {
				require.True(t, f.Reset, "number %d is %d", n, value)
			}
			require.Equal(t, own.Tally, f.Tally)
			for _, m := range f.Messages {
				require.Equal(t, "first", m.Body)
			}
			again, _ := s.frame(ctx, t, "insider", f.Cursor, s.token)
			require.Equal(t, http.StatusOK, again)
		}
	}
}

// TestHostileStreams opens more streams than allowed, sends a huge header, and reads slowly. Others are served meanwhile.
func TestHostileStreams(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	s, i := startForStreams(t, func(c *config.Config) {
		c.Limits.Body, c.Stream.PerUser, c.Stream.Max, c.Stream.WriteTimeout = 64*config.KiB, 2, 3, 2*time.Second
	})
	const events = "/v1/users/insider/inbox/events"
	status := make(map[int]int)
	huge := "GET " + events + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + s.token + "\r\nLast-Event-ID: " + strings.Repeat("A", 1_000_000) + "\r\n\r\n"
	status[attempt{text: huge}.send(ctx, s.addr)]++
	require.Equal(t, 1, status[http.StatusRequestHeaderFieldsTooLarge]+status[silence], "%v", status)

	// It is given more than the buffers of a connection take, and reads a byte a second.
	_, before := s.frame(ctx, t, "insider", "", s.token)
	c, err := client.New(s.url, client.Options{Token: func(context.Context) (string, error) { return s.token, nil }})
	require.NoError(t, err)
	defer c.Close()
	var last message.ID
	for range 250 {
		receipt, err := c.Publish(ctx, message.Draft{From: "ann", To: []message.UserID{"insider", "other"}, Body: strings.Repeat("x", 60_000)}, "")
		require.NoError(t, err)
		last = receipt.ID
	}
	_, err = c.WaitDone(ctx, last, 0)
	require.NoError(t, err)
	slow, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.addr)
	require.NoError(t, err)
	defer func() { _ = slow.Close() }()
	require.NoError(t, slow.(*net.TCPConn).SetReadBuffer(4096))
	_, err = io.WriteString(slow, "GET "+events+"?cursor="+before.Cursor+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+s.token+"\r\n\r\n")
	require.NoError(t, err)
	second := time.NewTicker(time.Second)
	defer second.Stop()
	testenv.Eventually(ctx, t, "the slow client is cut", func() bool {
		select {
		case <-second.C:
			_, err := slow.Read(make([]byte, 1))
			require.NoError(t, err)
		default:
		}
		code, _ := s.frame(ctx, t, "other", "", i.token("other", "read", time.Hour))
		require.Equal(t, http.StatusOK, code, "nobody else is slower")
		_, err := c.Inbox(ctx, "insider", client.InboxOptions{Limit: 10})
		require.NoError(t, err)
		return s.metric(ctx, t, "fanmail_streams_cut_total") == "1"
	})
	testenv.Eventually(ctx, t, "its stream has ended", func() bool { return s.metric(ctx, t, "fanmail_streams") == "0" })

	for range 2 {
		opened, _, _ := s.ask(ctx, t, http.MethodGet, events, s.token)
		require.Equal(t, http.StatusOK, opened)
	}
	refused, header, _ := s.ask(ctx, t, http.MethodGet, events, s.token)
	require.Equal(t, http.StatusTooManyRequests, refused)
	require.NotEmpty(t, header.Get("Retry-After"))
	for _, code := range []int{http.StatusOK, http.StatusServiceUnavailable} {
		answered, _, _ := s.ask(ctx, t, http.MethodGet, "/v1/users/other/inbox/events", i.token("other", "read", time.Hour))
		require.Equal(t, code, answered)
	}
}

func (s *hostileServer) metric(ctx context.Context, t *testing.T, name string) string {
	t.Helper()
	_, _, body := s.ask(ctx, t, http.MethodGet, "/metrics", s.token)
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return value
		}
	}
	require.Fail(t, "there is no such metric", name)
	return ""
}

// TestOrigins is about pages of other origins in browsers. Those of an origin that is not configured learn nothing and change nothing.
func TestOrigins(t *testing.T) {
	t.Parallel()
	const listed = "https://app.example"
	s, _ := startForStreams(t, func(c *config.Config) { c.HTTP.Origins = listed })
	tests := []struct {
		method, origin string
		status         int
		more           []string
	}{
		{http.MethodOptions, listed, http.StatusNoContent, []string{"Access-Control-Request-Method", "GET"}},
		{http.MethodGet, listed, http.StatusOK, nil},
		{http.MethodPost, "https://evil.example", http.StatusForbidden, nil},
		{http.MethodPost, "https://app.example.evil.example", http.StatusForbidden, nil},
		{http.MethodPost, "http://app.example", http.StatusForbidden, nil},
		{http.MethodPost, "null", http.StatusForbidden, nil},
		{http.MethodGet, "https://evil.example", http.StatusForbidden, nil},
	}
	for _, test := range tests {
		path := "/v1/users/insider/inbox/events?peek=true"
		if test.method == http.MethodPost {
			path = "/v1/users/insider/inbox/seen"
		}
		status, header, _ := s.ask(t.Context(), t, test.method, path, s.token, append(test.more, "Origin", test.origin, "Sec-Fetch-Site", "cross-site")...)
		require.Equal(t, test.status, status, "%s of %s", test.method, test.origin)
		require.Contains(t, header.Values("Vary"), "Origin")
		if test.origin != listed {
			for name := range header {
				require.False(t, strings.HasPrefix(name, "Access-Control-"), "%s to %s", name, test.origin)
			}
			continue
		}
		require.Equal(t, listed, header.Get("Access-Control-Allow-Origin"))
		require.Equal(t, "ETag, Retry-After, X-Request-Id", header.Get("Access-Control-Expose-Headers"))
		require.Equal(t, test.method == http.MethodOptions, strings.Contains(header.Get("Access-Control-Allow-Headers"), "Last-Event-ID"))
	}
}

// TestStreamsOfEndedTokens opens streams by a token that is then revoked, by a JSON Web Token that ends, and by one that lasts.
func TestStreamsOfEndedTokens(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var file string
	s, i := startForStreams(t, func(c *config.Config) {
		settings := newIssuer(t).settings(map[string]string{"phone": "scopes: [read], user: insider"})
		file = settings["auth.tokens_file"]
		c.Auth.TokensFile = file
	})
	open := func(token string) (ended chan time.Time) {
		status, _, body := s.ask(ctx, t, http.MethodGet, "/v1/users/insider/inbox/events", token)
		require.Equal(t, http.StatusOK, status)
		ended = make(chan time.Time, 1)
		go func() {
			_, _ = io.Copy(io.Discard, body)
			ended <- time.Now()
		}()
		return ended
	}
	const valid, leeway = 5 * time.Second, 30 * time.Second
	lasts, revoked, ends := open(s.token), open(opaqueToken("phone")), open(i.token("insider", "read", valid))
	begun := time.Now()
	require.NoError(t, os.WriteFile(file, []byte("tokens: []\n"), 0o600))
	const checks, reloads, slack = 10 * time.Second, 8 * time.Second, 15 * time.Second
	require.Less(t, (<-revoked).Sub(begun), checks+reloads+slack)
	took := (<-ends).Sub(begun)
	require.Greater(t, took, valid+leeway-time.Second)
	require.Less(t, took, valid+leeway+checks+slack)
	require.Empty(t, lasts)
}
