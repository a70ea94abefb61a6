//go:build long

package e2e_test

import (
	"context"
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/verdict"
	"github.com/fanmail/fanmail/test/testenv"
)

// Numbers of users in the mail trace.
const (
	traceUsers   = 816
	traceDormant = 107
	traceNew     = 144
)

// TestComingBack publishes real mail to active and dormant users, lets the dormant ones return, and reads their inboxes page by
// page. Then it damages inboxes and repairs them.
func TestComingBack(t *testing.T) {
	t.Parallel()
	for _, on := range everyStore() {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			for _, test := range sample(on, []struct {
				name     string
				settings map[string]string
				by       string
				limit    int
			}{
				{"everything copied", nil, "login", 0},
				{"only the newest copied", map[string]string{"publish_slack": on.tolerance().String(), "clock_tolerance": on.tolerance().String()}, "either", newest()},
			}) {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					ctx := bounded(t, 10*time.Minute)
					settings := map[string]string{"rehydrate.limit": strconv.Itoa(test.limit)}
					maps.Copy(settings, test.settings)
					w := newWorld(ctx, t, on, settings)
					w.checking = append(w.checking, "--rehydrate-limit", strconv.Itoa(test.limit), "--page-sizes", "50,17")
					if test.limit > 0 {
						w.checking = append(w.checking, "--settled-after", (2 * on.tolerance()).String())
					}
					server := w.start(ctx)
					missed := w.mailTrace(ctx)

					settled := time.Now().Add(3 * on.tolerance()) // all messages are older by slack and tolerance
					testenv.Eventually(ctx, t, "what was published is settled", func() bool {
						return test.limit == 0 || time.Now().After(settled)
					})
					came := w.login(ctx, w.testdata("email-eu.last-seen.tsv"), "--by", test.by)
					if test.by == "login" {
						require.Equal(t, map[string]int{"active": traceUsers - traceDormant - traceNew, "dormant": traceDormant, "new": traceNew}, came.Was)
						require.EqualValues(t, missed, came.Recovered)
					} else {
						require.Positive(t, came.Provisional)
					}
					found := w.check(ctx)
					require.Equal(t, traceUsers, found.Looks.Users)
					if test.limit > 0 {
						require.Positive(t, found.Gaps.Gaps)
						require.Equal(t, 2*found.Gaps.Gaps, found.Gaps.Paged, "with each page size")
						require.Greater(t, found.Gaps.Pages, found.Gaps.Paged)
					}
					w.requireSoundInboxes(ctx)

					// The checker has computed the number of gaps. The store must have exactly these gaps, and no entries in them.
					server.Stop(ctx)
					gaps, inThem := w.gaps(ctx)
					require.Equal(t, []int{found.Gaps.Gaps, found.Gaps.Messages}, []int{gaps, inThem})
					w.damageAndRepair(ctx)
				})
			}
		})
	}
}

// newest returns the limit on recovered messages. Some users must miss more messages than the limit. In a part of the trace no user
// misses many, so the limit is lower.
func newest() int {
	if full() {
		return 20
	}
	return 4
}

// mailTrace publishes the mail trace, or the first part of it, and returns the number of skipped deliveries.
func (w *world) mailTrace(ctx context.Context) (skipped int) {
	w.Helper()
	w.messages = w.testdata("email-eu.messages.ndjson.gz")
	w.generate(ctx, w.users, "users", "--last-seen", w.testdata("email-eu.last-seen.tsv"))
	require.Contains(w, w.fanmail(ctx, "import", "users", w.users), "imported 672 users")
	if full() {
		w.publish(ctx, "--connections", "64")
	} else {
		w.publish(ctx, "--connections", "64", "--first", strconv.Itoa(w.part()))
	}
	found := w.check(ctx)
	require.Zero(w, found.Either, "nobody has come back yet")
	return found.Skipped
}

// damageAndRepair removes an entry from a stopped server's data and doubles another one. The audit must find, report and repair
// both.
func (w *world) damageAndRepair(ctx context.Context) {
	w.Helper()
	const owner, writer = "e2", "e1"
	server := w.start(ctx)
	inbox, err := w.client().Inbox(ctx, owner, client.InboxOptions{Peek: true, Limit: 3})
	require.NoError(w, err)
	require.Len(w, inbox.Messages, 3)
	server.Stop(ctx)
	removed, doubled := inbox.Messages[0].ID, inbox.Messages[2].ID
	w.tamper(ctx, owner, "remove", removed)
	w.tamper(ctx, owner, "double", doubled)

	server = w.start(ctx)
	code, findings, _ := w.audit(ctx)
	require.Equal(w, 1, code, "the audit exits as if there were nothing")
	kinds := make(map[message.ID]verdict.Kind)
	for _, f := range findings {
		require.EqualValues(w, owner, f.User)
		kinds[f.Message] = f.Kind
	}
	require.Equal(w, map[message.ID]verdict.Kind{removed: verdict.MissingEntry, doubled: verdict.DoubleEntry}, kinds)
	code, findings, summary := w.audit(ctx, "--repair")
	require.Zero(w, code)
	require.Len(w, findings, 2)
	require.Empty(w, summary.Remaining)
	w.requireSoundInboxes(ctx)
	w.check(ctx)
	server.Stop(ctx)
}

func (w *world) tamper(ctx context.Context, owner, how string, id message.ID) {
	w.Helper()
	where := []string{"-data", w.site.Data}
	if w.on != embedded {
		where = []string{"-mongodb-uri", w.site.Settings["mongodb.uri"], "-mongodb-database", w.site.Settings["mongodb.database"]}
	}
	w.Logf("%s", testenv.Run(ctx, w.T, programs.Tamper, append(where, "-user", owner, how, id.String())...))
}

// requireSoundInboxes requires that the audit finds nothing.
func (w *world) requireSoundInboxes(ctx context.Context) {
	w.Helper()
	code, findings, summary := w.audit(ctx)
	require.Empty(w, findings)
	require.Zero(w, code)
	require.Positive(w, summary.Entries)
}

// audit runs "fanmail audit" and returns its exit code and output.
func (w *world) audit(ctx context.Context, args ...string) (code int, findings []client.Finding, summary verdict.Summary) {
	w.Helper()
	args = append([]string{"audit", "--json", "--server", w.site.URL()}, args...)
	audit := testenv.Exec(ctx, w.T, nil, w.programs.Fanmail, args...)
	code = audit.Code(ctx)
	for strings.Contains(audit.Stderr(), "try again") { // the database on a busy machine exceeded mongodb.timeout
		audit = testenv.Exec(ctx, w.T, nil, w.programs.Fanmail, args...)
		code = audit.Code(ctx)
	}
	for text := range strings.Lines(audit.Stdout()) {
		var line client.AuditLine
		require.NoError(w, json.Unmarshal([]byte(text), &line))
		if line.Finding != nil {
			findings = append(findings, *line.Finding)
		}
		if line.Summary != nil {
			summary = *line.Summary
			w.Logf("audit %v: %s", args[4:], strings.TrimSpace(text))
		}
	}
	require.Positive(w, summary.Users, audit.Stderr())
	return code, findings, summary
}

// came is the driver's summary of the returned users.
type came struct {
	Users       int            `json:"users"`
	Was         map[string]int `json:"was"`
	Recovered   int64          `json:"recovered"`
	Provisional int            `json:"provisional"`
}

// login lets the users of a file return. Later checks include what they saw.
func (w *world) login(ctx context.Context, users string, args ...string) came {
	w.Helper()
	log := w.dir + "/logins-" + strconv.Itoa(len(w.logins)) + ".ndjson"
	args = append([]string{"login", "--server", w.site.URL(), "--file", users, "--log", log, "--timeout", "4m", "--json"}, args...)
	driver := testenv.Exec(ctx, w.T, nil, programs.Driver, args...)
	require.Zero(w, driver.Code(ctx), "logging in failed: %s", driver.Stderr())
	w.logins = append(w.logins, log)
	w.Logf("came back: %s", strings.TrimSpace(driver.Stdout()))
	var summary came
	require.NoError(w, json.Unmarshal([]byte(driver.Stdout()), &summary))
	return summary
}
