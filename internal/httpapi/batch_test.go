package httpapi_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/httpapi"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// serve runs the handler on a real server, and returns its URL.
func (w *world) serve(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(w.handler)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		server.Close()
	})
	return server.URL
}

// postBatch sends a batch of messages to a server. It returns the body of the answer as soon as the answer begins.
func postBatch(t *testing.T, url string, body io.Reader) (io.Reader, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/messages:batch", body)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, client.ContentNDJSON, answer.Header.Get("Content-Type"))
	return answer.Body, nil
}

func answerLines(t *testing.T, body string) []client.AnswerLine {
	t.Helper()
	var answers []client.AnswerLine
	for line := range strings.Lines(body) {
		var a client.AnswerLine
		require.NoError(t, json.Unmarshal([]byte(line), &a), line)
		require.NotEqual(t, a.Receipt == nil, a.Error == nil, "either a receipt or an error: %s", line)
		answers = append(answers, a)
	}
	return answers
}

func TestBatchOfTenThousandIsAnsweredInOrder(t *testing.T) {
	t.Parallel()
	const count = 10_000
	w := newWorld(t, settings{})
	var body strings.Builder
	for n := range count {
		if n%1000 == 7 {
			body.WriteString("{\"from\":\n")
			continue
		}
		fmt.Fprintf(&body, `{"from":"sender-%d","to":["bob"],"body":"%s"}`+"\n", n, strings.Repeat("x", 50))
	}
	answer, err := postBatch(t, w.serve(t), strings.NewReader(body.String()))
	require.NoError(t, err)
	text, err := io.ReadAll(answer)
	require.NoError(t, err)
	answers := answerLines(t, string(text))
	require.Len(t, answers, count)
	var last message.ID
	for n, a := range answers {
		if n%1000 == 7 {
			require.NotNil(t, a.Error)
			require.Equal(t, n+1, a.Line)
			continue
		}
		require.NotNil(t, a.Receipt)
		require.Equal(t, message.UserID(fmt.Sprintf("sender-%d", n)), a.From)
		require.True(t, last.Less(a.ID), "ids rise in the order of lines")
		last = a.ID
	}
	require.Equal(t, count-10, w.bus.count())
}

func TestBatchIsAnsweredWhileItIsSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	url := w.serve(t)
	body, send := io.Pipe()
	write := func(line string) {
		_, err := io.WriteString(send, line)
		require.NoError(t, err)
	}
	go write(draft(`"body":"0"`) + "\n")
	answer, err := postBatch(t, url, body)
	require.NoError(t, err)
	answers := bufio.NewReader(answer)
	for n := range 5 {
		line, err := answers.ReadString('\n')
		require.NoError(t, err)
		require.Len(t, answerLines(t, line), 1)
		require.Equal(t, n+1, w.bus.count(), "the answer to a line comes before the next is sent")
		if n < 4 {
			write(draft(`"body":"x"`) + "\n")
		}
	}
	require.NoError(t, send.Close())
	_, err = answers.ReadString('\n')
	require.ErrorIs(t, err, io.EOF)
}

func TestBatchThatBreaksOff(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	for _, tc := range []struct{ name, target, line, part string }{
		{"messages", "/v1/messages:batch", draft(`"body":"x"`), `{"from":"ann","to":["bob"]`},
		{"following", "/v1/following:batch", `{"follower":"bob","followee":"ann"}`, `{"follower":"bob","followee":"a"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, settings{})
			body := io.MultiReader(strings.NewReader(tc.line+"\n"+tc.line+"\n"+tc.part), &brokenReader{broken})
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, tc.target, body)
			answer := httptest.NewRecorder()
			w.handler.ServeHTTP(answer, r)
			if tc.name == "messages" {
				answers := answerLines(t, answer.Body.String())
				require.Len(t, answers, 3)
				require.Equal(t, 3, answers[2].Line)
				require.Equal(t, client.ProblemMalformed, answers[2].Error.Type)
				require.Len(t, w.contents(t).Unfinished, 2, "what was taken stays, what was cut off is not taken")
				return
			}
			require.Equal(t, http.StatusBadRequest, answer.Code)
			require.Equal(t, 3, problem(t, answer).Line)
			require.Equal(t, 1, w.contents(t, "bob").Following["bob"])
		})
	}
}

type brokenReader struct{ err error }

func (r *brokenReader) Read([]byte) (int, error) { return 0, r.err }

func TestBatchGivesUpOnASilentClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{options: func(o *httpapi.Options) { o.IdleTimeout = time.Millisecond }})
	// The client writes to the connection itself: that of net/http waits for the end of its body, even after the server has hung up.
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(w.serve(t), "http://"))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	line := draft(`"body":"x"`) + "\n"
	_, err = fmt.Fprintf(conn, "POST /v1/messages:batch HTTP/1.1\r\nHost: fanmail\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(line), line)
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil) // the client sends nothing more and does not end the batch
	if err == nil {
		defer func() { _ = answer.Body.Close() }()
		require.Equal(t, http.StatusOK, answer.StatusCode)
		_, err = io.ReadAll(answer.Body)
	}
	require.Error(t, err, "an answer that was cut off does not look whole")
	require.LessOrEqual(t, w.bus.count(), 1)
}

func TestBatchLimits(t *testing.T) {
	t.Parallel()
	limit := func(o *httpapi.Options) { o.BatchLines = 3 }
	line := draft(`"body":"x"`) + "\n"
	edge := `{"follower":"bob","followee":"ann"}` + "\n"

	t.Run("as many lines as allowed", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, settings{options: limit})
		answers := answerLines(t, w.must(t, http.StatusOK, http.MethodPost, "/v1/messages:batch", strings.Repeat(line, 3)))
		require.Len(t, answers, 3)
		require.Nil(t, answers[2].Error)
	})
	t.Run("a line too many in a batch of messages", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, settings{options: limit})
		answers := answerLines(t, w.must(t, http.StatusOK, http.MethodPost, "/v1/messages:batch", strings.Repeat(line, 5)))
		require.Len(t, answers, 4)
		require.Equal(t, client.ProblemTooLarge, answers[3].Error.Type)
		require.Equal(t, 4, answers[3].Line)
		require.Len(t, w.contents(t).Unfinished, 3)
	})
	t.Run("a line too many in a batch of edges", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, settings{options: limit})
		answer := w.ask(t, http.MethodPost, "/v1/following:batch", strings.Repeat(edge, 5))
		require.Equal(t, http.StatusRequestEntityTooLarge, answer.Code)
		require.Equal(t, 4, problem(t, answer).Line)
	})
	t.Run("a line that is too long", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, settings{options: func(o *httpapi.Options) { o.Limits = message.Limits{BodyBytes: 10, AttrsBytes: 10, Recipients: 1} }})
		long := draft(`"body":"`+strings.Repeat("x", 200_000)+`"`) + "\n"
		answers := answerLines(t, w.must(t, http.StatusOK, http.MethodPost, "/v1/messages:batch", line+long+"\n"+line))
		require.Len(t, answers, 3)
		require.Nil(t, answers[0].Error)
		require.Equal(t, client.ProblemTooLarge, answers[1].Error.Type)
		require.Equal(t, 2, answers[1].Line)
		require.Nil(t, answers[2].Error)
	})
	t.Run("nothing", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, settings{})
		require.Empty(t, w.must(t, http.StatusOK, http.MethodPost, "/v1/messages:batch", ""))
		require.JSONEq(t, `{"accepted":0,"rejected":[]}`, w.must(t, http.StatusOK, http.MethodPost, "/v1/following:batch", "\n\n"))
	})
}

func TestBatchWithAnIdempotencyKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	batch := draft(`"body":"one"`) + "\n\n" + draft(`"body":"two"`)
	first := w.must(t, http.StatusOK, http.MethodPost, "/v1/messages:batch", batch, client.IdempotencyKeyHeader, "import")
	again := w.must(t, http.StatusOK, http.MethodPost, "/v1/messages:batch", batch, client.IdempotencyKeyHeader, "import")
	require.Equal(t, first, again)
	require.Len(t, w.contents(t).Unfinished, 2)
	single := w.must(t, http.StatusAccepted, http.MethodPost, "/v1/messages", draft(`"body":"two"`), client.IdempotencyKeyHeader, "import#3")
	require.NotContains(t, first, strings.TrimSpace(single), "the key of a line is that of no single message")
}

// Some editors write a byte order mark in front of a file. Anywhere else it is an error.
func TestByteOrderMark(t *testing.T) {
	t.Parallel()
	url := newWorld(t, settings{}).serve(t)
	for body, status := range map[string]int{"\ufeff" + draft(`"body":"one"`): http.StatusAccepted, "\ufeff\ufeff" + draft(`"body":"one"`): http.StatusBadRequest} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/messages", strings.NewReader(body))
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, status, answer.StatusCode, body)
	}
	answer, err := postBatch(t, url, strings.NewReader("\ufeff"+draft(`"body":"one"`)+"\n\ufeff"+draft(`"body":"two"`)))
	require.NoError(t, err)
	text, err := io.ReadAll(answer)
	require.NoError(t, err)
	lines := answerLines(t, string(text))
	require.Nil(t, lines[0].Error)
	require.NotNil(t, lines[1].Error)
}

func TestBatchesOfEdgesAndUsers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	var edges, users strings.Builder
	for n := range 2500 {
		fmt.Fprintf(&edges, `{"follower":"fan-%04d","followee":"star"}`+"\n", n)
		fmt.Fprintf(&users, `{"user":"fan-%04d","last_viewed":"2026-01-02T04:04:05+01:00"}`+"\n", n%1500)
	}
	require.JSONEq(t, `{"accepted":2500,"rejected":[]}`, w.must(t, http.StatusOK, http.MethodPost, "/v1/following:batch", edges.String()))
	require.JSONEq(t, `{"accepted":2500,"rejected":[]}`, w.must(t, http.StatusOK, http.MethodPost, "/v1/users:batch", users.String()))
	got := map[message.UserID]bool{}
	target := "/v1/users/star/followers?limit=200"
	for next := ""; ; {
		var page client.UserPage
		require.NoError(t, json.Unmarshal([]byte(w.must(t, http.StatusOK, http.MethodGet, target+next, "")), &page))
		for _, user := range page.Users {
			require.False(t, got[user], "%s is listed twice", user)
			got[user] = true
		}
		if page.Next == "" {
			break
		}
		next = "&after=" + string(page.Next)
	}
	require.Len(t, got, 2500)
	require.JSONEq(t, `{"user":"fan-0000","state":"active","last_viewed":"2026-01-02T03:04:05.000Z","total":0}`,
		w.must(t, http.StatusOK, http.MethodGet, "/v1/users/fan-0000", ""))
}
