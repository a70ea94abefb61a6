package cli_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/cli/program"
)

// commands are the commands that read a file, each with a good line.
var commands = map[string]struct {
	args []string
	good string
}{
	"follows":       {args: []string{"import", "follows"}, good: "ben\tann"},
	"users":         {args: []string{"import", "users"}, good: `{"user":"ben","last_viewed":"2026-01-02T03:04:05Z"}`},
	"identities":    {args: []string{"import", "identities"}, good: `{"kind":"email","value":"joe@example.com","user":"joe"}`},
	"topics":        {args: []string{"import", "topics"}, good: `{"topic":"programming/go"}`},
	"subscriptions": {args: []string{"import", "subscriptions"}, good: `{"user":"ben","topic":"programming/go"}`},
	"publish":       {args: []string{"publish", "--file"}, good: `{"from":"ann","to":["ben"],"body":"x"}`},
}

func TestBadLines(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ command, line, want string }{
		"one column":              {"follows", "ben", "has 1 column: expected follower, tab, followee"},
		"three columns":           {"follows", "ben\tann\tx", "has 3 columns"},
		"spaces for tabs":         {"follows", "ben ann", "has 1 column"},
		"following oneself":       {"follows", "ben\tben", "a user cannot follow themselves"},
		"empty follower":          {"follows", "\tann", "follower is empty"},
		"empty followee":          {"follows", "ben\t", "followee is empty"},
		"slash":                   {"follows", "ben\ta/b", "followee contains '/'"},
		"white space":             {"follows", "ben\tann ", "followee contains white space"},
		"control character":       {"follows", "ben\ta\x00b", "followee contains the control character U+0000"},
		"dots":                    {"follows", "ben\t..", `followee is "..", which cannot be a user id`},
		"too long a name":         {"follows", "ben\t" + strings.Repeat("a", 129), "followee has 129 bytes"},
		"edge not UTF-8":          {"follows", "ben\t\xff", "followee is not valid UTF-8"},
		"not JSON":                {"users", "ben", "is not JSON: invalid character 'b'"},
		"cut off":                 {"users", `{"user":"ben"`, "is not JSON: unexpected EOF"},
		"not an object":           {"users", `["ben"]`, "is not an object but a JSON array"},
		"two objects":             {"users", `{"user":"ben","last_viewed":"2026-01-02T03:04:05Z"} {}`, "has more than one JSON object"},
		"wrong type":              {"users", `{"user":1}`, "user: expected a string, got number"},
		"unknown user field":      {"users", `{"usr":"ben"}`, `has the unknown field "usr"`},
		"user field twice":        {"users", `{"user":"ben","last_viewed":"2026-01-02T03:04:05Z","user":"ann"}`, `the field "user" is there twice: leave one out`},
		"user field in capitals":  {"users", `{"USER":"ben","last_viewed":"2026-01-02T03:04:05Z"}`, `the field "USER" is unknown: write it as "user"`},
		"identity field twice":    {"identities", `{"kind":"email","value":"joe@example.com","user":"joe","user":"ann"}`, `the field "user" is there twice`},
		"topic field twice":       {"topics", `{"topic":"a","topic":"b"}`, `the field "topic" is there twice`},
		"subscription to two":     {"subscriptions", `{"user":"ben","topic":"a","topic":"b"}`, `the field "topic" is there twice`},
		"two authors":             {"publish", `{"from":"ann","FROM":"bob","to":["ben"],"body":"x"}`, `the field "FROM" is unknown: write it as "from"`},
		"two identities in one":   {"publish", `{"from":"ann","to":[{"email":"a@example.com","email":"b@example.com"}],"body":"x"}`, "to[0] is an object that is not one identity"},
		"no user":                 {"users", `{"last_viewed":"2026-01-02T03:04:05Z"}`, "user is empty"},
		"no time":                 {"users", `{"user":"ben"}`, `last_viewed "" is not a time such as 2026-01-02T15:04:05.000Z (RFC 3339)`},
		"time without a zone":     {"users", `{"user":"ben","last_viewed":"2026-01-02T03:04:05"}`, "is not a time such as 2026-01-02T15:04:05.000Z (RFC 3339) in the years 1 to 9999"},
		"JSON not UTF-8":          {"users", "{\"user\":\"\xff\"}", "is not valid UTF-8"},
		"no kind":                 {"identities", `{"value":"joe@example.com","user":"joe"}`, "kind is empty"},
		"no value":                {"identities", `{"kind":"email","user":"joe"}`, "value is empty"},
		"topic without a path":    {"topics", `{}`, "topic is empty"},
		"topic of no segment":     {"topics", `{"topic":"a//b"}`, "topic, segment 2 is empty"},
		"subscription of nobody":  {"subscriptions", `{"topic":"a"}`, "user is empty"},
		"subscription to nothing": {"subscriptions", `{"user":"ben"}`, "topic is empty"},
		"identity of nobody":      {"identities", `{"kind":"email","value":"joe@example.com"}`, "user is empty"},
		"unknown identity field":  {"identities", `{"email":"joe@example.com","user":"joe"}`, `has the unknown field "email"`},
		"value of another type":   {"identities", `{"kind":"email","value":1,"user":"joe"}`, "expected a string, got number"},
		"no author":               {"publish", `{"to":["ben"],"body":"x"}`, "from is empty"},
		"no recipients":           {"publish", `{"from":"ann","body":"x"}`, "to is empty"},
		"recipients no array":     {"publish", `{"from":"ann","to":"ben","body":"x"}`, "to: expected an array, got string"},
		"recipient that is empty": {"publish", `{"from":"ann","to":["ben",{}],"body":"x"}`, "to[1] is an object that is not one identity"},
		"bad recipient":           {"publish", `{"from":"ann","to":["ben",""],"body":"x"}`, "to[1] is empty"},
		"unknown audience":        {"publish", `{"from":"ann","audience":"all","body":"x"}`, `audience is "all"`},
		"too long a body":         {"publish", `{"from":"ann","to":["ben"],"body":"` + strings.Repeat("x", 65<<10) + `"}`, "body has 66560 bytes"},
		"attrs of another kind":   {"publish", `{"from":"ann","to":["ben"],"body":"x","attrs":[]}`, "attrs is not a JSON object"},
		"unknown message field":   {"publish", `{"from":"ann","to":["ben"],"body":"x","id":"1"}`, `has the unknown field "id"`},
		"longer than any may be":  {"publish", `{"from":"ann","body":"` + strings.Repeat("x", 16<<20) + `"}`, "is longer than 16,777,216 bytes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := commands[test.command]
			path := file(t, "in", "# a comment\n\n"+command.good+"\r\n"+test.line+"\n"+command.good)
			// No server listens there, so a command that sent anything would fail with another error.
			got := run{args: append(command.args, path, "--server", nowhere)}.do(t.Context(), t)
			require.Equal(t, program.ExitFailed, got.code)
			require.Empty(t, got.stdout)
			require.Contains(t, got.stderr, "fanmail: "+path+":4: ")
			require.Contains(t, got.stderr, test.want)
			requireOneLine(t, got.stderr)
		})
	}
}

// All bad lines of a file are counted, and the first ten are printed. Nothing is sent.
func TestManyBadLines(t *testing.T) {
	t.Parallel()
	for _, command := range commands {
		path := file(t, "in", command.good+"\n"+strings.Repeat("bad\n", 12)+command.good+"\nbad")
		got := run{args: append(command.args, path, "--server", nowhere)}.do(t.Context(), t)
		require.Equal(t, program.ExitFailed, got.code)
		require.Empty(t, got.stdout)
		lines := strings.Split(got.stderr, "\n")
		require.Len(t, lines, 13, got.stderr)
		for i := range 10 {
			require.True(t, strings.HasPrefix(lines[i], path+":"+strconv.Itoa(i+2)+": "), lines[i])
		}
		require.Equal(t, []string{
			"and 3 more", "fanmail: " + path + " has 13 bad lines: nothing was sent; correct them, or give --skip-bad to skip such lines", "",
		}, lines[10:])
	}
}

// A first line that is exactly the names of the columns is skipped, and the command says so. No other line is taken for one.
func importSkipsTheNamesOfColumns(t *testing.T, url string) {
	t.Helper()
	for name, test := range map[string]struct {
		in     string
		edges  int
		header int // the number of the skipped line
	}{
		"the header":               {"follower\tfollowee\nben\tann\n", 1, 1},
		"after a comment":          {"\ufeff# edges\n\nfollower\tfollowee\r\nben\tann\n", 1, 3},
		"on a later line":          {"ben\tann\nfollower\tfollowee\n", 2, 0},
		"twice":                    {"follower\tfollowee\nfollower\tfollowee\n", 1, 1},
		"a user called follower":   {"follower\tann\nben\tann\n", 2, 0},
		"a user called Follower":   {"Follower\tFollowee\n", 1, 0},
		"a user who is a followee": {"ben\tfollowee\n", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run{args: []string{"import", "follows", "-", "--server", url}, stdin: test.in}.do(t.Context(), t)
			require.Equal(t, program.ExitDone, got.code, got.stderr)
			require.Contains(t, got.stdout, fmt.Sprintf("imported %d edge", test.edges))
			want := ""
			if test.header > 0 {
				want = fmt.Sprintf("standard input:%d: skipped, because it names the columns; if it is a record, put it on a later line\n", test.header)
			}
			require.Equal(t, want, got.stderr)
		})
	}
}

// The error of a compressed file that is cut off says how much of it is whole, and how to go on with that.
func TestCutOffFile(t *testing.T) {
	t.Parallel()
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, err := w.Write([]byte("# edges\nben\tann\ncleo\tann\ndora\tan"))
	require.NoError(t, err)
	require.NoError(t, w.Flush())
	path := file(t, "edges.gz", zipped.String())
	got := run{args: []string{"import", "follows", path, "--server", nowhere}}.do(t.Context(), t)
	require.Equal(t, program.ExitFailed, got.code)
	require.Equal(t, "fanmail: read "+path+": the compressed file is cut off or damaged after 3 whole lines: unexpected EOF: nothing was sent; "+
		"get the whole file, or give the 2 good lines before the end to this command: 'gzip -dc -- "+strconv.Quote(path)+" | head -n 3' prints them, "+
		"and - reads them from standard input\n", got.stderr)

	got = run{args: []string{"import", "follows", "-", "--server", nowhere}, stdin: zipped.String()}.do(t.Context(), t)
	require.Equal(t, program.ExitFailed, got.code)
	require.Equal(t, "fanmail: read standard input: the compressed file is cut off or damaged after 3 whole lines: unexpected EOF: nothing was sent; "+
		"get the whole file\n", got.stderr)
}

func TestLimitsOfTheEnvironment(t *testing.T) {
	t.Parallel()
	path := file(t, "in", `{"from":"ann","to":["ben"],"body":"abc"}`)
	args := []string{"publish", "--file", path, "--server", nowhere}
	got := run{args: args, env: []string{"FANMAIL_LIMITS_BODY=2B"}}.do(t.Context(), t)
	require.Equal(t, program.ExitFailed, got.code)
	require.Contains(t, got.stderr, "body has 3 bytes: at most 2 are allowed")
}

// importResult is the output of an import with --json.
type importResult struct {
	Imported int           `json:"imported"`
	Bad      int           `json:"bad"`
	Rejected int           `json:"rejected"`
	Problems []problemLine `json:"problems"`
	Seconds  float64       `json:"seconds"`
}

type problemLine struct {
	Line  int    `json:"line"`
	Error string `json:"error"`
}

func importFollowsFromEverywhere(t *testing.T, url string) {
	t.Helper()
	plain := "\ufeffben\tann\n\n# comment\ncleo\tann\r\nben\tann"
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, err := w.Write([]byte(plain))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	tests := map[string]struct{ path, stdin string }{
		"a file":                    {path: file(t, "plain", plain)},
		"a compressed file":         {path: file(t, "zipped", zipped.String())},
		"standard input":            {path: "-", stdin: plain},
		"compressed standard input": {path: "-", stdin: zipped.String()},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run{args: []string{"import", "follows", test.path, "--server", url, "--json"}, stdin: test.stdin}.do(t.Context(), t)
			require.Equal(t, program.ExitDone, got.code, got.stderr)
			require.Empty(t, got.stderr)
			result := fromJSON[importResult](t, got.stdout)
			result.Seconds = 0
			require.Equal(t, importResult{Imported: 3, Problems: []problemLine{}}, result)
		})
	}
}

func importSkipsBadLines(t *testing.T, url string) {
	t.Helper()
	in := "ben\tann\nben\nben\tben\ncleo\tann\n"
	args := []string{"import", "follows", "-", "--server", url, "--skip-bad"}
	got := run{args: args, stdin: in}.do(t.Context(), t)
	require.Equal(t, program.ExitDone, got.code, got.stderr)
	require.Regexp(t, `^imported 2 edges in .*, left out 2 lines\n$`, got.stdout)
	require.Equal(t, "standard input:2: has 1 column: expected follower, tab, followee\n"+
		"standard input:3: a user cannot follow themselves\n", got.stderr)

	got = run{args: append(args, "--json"), stdin: in}.do(t.Context(), t)
	require.Equal(t, program.ExitDone, got.code, got.stderr)
	result := fromJSON[importResult](t, got.stdout)
	require.Equal(t, 2, result.Bad)
	require.Len(t, result.Problems, 2)
	require.Equal(t, 3, result.Problems[1].Line)
}

func TestImportUsersRejected(t *testing.T) {
	t.Parallel()
	url := serve(t)
	in := `{"user":"ben","last_viewed":"2020-01-02T03:04:05Z"}

{"user":"ben","last_viewed":"2020-01-02T03:04:04Z"}
{"user":"cleo","last_viewed":"2999-01-02T03:04:05Z"}
{"user":"dan","last_viewed":"2020-01-02T03:04:05+02:00"}
`
	args := []string{"import", "users", "-", "--server", url}
	got := run{args: args, stdin: in}.do(t.Context(), t)
	require.Equal(t, program.ExitFailed, got.code)
	require.Contains(t, got.stdout, "imported 2 users")
	lines := strings.Split(got.stderr, "\n")
	require.Len(t, lines, 4, got.stderr)
	require.Contains(t, lines[0], "standard input:3: ")
	require.Contains(t, lines[0], "user was seen later than that")
	require.Contains(t, lines[1], "standard input:4: ")
	require.Contains(t, lines[1], "is in the future")
	require.Equal(t, "fanmail: the server rejected 2 lines of standard input", lines[2])

	got = run{args: append(args, "--skip-bad", "--json"), stdin: in}.do(t.Context(), t)
	require.Equal(t, program.ExitDone, got.code, got.stderr)
	require.Equal(t, 2, fromJSON[importResult](t, got.stdout).Rejected, "a time that is recorded already changes nothing")
}
