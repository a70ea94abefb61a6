package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
)

// reached is how the error of a wait goes on: a slow host may not even have read the status.
const reached = `( is pending after 1s, with 0 recipients handled, waits for: worker \(no fan-out worker runs\), and 'fanmail status \S+ --wait' waits again|: no status within 1s: )`

// A command that waits ends after --timeout, fails, and says what was reached. Here no process fans out.
func TestTimeout(t *testing.T) {
	t.Parallel()
	url := serveRole(t, app.Publisher)
	publish := strings.Fields("publish --from ann --to ben --body x --server " + url)
	id := strings.TrimSpace(fanmail(t, publish...))
	shown := fanmail(t, "status", id, "--server", url)
	require.Contains(t, shown, "state       pending, waits for: worker (no fan-out worker runs)\nrecipients  0 handled so far\n")
	for _, args := range [][]string{
		{"status", id, "--wait", "--timeout", "1s", "--server", url}, {"status", id, "--watch", "--timeout", "1s", "--server", url},
	} {
		t.Run(args[2], func(t *testing.T) {
			t.Parallel()
			got := run{args: args}.do(t.Context(), t)
			require.Equal(t, program.ExitFailed, got.code)
			require.Regexp(t, "fanmail: message "+id+reached, got.stderr)
		})
	}
	t.Run("publish", func(t *testing.T) {
		t.Parallel()
		got := run{args: append(publish, "--wait", "--timeout", "1s")}.do(t.Context(), t)
		require.Equal(t, program.ExitFailed, got.code)
		published := strings.TrimSpace(got.stdout)
		require.Regexp(t, "^[0-9a-f-]{36}$", published, "the message is published")
		require.Regexp(t, "fanmail: message "+published+reached, got.stderr)
	})
	t.Run("publish --file", func(t *testing.T) {
		t.Parallel()
		in := file(t, "in", strings.Repeat(`{"from":"ann","to":["ben"],"body":"x"}`+"\n", 3))
		got := run{args: []string{"publish", "--file", in, "--wait", "--timeout", "1s", "--server", url}}.do(t.Context(), t)
		require.Equal(t, program.ExitFailed, got.code)
		require.Equal(t, 3, strings.Count(got.stdout, "\n"))
		require.Contains(t, got.stderr, "fanmail: 3 messages were published, but waiting for them failed: 0 of them are done after 1s; "+
			"'fanmail status ID --wait' waits for one of the others")
	})
	t.Run("no server", func(t *testing.T) {
		t.Parallel()
		got := run{args: []string{"status", id, "--wait", "--timeout", "50ms", "--server", nowhere}}.do(t.Context(), t)
		require.Equal(t, program.ExitFailed, got.code)
		require.Contains(t, got.stderr, "fanmail: message "+id+": no status within 50ms: ")
	})
	t.Run("admin init", func(t *testing.T) {
		t.Parallel()
		got := run{args: strings.Fields("admin init --store mongodb --mongodb-timeout 200ms --timeout 300ms " +
			"--mongodb-uri mongodb://joe:hunter2@127.0.0.1:1/?serverSelectionTimeoutMS=50")}.do(t.Context(), t)
		require.Equal(t, program.ExitFailed, got.code)
		require.Contains(t, got.stderr, "the database at mongodb://joe:*****@127.0.0.1:1/?serverSelectionTimeoutMS=50 is not ready after 300ms")
		require.Contains(t, got.stderr, "--mongodb-uri or FANMAIL_MONGODB_URI")
		require.NotContains(t, got.stderr, "hunter2")
	})
}

// Without an end, a wait ends when the message is done. A timeout that is long enough changes nothing.
func TestTimeoutThatIsNotReached(t *testing.T) {
	t.Parallel()
	url := serve(t)
	saw(t, url, "ben")
	got := fanmail(t, "publish", "--from", "ann", "--to", "ben", "--body", "x", "--wait", "--timeout", "1d", "--server", url)
	id, rest, _ := strings.Cut(got, "\n")
	require.Equal(t, "1 recipient: 1 delivered, 0 skipped\n", rest)
	require.Contains(t, fanmail(t, "status", id, "--watch", "--timeout", "1d", "--server", url), "state       done\n")
}
