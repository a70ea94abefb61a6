package client_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/verdict"
)

const explainedJSON = `{"user":"bob","message":"019b7ca9-8c88-7000-8000-000000000000","verdict":"dormant","sentence":"Not yet.",
	"from":"ann","sent":"2026-01-02T03:04:05.000Z","named":false,"spans":[{"since":"2026-01-01T00:00:00.000Z"}],
	"horizon":"2026-01-02T00:00:00.000Z","fanout":{"partition":3,"planned":true,"recipients":true,"passed":true,"done":true,"dead":false}}`

func TestExplain(t *testing.T) {
	t.Parallel()
	var asked string
	c := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.String()
		_, _ = io.WriteString(w, explainedJSON)
	})
	id, err := message.ParseID("019b7ca9-8c88-7000-8000-000000000000")
	require.NoError(t, err)
	got, err := c.Explain(t.Context(), "bob&co", id)
	require.NoError(t, err)
	require.Equal(t, "GET /v1/admin/explain?message=019b7ca9-8c88-7000-8000-000000000000&user=bob%26co", asked)
	require.Equal(t, verdict.Dormant, got.Verdict)
	require.Equal(t, epoch.Truncate(1e9), got.Sent.Time)
	require.Len(t, got.Spans, 1)
	require.True(t, got.Spans[0].Until.IsZero())
	require.Nil(t, got.Mark)
	require.Equal(t, &client.PartitionFanout{Partition: 3, Planned: true, Recipients: true, Passed: true, Done: true}, got.Fanout)

	asked = ""
	_, err = c.Explain(t.Context(), "a/b", id)
	require.ErrorIs(t, err, message.ErrInvalid)
	require.Empty(t, asked, "nothing is sent")
}

const (
	auditProgress = `{"progress":{"users":1,"of":2}}` + "\n"
	auditFinding  = `{"finding":{"kind":"double","user":"bob","bucket":0,"slot":3,"detail":"Twice.","repaired":true}}` + "\n"
	auditSummary  = `{"summary":{"users":2,"found":{"double":1},"repaired":{"double":1},"remaining":{}}}` + "\n"
	auditError    = `{"error":{"type":"urn:fanmail:problem:unavailable","title":"No","status":503,"detail":"not now"}}` + "\n"
)

// TestAudit checks the answers that a server can give: how many lines Audit returns, and the error at the end.
func TestAudit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		answer string
		lines  int
		err    string
	}{
		"whole":                  {answer: auditProgress + auditFinding + auditSummary, lines: 3},
		"nothing after the end":  {answer: auditSummary + auditProgress, lines: 1},
		"broken off":             {answer: auditProgress + auditFinding, lines: 2, err: "no answer from"},
		"broken off in a line":   {answer: auditProgress + auditFinding[:20], lines: 1, err: "no answer from"},
		"empty":                  {err: "no answer from"},
		"ended by an error":      {answer: auditProgress + auditError, lines: 1, err: "not now (503 Service Unavailable)"},
		"refused":                {status: 422, answer: `{"title":"No","detail":"not so"}`, err: "not so (422"},
		"not from such a server": {answer: "<html>", err: "does not answer as a Fanmail server does"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			c := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				body, _ := io.ReadAll(r.Body)
				if want := `{"user":"bob","repair":true}`; strings.TrimSpace(string(body)) != want {
					http.Error(w, fmt.Sprintf("asked for %s", body), http.StatusTeapot)
					return
				}
				if test.status != 0 {
					w.Header().Set("Content-Type", client.ContentProblem)
					w.WriteHeader(test.status)
				}
				_, _ = io.WriteString(w, test.answer)
			})
			lines := 0
			var end error
			for line, err := range c.Audit(t.Context(), client.AuditOptions{User: "bob", Repair: true}) {
				if err != nil {
					end = err
					continue
				}
				require.NoError(t, end, "no line may follow an error")
				require.Nil(t, line.Error)
				lines++
			}
			require.Equal(t, test.lines, lines)
			require.EqualValues(t, 1, requests.Load(), "an audit must not be repeated")
			if test.err == "" {
				require.NoError(t, end)
			} else {
				require.ErrorContains(t, end, test.err)
			}
		})
	}
}

// TestAuditIsLeft stops reading an endless audit after its first line.
func TestAuditIsLeft(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	c := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, auditProgress)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(ended)
	})
	for line, err := range c.Audit(t.Context(), client.AuditOptions{}) {
		require.NoError(t, err)
		require.Equal(t, &verdict.Progress{Users: 1, Of: 2}, line.Progress)
		break
	}
	<-ended
}
