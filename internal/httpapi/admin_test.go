package httpapi_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/internal/clocks"
	"github.com/fanmail/fanmail/internal/deadletter"
	"github.com/fanmail/fanmail/internal/httpapi"
	"github.com/fanmail/fanmail/internal/overview"
	recorded "github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// audited returns a world whose handler audits inboxes in these buckets. It has no other services.
func audited(t *testing.T, w *world, buckets bucket.Store) *world {
	t.Helper()
	services := httpapi.Services{Inbox: w.services.Inbox}
	addAudit(t, w, &services, buckets)
	w.handler = httpapi.New(services, httpapi.Options{PageMax: 200, BatchLines: 10_000, Logger: zerolog.New(w.log), Now: w.clock})
	return w
}

// addAudit adds the services for operators to the services of a world, without a bus.
func addAudit(t *testing.T, w *world, s *httpapi.Services, buckets bucket.Store) {
	t.Helper()
	s.Retention = walker(w)
	s.Audit = audit.New(audit.Stores{
		Messages: w.db.Messages(), Progress: w.db.Progress(), Users: w.db.Users(), Edges: w.db.Edges(), Flags: w.db.Flags(),
		Buckets: buckets, Appender: w.appender,
	}, audit.Options{
		Partitions: partitions, Rules: userstate.DefaultRules, Random: rand.Reader, Now: w.clock,
	})
	current, service := recordedIn(t, w.db.Settings(), w)
	s.Settings = service
	addOverview(w, s, brokenBus{}, current)
	s.DeadLetters = deadletter.New(deadletter.Parts{Bus: brokenBus{}, Progress: w.db.Progress()}, deadletter.Options{Logger: zerolog.Nop(), Now: w.clock})
}

// addOverview adds the overview to services that have all others.
func addOverview(w *world, s *httpapi.Services, b overview.Bus, current *recorded.Current) {
	s.Overview = overview.New(overview.Sources{
		Bus: b, Processes: s.Settings.Processes, Rows: current.Rows, Due: w.db.Users().Due, Load: w.services.Rehydrate.Load,
		Clocks:    func() []clocks.Reading { return []clocks.Reading{{Server: "store", Ahead: time.Minute, Off: true}} },
		Retention: s.Retention.Status, Round: w.db.Retention().Load, Now: w.clock,
	})
}

// adminWorld has bob, who follows ann. His inbox has the second of her three messages, and an entry for a message that does not
// exist.
func adminWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, settings{})
	w.see(t, "bob")
	_, err := w.db.Edges().Follow(t.Context(), []follow.Pair{{Follower: "bob", Followee: "ann"}}, w.clock().Add(-time.Hour))
	require.NoError(t, err)
	for n := 1; n <= 3; n++ {
		_, err := w.db.Messages().Insert(t.Context(), []message.Message{messagetest.Message(n, "ann")}, messagetest.AnyTime)
		require.NoError(t, err)
		_, err = w.db.Progress().Plan(t.Context(), messagetest.ID(n), "medium", nil, w.clock())
		require.NoError(t, err)
	}
	w.deliver(t, "bob", 2, 2)
	w.deliver(t, "bob", 9, 9)
	return audited(t, w, w.db.Inbox())
}

func TestAdminWire(t *testing.T) {
	t.Parallel()
	w := adminWorld(t)
	explain := func(user string, n int) string {
		return w.must(t, http.StatusOK, http.MethodGet, "/v1/admin/explain?user="+user+"&message="+messagetest.ID(n).String(), "")
	}
	var wire strings.Builder
	wire.WriteString(explain("bob", 1) + explain("bob", 2) + explain("zoe", 2) + explain("bob", 7))
	for _, body := range []string{`{"user":"bob"}`, `{"repair":true}`, `{"sample":5,"repair":false}`, ""} {
		answer := w.ask(t, http.MethodPost, "/v1/admin/audit", body)
		require.Equal(t, http.StatusOK, answer.Code, answer.Body)
		require.Equal(t, client.ContentNDJSON, answer.Header().Get("Content-Type"))
		wire.WriteString(answer.Body.String())
	}
	w.must(t, http.StatusOK, http.MethodPost, "/v1/users/bob/inbox:mark", `{"ids":["`+messagetest.ID(2).String()+`"],"archived":true}`)
	w.must(t, http.StatusNoContent, http.MethodPost, "/v1/users/bob/inbox/read", `{"all":true}`)
	wire.WriteString(w.must(t, http.StatusOK, http.MethodGet, "/v1/admin/users/bob/inbox:stored", ""))
	requireGolden(t, "admin.golden", wire.String())
}

func TestBadAdminInput(t *testing.T) {
	t.Parallel()
	w := adminWorld(t)
	before := w.contents(t, "bob")
	id := messagetest.ID(1).String()
	var table strings.Builder
	for _, bad := range []badInput{
		{"explain: nobody", http.MethodGet, "/v1/admin/explain?message=" + id, "", 422, nil},
		{"explain: no user id", http.MethodGet, "/v1/admin/explain?user=a%20b&message=" + id, "", 422, nil},
		{"explain: nothing", http.MethodGet, "/v1/admin/explain?user=bob", "", 422, nil},
		{"explain: no UUID", http.MethodGet, "/v1/admin/explain?user=bob&message=7", "", 422, nil},
		{"explain: posted", http.MethodPost, "/v1/admin/explain?user=bob&message=" + id, "", 405, nil},
		{"stored: never seen", http.MethodGet, "/v1/admin/users/zoe/inbox:stored", "", 404, nil},
		{"stored: no user id", http.MethodGet, "/v1/admin/users/a%20b/inbox:stored", "", 422, nil},
		{"stored: below the lowest", http.MethodGet, "/v1/admin/users/bob/inbox:stored?before=0", "", 422, nil},
		{"stored: below none", http.MethodGet, "/v1/admin/users/bob/inbox:stored?before=4294967296", "", 422, nil},
		{"audit: got", http.MethodGet, "/v1/admin/audit", "", 405, nil},
		{"audit: no user id", http.MethodPost, "/v1/admin/audit", `{"user":"a b"}`, 422, nil},
		{"audit: a user and a sample", http.MethodPost, "/v1/admin/audit", `{"user":"bob","sample":1}`, 422, nil},
		{"audit: a sample too large", http.MethodPost, "/v1/admin/audit", `{"sample":1000001}`, 422, nil},
		{"audit: a sample that is no number", http.MethodPost, "/v1/admin/audit", `{"sample":"some"}`, 400, nil},
		{"audit: a negative sample", http.MethodPost, "/v1/admin/audit", `{"sample":-1}`, 422, nil},
		{"audit: repair, perhaps", http.MethodPost, "/v1/admin/audit", `{"repair":"maybe"}`, 400, nil},
		{"audit: a query", http.MethodPost, "/v1/admin/audit?user=bob", "", 422, nil},
		{"audit: unknown field", http.MethodPost, "/v1/admin/audit", `{"users":["bob"]}`, 400, nil},
		{"audit: no JSON", http.MethodPost, "/v1/admin/audit", `repair`, 400, nil},
	} {
		answer := w.ask(t, bad.method, bad.target, bad.body)
		require.Equal(t, bad.status, answer.Code, "%s: %s", bad.name, answer.Body)
		p := problem(t, answer)
		require.Equal(t, before, w.contents(t, "bob"), "%s changes nothing", bad.name)
		fmt.Fprintf(&table, "%s\n\t%d [%s] %s\n", bad.name, p.Status, p.Field, p.Detail)
	}
	requireGolden(t, "bad_admin_input.golden", table.String())
}

// failingBuckets is a bucket store whose Range first calls a function of the test, and returns its error.
type failingBuckets struct {
	bucket.Store
	read func(ctx context.Context) error
}

// Range implements bucket.Store.
func (s failingBuckets) Range(ctx context.Context, sections []bucket.Section, field bucket.Field) ([][]bucket.Bucket, error) {
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	return s.Store.Range(ctx, sections, field)
}

func TestAuditThatFails(t *testing.T) {
	t.Parallel()
	w := adminWorld(t)
	audited(t, w, failingBuckets{w.db.Inbox(), func(context.Context) error { return errors.New("the disk is on fire") }})
	answer := w.must(t, http.StatusOK, http.MethodPost, "/v1/admin/audit", "")
	lines := strings.Split(strings.TrimSpace(answer), "\n")
	require.Len(t, lines, 2)
	require.JSONEq(t, `{"progress":{"users":0,"of":1}}`, lines[0])
	require.Contains(t, lines[1], `{"error":{"type":"urn:fanmail:problem:internal"`)
	require.NotContains(t, answer, "fire")
	require.Contains(t, w.log.String(), "audit of bob: inbox of bob: the disk is on fire")
}

// TestAuditEndsWithItsClient disconnects during an audit that does not end by itself.
func TestAuditEndsWithItsClient(t *testing.T) {
	t.Parallel()
	w := adminWorld(t)
	reading, ended := make(chan struct{}), make(chan struct{})
	audited(t, w, failingBuckets{w.db.Inbox(), func(ctx context.Context) error {
		close(reading)
		<-ctx.Done()
		close(ended)
		return ctx.Err()
	}})
	c, err := client.New(w.serve(t), client.Options{})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	for line, err := range c.Audit(t.Context(), client.AuditOptions{}) {
		require.NoError(t, err)
		require.NotNil(t, line.Progress)
		<-reading
		break
	}
	<-ended
}
