package cli_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/verdict"
)

// TestExplainAndAudit explains and audits deliveries of a real server.
func TestExplainAndAudit(t *testing.T) {
	t.Parallel()
	url := serve(t)
	server := []string{"--server", url}
	ask := func(args ...string) string { return fanmail(t, append(args, server...)...) }
	now := time.Now().UTC().Format(time.RFC3339)
	ask("import", "users", file(t, "users", `{"user":"ben","last_viewed":"`+now+`"}`+"\n"))
	ask("import", "follows", file(t, "follows", "ben\tann\n"))
	id := fromJSON[struct {
		client.Receipt
		Fanout client.Fanout `json:"fanout"`
	}](t, ask("publish", "--from", "ann", "--followers", "--body", "x", "--wait", "--json")).ID.String()

	require.Equal(t, "delivered: ben has "+id+": it was delivered into bucket 0, slot 0 of their inbox.\n", ask("explain", "ben", id))
	require.Equal(t, "not_followed_then: "+id+" is not for dora: it is to the followers of ann, whom they have never followed.\n",
		ask("explain", "dora", id))
	explained := fromJSON[client.Explanation](t, ask("explain", "ben", id, "--json"))
	require.Equal(t, verdict.Delivered, explained.Verdict)
	require.Equal(t, &client.EntryPlace{}, explained.Entry)

	require.Equal(t, "audited    1 user, 1 entry, 1 expected\nfound      nothing\n", ask("audit"))
	require.Equal(t, "audited    1 user, 1 entry, 1 expected\nfound      nothing\nrepaired   nothing\nremaining  nothing\n",
		ask("audit", "--user", "ben", "--repair"))
	var line client.AuditLine
	require.NoError(t, json.Unmarshal([]byte(ask("audit", "--sample", "3", "--json")), &line), "without findings there is one line")
	require.EqualValues(t, 1, line.Summary.Users)
}

// auditLines is the answer of a server that has found errors.
const auditLines = `{"progress":{"users":0,"of":2004}}
{"finding":{"kind":"missing","user":"ben","message":"019b7ca9-8c88-7000-8000-000000000000","from":"ann","detail":"the message is not in the inbox","repaired":true}}
{"finding":{"kind":"out_of_order","user":"ben\u001b[2J","bucket":1,"slot":3,"detail":"the slot has lost its record","repaired":false,"note":"not repaired: it cannot be"}}
{"progress":{"users":2004,"of":2004}}
{"summary":{"users":2004,"entries":22012,"expected":22013,"found":{"missing":1,"out_of_order":1},"repaired":{"missing":1},"remaining":REMAINING,"in_flight":3,"dead_lettered":1,"tolerated":2,"rehydrating":1}}
`

// TestAuditTellsWhatItFinds checks the output and the exit code, with and without remaining findings.
func TestAuditTellsWhatItFinds(t *testing.T) {
	t.Parallel()
	const printed = `ben: missing 019b7ca9-8c88-7000-8000-000000000000 by ann: the message is not in the inbox; repaired
ben\x1b[2J: out_of_order in bucket 1, slot 3: the slot has lost its record; not repaired: it cannot be
audited    2,004 users, 22,012 entries, 22,013 expected
found      1 missing, 1 out_of_order
repaired   1 missing
remaining  REMAINING
apart      3 in flight, 1 among the dead letters, 2 tolerated, 1 user being rehydrated
`
	for name, test := range map[string]struct {
		remaining, text string
		code            int
		err             string
	}{
		"something remains": {`{"out_of_order":1}`, "1 out_of_order", program.ExitFailed, "audit: 1 finding remains: each finding above says why it was not repaired"},
		"nothing remains":   {`{}`, "nothing", program.ExitDone, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := strings.ReplaceAll(auditLines, "REMAINING", test.remaining)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, answer)
			}))
			t.Cleanup(server.Close)
			got := run{args: []string{"audit", "--repair", "--server", server.URL}}.do(t.Context(), t)
			require.Equal(t, test.code, got.code, got.stderr)
			require.Equal(t, strings.ReplaceAll(printed, "REMAINING", test.text), got.stdout)
			require.Contains(t, got.stderr, test.err)

			onTerminal := run{args: []string{"audit", "--repair", "--server", server.URL}, width: 80}.do(t.Context(), t)
			require.Equal(t, got.stdout, onTerminal.stdout)
			require.Contains(t, onTerminal.stderr, "audited users")

			asJSON := run{args: []string{"audit", "--repair", "--json", "--server", server.URL}}.do(t.Context(), t)
			require.Equal(t, test.code, asJSON.code)
			require.Equal(t, 3, strings.Count(asJSON.stdout, "\n"), "two findings and the summary")
		})
	}
}
