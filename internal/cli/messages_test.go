package cli_test

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// published is the output of publish with --json.
type published struct {
	client.Receipt
	Fanout *client.Fanout `json:"fanout"`
}

// saw imports users as seen now.
func saw(t *testing.T, url string, users ...string) {
	t.Helper()
	var in strings.Builder
	for _, user := range users {
		fmt.Fprintf(&in, "{\"user\":%q,\"last_viewed\":%q}\n", user, time.Now().Format(time.RFC3339))
	}
	fanmail(t, "import", "users", file(t, "users", in.String()), "--server", url)
}

func TestPublishAndRead(t *testing.T) {
	t.Parallel()
	url := serve(t)
	saw(t, url, "ben", "cleo")
	fanmail(t, "import", "follows", file(t, "edges", "ben\tann\ndora\tann\n"), "--server", url)

	// The recipients are a follower, a follower who was never seen, and cleo, who is named twice.
	answer := fromJSON[published](t, fanmail(t, "publish", "--server", url, "--json", "--wait", "--from", "ann",
		"--to", "cleo,ben", "--to", "cleo", "--followers", "--body", "first", "--attrs", `{"a":1}`, "--content-type", "text/plain"))
	require.Equal(t, &client.Fanout{State: message.StateDone, Lane: event.Direct, Recipients: 3, Delivered: 2, Skipped: 1}, answer.Fanout)

	text := fanmail(t, "publish", "--server", url, "--wait", "--from", "ann", "--to", "ben", "--body", "\n second\x1b[2J\nline", "--key", "k")
	id, rest, _ := strings.Cut(text, "\n")
	require.Equal(t, "1 recipient: 1 delivered, 0 skipped\n", rest)
	again := fanmail(t, "publish", "--server", url, "--from", "ann", "--to", "ben", "--body", "\n second\x1b[2J\nline", "--key", "k")
	require.Equal(t, id+"\n", again, "an idempotency key keeps it from being published twice")

	t.Run("status", func(t *testing.T) {
		t.Parallel()
		status := fromJSON[client.Status](t, fanmail(t, "status", answer.ID.String(), "--server", url, "--json"))
		require.Equal(t, client.Status{
			ID: answer.ID, From: "ann", Sent: answer.Sent, To: []message.UserID{"ben", "cleo"}, Audience: message.AudienceFollowers,
			Body: "first", ContentType: "text/plain", Attrs: []byte(`{"a":1}`), Fanout: *answer.Fanout,
		}, status)
		text := fanmail(t, "status", answer.ID.String(), "--server", url, "--wait")
		require.Equal(t, fmt.Sprintf("message     %s\nfrom        ann\nsent        %s\nstate       done\nrecipients  3\ndelivered   2\n"+
			"skipped     1, because they are dormant or were never seen: they get the message when they look\n",
			answer.ID, answer.Sent.UTC().Format(time.DateTime)), text)
	})
	t.Run("status of a message to a user who was never seen", func(t *testing.T) {
		t.Parallel()
		text := fanmail(t, "publish", "--server", url, "--wait", "--from", "ann", "--to", "ghost,ghoul", "--body", "boo")
		id, rest, _ := strings.Cut(text, "\n")
		const why = "2 skipped, because 2 users were never seen: a user becomes known by looking, logging in and mostly by following, and then gets the message\n"
		require.Equal(t, "2 recipients: 0 delivered, "+why, rest)
		require.Contains(t, fanmail(t, "status", id, "--server", url), strings.Replace(why, "2 skipped", "skipped     2", 1))
		status := fromJSON[client.Status](t, fanmail(t, "status", id, "--server", url, "--json"))
		require.Equal(t, client.Fanout{State: message.StateDone, Lane: event.Direct, Recipients: 2, Skipped: 2, NeverSeen: 2}, status.Fanout)
	})
	t.Run("status of an unknown message", func(t *testing.T) {
		t.Parallel()
		unknown := message.MinID(time.Now())
		unknown[6], unknown[8] = 0x70, 0x80
		got := run{args: []string{"status", unknown.String(), "--server", url}}.do(t.Context(), t)
		require.Equal(t, program.ExitFailed, got.code)
		require.Contains(t, got.stderr, "no message")
		requireOneLine(t, got.stderr)
	})
	t.Run("inbox as text", func(t *testing.T) {
		t.Parallel()
		text := fanmail(t, "inbox", "ben", "--server", url)
		require.Regexp(t, `^ben: 2 messages, 2 unread\n.{19}  ann  second\\x1b\[2J\n.{19}  ann  first\n$`, text)
		text = fanmail(t, "inbox", "ben", "--server", url, "--count-by", "from")
		require.Equal(t, "ben: 2 messages counted\n    2      2 unread  ann\n", text)
	})
	t.Run("inbox on a narrow terminal", func(t *testing.T) {
		t.Parallel()
		got := run{args: []string{"inbox", "ben", "--server", url}, width: 31}.do(t.Context(), t)
		require.Regexp(t, `\n.{19}  ann  seco…\n.{19}  ann  first\n$`, got.stdout)
	})
	t.Run("inbox page by page", func(t *testing.T) {
		t.Parallel()
		first := fromJSON[client.InboxPage](t, fanmail(t, "inbox", "ben", "--server", url, "--limit", "1", "--json"))
		require.Equal(t, id, first.Messages[0].ID.String())
		require.EqualValues(t, 2, first.Total)
		text := fanmail(t, "inbox", "ben", "--server", url, "--limit", "1")
		require.Contains(t, text, "older: fanmail inbox ben --before "+string(first.Next)+"\n")
		second := fromJSON[client.InboxPage](t, fanmail(t, "inbox", "ben", "--server", url, "--json", "--before", string(first.Next)))
		require.Len(t, second.Messages, 1)
		require.Equal(t, answer.ID, second.Messages[0].ID)
		require.Empty(t, second.Next)
	})
	t.Run("inbox of somebody never seen", func(t *testing.T) {
		t.Parallel()
		for range 2 { // the first one creates nobody
			got := run{args: []string{"inbox", "dora", "--server", url}}.do(t.Context(), t)
			require.Equal(t, program.ExitFailed, got.code)
			require.Contains(t, got.stderr, "this user was never seen")
		}
		require.Regexp(t, `^dora: 1 message, 1 unread, still loading\n.{19}  ann  first\n$`, fanmail(t, "inbox", "dora", "--as-user", "--server", url))
	})
	t.Run("forged cursor", func(t *testing.T) {
		t.Parallel()
		got := run{args: []string{"inbox", "ben", "--before", "x", "--server", url}}.do(t.Context(), t)
		require.Equal(t, program.ExitFailed, got.code)
		requireOneLine(t, got.stderr)
	})
}

func TestPurgeInbox(t *testing.T) {
	t.Parallel()
	url := serve(t)
	saw(t, url, "ben")
	for _, body := range []string{"one", "two"} {
		fanmail(t, "publish", "--from", "ann", "--to", "ben", "--body", body, "--wait", "--server", url)
	}
	page := fromJSON[client.InboxPage](t, fanmail(t, "inbox", "ben", "--json", "--server", url))
	until := page.Messages[1].Sent.Format(client.TimeLayout)
	purge := func(flags ...string) string {
		return fanmail(t, append([]string{"inbox", "purge", "ben", "--until", until, "--server", url}, flags...)...)
	}
	require.Equal(t, "ben: 1 message would expire\n", purge("--dry-run"))
	require.Equal(t, "ben: 1 message expired\n", purge())
	require.JSONEq(t, `{"purged":0}`, purge("--json"))
	require.Contains(t, fanmail(t, "inbox", "ben", "--server", url), "ben: 1 message, 1 unread\n")
	until = "2126-01-01T00:00:00Z"
	got := run{args: []string{"inbox", "purge", "ben", "--until", until, "--server", url}}.do(t.Context(), t)
	require.Equal(t, program.ExitFailed, got.code)
	require.Contains(t, got.stderr, "until is in the future")
}

func TestPublishFile(t *testing.T) {
	t.Parallel()
	const messages = 600 // several requests
	url := serve(t)
	saw(t, url, "ben")
	var in bytes.Buffer
	in.WriteString("# a comment\n")
	for i := range messages {
		fmt.Fprintf(&in, "{\"from\":\"ann\",\"to\":[\"ben\",\"cleo\"],\"body\":\"%d\"}\n", i)
	}
	path := file(t, "in", in.String())

	args := []string{"publish", "--file", path, "--key", "k", "--wait", "--server", url}
	got := run{args: args}.do(t.Context(), t)
	require.Equal(t, program.ExitDone, got.code, got.stderr)
	require.Regexp(t, `published 600 messages in .*; 1,200 recipients: 600 delivered, 600 skipped, because they are dormant or were never seen: they get the message when they look\n$`, got.stderr)
	ids := strings.Fields(got.stdout)
	require.Len(t, ids, messages)
	require.True(t, slices.IsSorted(ids), "ids rise in the order of the file")

	require.Equal(t, got.stdout, fanmail(t, args...), "a run that is repeated with its key publishes nothing twice")

	var bodies []string
	for line := range strings.Lines(fanmail(t, "inbox", "ben", "--all", "--json", "--server", url)) {
		bodies = append(bodies, fromJSON[client.InboxMessage](t, line).Body)
	}
	slices.Reverse(bodies)
	require.Len(t, bodies, messages)
	for i, body := range bodies {
		require.Equal(t, strconv.Itoa(i), body)
	}
	require.Equal(t, messages+1, strings.Count(fanmail(t, "inbox", "ben", "--all", "--server", url), "\n"))
}

func publishFileReportsLines(t *testing.T, url string) {
	t.Helper()
	good := `{"from":"ann","to":["ben"],"body":"x"}`
	large := `{"from":"ann","to":["ben"],"body":"` + strings.Repeat("x", 65<<10) + `"}`
	args := []string{"publish", "--file", "-", "--json", "--server", url}
	in := good + "\n{}\n" + large + "\n" + good + "\n"
	// The command allows larger bodies than the server, so the server rejects one.
	env := []string{"FANMAIL_LIMITS_BODY=66KiB"}

	got := run{args: append(args, "--skip-bad"), stdin: in, env: env}.do(t.Context(), t)
	require.Equal(t, program.ExitDone, got.code, got.stderr)
	type answer struct {
		published
		Line  int    `json:"line"`
		Error string `json:"error"`
	}
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	require.Len(t, lines, 5)
	for i, want := range []int{2, 1, 3, 4} {
		line := fromJSON[answer](t, lines[i])
		require.Equal(t, want, line.Line)
		require.Equal(t, want == 2 || want == 3, line.Error != "", lines[i])
		require.Equal(t, line.Error != "", line.ID.IsZero(), lines[i])
	}
	require.Regexp(t, `^\{"summary":\{"published":2,"bad":1,"rejected":1,"seconds":[^,]*\}\}$`, lines[4])

	got = run{args: args, stdin: good + "\n" + large + "\n" + good + "\n", env: env}.do(t.Context(), t)
	require.Equal(t, program.ExitFailed, got.code)
	require.Equal(t, "fanmail: the server rejected 1 line of standard input\n", got.stderr)
	require.Equal(t, 4, strings.Count(got.stdout, "\n"), "the others are published all the same")
}

func publishBodyFromStandardInput(t *testing.T, url string) {
	t.Helper()
	got := run{
		args:  []string{"publish", "--from", "ann", "--to", "ben", "--body-file", "-", "--server", url, "--json"},
		stdin: "two\nlines\n",
	}.do(t.Context(), t)
	require.Equal(t, program.ExitDone, got.code, got.stderr)
	id := fromJSON[published](t, got.stdout).ID
	status := fromJSON[client.Status](t, fanmail(t, "status", id.String(), "--server", url, "--json"))
	require.Equal(t, "two\nlines\n", status.Body)
}
