package cli_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/cli"
	"github.com/fanmail/fanmail/internal/cli/program"
)

// nowhere is a URL without a server. A command that checks its input first does not connect to it.
const nowhere = "http://127.0.0.1:1"

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args string
		env  []string
		want string
	}{
		"unknown command":           {args: "serv", want: `there is no command "fanmail serv"; did you mean serve? (see 'fanmail --help')`},
		"nothing like it":           {args: "frobnicate", want: `there is no command "fanmail frobnicate" (see 'fanmail --help')`},
		"unknown command below":     {args: "import edges", want: `there is no command "fanmail import edges" (see 'fanmail import --help')`},
		"help of an unknown one":    {args: "help serv", want: `there is no command "fanmail serv"; did you mean serve?`},
		"like another action":       {args: "topic crate x", want: `there is no command "fanmail topic crate"; did you mean create? (see 'fanmail topic --help')`},
		"a word of others":          {args: "send", want: `there is no command "fanmail send"; did you mean publish?`},
		"a short word of others":    {args: "ls", want: `there is no command "fanmail ls"; did you mean inbox`},
		"a word cut short":          {args: "stat", want: `there is no command "fanmail stat"; did you mean status?`},
		"a word for an action":      {args: "topic rm x", want: `there is no command "fanmail topic rm"; did you mean delete?`},
		"a word for some actions":   {args: "identity add x", want: `there is no command "fanmail identity add"; did you mean set?`},
		"a command below another":   {args: "settings", want: `there is no command "fanmail settings"; did you mean admin settings?`},
		"a command below, misspelt": {args: "inbox prge ben", want: `there is no command "fanmail inbox prge"; did you mean purge?`},
		"one below admin, misspelt": {args: "admin settngs", want: `there is no command "fanmail admin settngs"; did you mean settings?`},
		"two users":                 {args: "inbox ben eve", want: `unexpected argument "eve"`},
		"flag of another action":    {args: "topic delete x --parents", want: `--parents goes with 'fanmail topic create': leave it out`},
		"flag of other actions":     {args: "identity set email:a@b.c joe --json", want: `--json goes with 'fanmail identity get or list': leave it out`},
		"nothing to administer":     {args: "admin", want: `name a command: init, `},
		"nothing to import":         {args: "import", want: `KIND is missing: give follows, users, identities, topics or subscriptions`},
		"unknown flag":              {args: "inbox ben --as-usr", want: `unknown flag: --as-usr; did you mean --as-user? (see 'fanmail inbox --help')`},
		"flag with one dash":        {args: "inbox ben -as-user=true", want: `in -as-user=true; did you mean --as-user? (see 'fanmail inbox --help')`},
		"flag cut short":            {args: "inbox purge ben --dry", want: `unknown flag: --dry; did you mean --dry-run?`},
		"hidden flag":               {args: "serve --http-read-timeuot 1m", want: `unknown flag: --http-read-timeuot; did you mean --http-read-timeout?`},
		"no such flag":              {args: "inbox ben --frobnicate", want: `unknown flag: --frobnicate (see 'fanmail inbox --help')`},
		"no such letter":            {args: "inbox ben -x", want: `unknown shorthand flag: 'x' in -x (see 'fanmail inbox --help')`},
		"flag without a value":      {args: "inbox ben --limit", want: `flag needs an argument: --limit`},
		"flag of another type":      {args: "inbox ben --limit many", want: `invalid argument "many" for "--limit" flag`},
		"missing argument":          {args: "inbox", want: `USER is missing`},
		"purged up to no time":      {args: "inbox purge ben --dry-run", want: `up to which time? Give --until`},
		"purged up to a word":       {args: "inbox purge ben --until now", want: `invalid argument "now" for "--until" flag`},
		"counts of a page":          {args: "inbox ben --count-by from --unread", want: `--count-by prints no messages: give it without --unread`},
		"stored, and unread":        {args: "inbox ben --stored --unread", want: `--stored prints no messages: give it without --unread`},
		"counts by nothing":         {args: "inbox ben --count-by attr:", want: `--count-by is "attr:": give from, or attr:NAME`},
		"counts by the unknown":     {args: "inbox ben --count-by to", want: `--count-by is "to": give from, or attr:NAME`},
		"purge of a bad user":       {args: "inbox purge a/b --until 2026-01-01T00:00:00Z", want: `user contains '/'`},
		"unexpected argument":       {args: "status a b", want: `unexpected argument "b"`},
		"argument to serve":         {args: "serve now", want: `unexpected argument "now"`},
		"bad user":                  {args: "inbox a/b", want: `user contains '/', which a user id may not`},
		"bad id":                    {args: "status 1", want: `id is not a UUID of the form`},
		"nothing to measure":        {args: "bench", want: `name a command: fanout, burst, mixed, publish, read or rehydrate`},
		"measured never":            {args: "bench read --runs 0", want: `--runs is 0: give 1 or more`},
		"nobody to fan out to":      {args: "bench fanout --followers 10,0", want: `--followers has 0: give 1 or more`},
		"more than all dormant":     {args: "bench fanout --dormant 1.5", want: `--dormant is 1.5: give a number from 0 to 1`},
		"rounds of several":         {args: "bench fanout --rounds 2 --messages 2", want: `--rounds are of one message each to active followers: leave --messages`},
		"medium of too few":         {args: "bench mixed --followers 100", want: `--medium is 2000: give at most as many as --followers, 100`},
		"authors of no rounds":      {args: "bench fanout --authors 2", want: `--authors is 2, and only rounds have several authors: give --rounds of 2 or more`},
		"no author":                 {args: "bench fanout --rounds 2 --authors 0", want: `--authors is 0: give 1 or more`},
		"too many authors":          {args: "bench fanout --rounds 2 --authors 17", want: `--authors is 17: give at most 16`},
		"nothing about letters":     {args: "dlq", want: `ACTION is missing: give list, show, redrive or drop`},
		"no letters":                {args: "dlq redrive", want: `ID is missing: give ids that 'fanmail dlq list' shows, or --all`},
		"all letters and one":       {args: "dlq drop --all 3", want: `--all means every dead letter: leave the ids out`},
		"a letter and a reason":     {args: "dlq drop 3 --reason corrupt", want: `--reason chooses among --all`},
		"bad letter":                {args: "dlq show x", want: `"x" is not the id of a dead letter: give a number that 'fanmail dlq list' shows`},
		"waited for and watched":    {args: "status 019b7ca9-8c88-7000-8000-000000000000 --wait --watch", want: `--watch waits as well: give it without --wait`},
		"a timeout of no wait":      {args: "status 019b7ca9-8c88-7000-8000-000000000000 --timeout 1s", want: `--timeout goes with --wait or --watch`},
		"a timeout of no time":      {args: "status 019b7ca9-8c88-7000-8000-000000000000 --wait --timeout 0s", want: `--timeout is 0s: give more than 0s, or leave it out to wait without limit`},
		"a timeout of a number":     {args: "admin init --timeout 10", want: `invalid argument "10" for "--timeout" flag`},
		"published without waiting": {args: "publish --from ann --to ben --body x --timeout 1s", want: `--timeout goes with --wait`},
		"bad limit":                 {args: "inbox ben --limit 0", want: `--limit is 0: give 1 or more`},
		"wait without a unit":       {args: "login ben --wait 10", want: `invalid argument "10" for "--wait" flag`},
		"negative wait":             {args: "login ben --wait -1s", want: `--wait is -1s: give 0s to 60s`},
		"wait too long":             {args: "login ben --wait 61s", want: `--wait is 1m1s: give 0s to 60s`},
		"login of nobody":           {args: "login", want: `USER is missing`},
		"login of a bad user":       {args: "login ..", want: `user is "..", which cannot be a user id (see 'fanmail login --help')`},
		"all and a limit":           {args: "inbox ben --all --limit 5", want: `--all prints everything`},
		"nothing about identities":  {args: "identity", want: `ACTION is missing: give set, get, delete or list`},
		"identity of no kind":       {args: "identity get joe@example.com", want: `an identity is written as its kind, a colon and its value, such as email:joe@example.com`},
		"identity without a value":  {args: "identity set email: joe", want: `an identity is written as its kind`},
		"identity of a bad user":    {args: "identity set email:joe@example.com a/b", want: `user contains '/'`},
		"identity of no user":       {args: "identity set email:joe@example.com", want: `USER is missing`},
		"identities of a bad user":  {args: "identity list ..", want: `user is "..", which cannot be a user id`},
		"deleted from a bad user":   {args: "identity delete email:joe@example.com --user=", want: `user is empty`},
		"nobody to follow":          {args: "follow ben", want: `FOLLOWEE is missing`},
		"a bad one to follow":       {args: "follow ben ann a/b", want: `user contains '/'`},
		"following oneself":         {args: "unfollow ben ben", want: `a user cannot follow`},
		"nothing about a user":      {args: "user", want: `ACTION is missing: give get, set or retention`},
		"no user":                   {args: "user get", want: `USER is missing`},
		"a bad user to get":         {args: "user get a/b", want: `user contains '/'`},
		"seen never":                {args: "user set ben", want: `when was the user last seen? Give --last-viewed`},
		"seen at no time":           {args: "user set ben --last-viewed now", want: `invalid argument "now" for "--last-viewed" flag`},
		"kept by nobody":            {args: "user retention", want: `USER is missing`},
		"kept for no time":          {args: "user retention ben --max-age 0s", want: `--max-age is 0s: give more than 0s`},
		"kept without messages":     {args: "user retention ben --newest 0", want: `--newest is 0: give 1 or more`},
		"kept and not":              {args: "user retention ben --default --newest 1", want: `--default takes the user's own retention away`},
		"retention of a get":        {args: "user get ben --default", want: `--default goes with 'fanmail user retention': leave it out`},
		"version of what":           {args: "version go", want: `unexpected argument "go"`},
		"bad server":                {args: "inbox ben --server localhost", want: `server "localhost" is not a URL such as http://127.0.0.1:8080`},
		"bad server by environment": {args: "inbox ben", env: []string{"FANMAIL_SERVER=ftp://x"}, want: `server "ftp://x" is not a URL`},
		"publish without author":    {args: "publish --to ben --body x", want: `name the author: give --from`},
		"publish without recipient": {args: "publish --from ann --body x", want: `name the recipients: give --to, --to-identity, --followers, --topic or several of these`},
		"bad recipient's identity":  {args: "publish --from ann --to-identity joe@example.com --body x", want: `an identity is written as its kind`},
		"no body":                   {args: "publish --from ann --followers", want: `body is empty: give a body, or attrs`},
		"two bodies":                {args: "publish --from ann --followers --body x --body-file y", want: `give either --body or --body-file`},
		"body that is no text":      {args: "publish --from ann --followers --body \xff", want: `the body is not valid UTF-8`},
		"bad author":                {args: "publish --from .. --followers --body x", want: `from is "..", which cannot be a user id`},
		"bad recipient":             {args: "publish --from ann --to ben,a/b --body x", want: `to[1] contains '/'`},
		"bad attrs":                 {args: "publish --from ann --to ben --attrs [1]", want: `attrs is not a JSON object`},
		"file and flags":            {args: "publish --file f --from ann", want: `the messages in --file are complete: leave out --from`},
		"skip without a file":       {args: "publish --from ann --followers --body x --skip-bad", want: `--skip-bad needs --file`},
		"open to others":            {args: "serve --addr 0.0.0.0:8080", want: `addr is "0.0.0.0:8080", which others can reach, and there is no authentication: listen on a loopback address such as 127.0.0.1:8080`},
		"open to others by default": {args: "serve --addr :8080", want: `addr is ":8080", which others can reach`},
		"nothing to explain":        {args: "explain ben", want: "ID is missing"},
		"explained to a bad user":   {args: "explain a/b 1", want: "user contains '/'"},
		"explanation of no id":      {args: "explain ben 1", want: "id is not a UUID of the form"},
		"audit of a user":           {args: "audit ben", want: `unexpected argument "ben"`},
		"audit of a bad user":       {args: "audit --user a/b", want: "user contains '/'"},
		"audit of an empty user":    {args: "audit --user=", want: "user is empty"},
		"audit of nobody":           {args: "audit --sample 0", want: "--sample is 0: give 1 or more"},
		"audit of one and several":  {args: "audit --user ben --sample 3", want: "--user asks for one user, --sample for several"},
		"bad configuration":         {args: "config --partitions 0", want: `--partitions: partitions is 0: it must be from 1 to 256`},
		"several faults":            {args: "config --partitions 0 --log-level loud", want: `it must be from 1 to 256; --log-level: log.level is "loud"`},
		"unknown variable":          {args: "config", env: []string{"FANMAIL_ADR=x"}, want: `FANMAIL_ADR is unknown; the nearest known variable is FANMAIL_ADDR`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run{args: strings.Fields(test.args), env: test.env}.do(t.Context(), t)
			require.Equal(t, program.ExitUsage, got.code, got.stderr)
			require.Empty(t, got.stdout)
			require.Contains(t, got.stderr, test.want)
			requireOneLine(t, got.stderr)
		})
	}
}

func requireOneLine(t *testing.T, stderr string) {
	t.Helper()
	require.True(t, strings.HasPrefix(stderr, "fanmail: "), stderr)
	require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
}

func TestServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	got := run{args: []string{"publish", "--from", "ann", "--to", "ben", "--body", "x", "--server", nowhere}}.do(t.Context(), t)
	require.Equal(t, program.ExitFailed, got.code)
	require.Contains(t, got.stderr, "no answer from "+nowhere)
	require.Contains(t, got.stderr, "fanmail serve")
	requireOneLine(t, got.stderr)
}

func TestFilesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tests := map[string]struct{ path, want string }{
		"absent":         {path: dir + "/absent", want: "no such file or directory"},
		"folder":         {path: dir, want: dir + " is a directory"},
		"truncated gzip": {path: file(t, "f.gz", "\x1f\x8b\x08"), want: "unexpected EOF"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run{args: []string{"import", "follows", test.path, "--server", nowhere}}.do(t.Context(), t)
			require.Equal(t, program.ExitFailed, got.code)
			require.Contains(t, got.stderr, test.path)
			require.Contains(t, got.stderr, test.want)
			requireOneLine(t, got.stderr)
		})
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := run{args: []string{"inbox", "ben", "--server", nowhere}}.do(ctx, t)
	require.Equal(t, program.ExitFailed, got.code)
	require.True(t, strings.HasPrefix(got.stderr, "fanmail: interrupted: "), got.stderr)
	requireOneLine(t, got.stderr)
}

func TestInterruptedWhileStandardInputIsSilent(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	silent, typist := io.Pipe()
	reading := make(chan struct{})
	code := make(chan int, 1)
	go func() {
		code <- cli.Main(ctx, program.Process{
			Args: []string{"import", "follows", "-", "--server", nowhere}, Stdin: silent,
			Stdout: io.Discard, Stderr: io.Discard, Now: time.Now, Width: program.TerminalWidth,
		})
	}()
	go func() {
		_, _ = typist.Write([]byte("ben\t")) // returns when the command has read it
		close(reading)
	}()
	<-reading
	cancel()
	require.Equal(t, program.ExitFailed, <-code)
	require.NoError(t, typist.Close())
}

func TestConfig(t *testing.T) {
	t.Parallel()
	path := file(t, "fanmail.yaml", "partitions: 8\nlimits:\n  body: 1KiB\n")
	env := []string{"FANMAIL_LIMITS_BODY=2KiB", "FANMAIL_SERVER=" + nowhere, "FANMAIL_CONFIG=" + path}
	got := run{args: []string{"config", "--data", "/d"}, env: env}.do(t.Context(), t)
	require.Equal(t, program.ExitDone, got.code, got.stderr)
	require.Contains(t, got.stdout, "# file: "+path+"\n# data: set by --data\n# limits.body: set by FANMAIL_LIMITS_BODY\n")
	require.Contains(t, got.stdout, "\npartitions: 8\n")
	require.Contains(t, got.stdout, "\n  body: 2KiB\n")

	again := fanmail(t, "config", "--config", file(t, "again.yaml", got.stdout), "--json")
	read := fromJSON[map[string]any](t, again)
	require.Equal(t, "/d", read["data"])
	require.InDelta(t, 8, read["partitions"], 0)
	require.Equal(t, "2KiB", read["limits"].(map[string]any)["body"])
}
