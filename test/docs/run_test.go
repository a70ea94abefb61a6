//go:build hosttools

package docs_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/test/testenv"
)

// TestCommands runs the commands of every page in their order, as a reader would who pastes them into one shell, and compares what they print
// with what the page shows. Each page has a server of its own, unless it starts one, and a copy of the repository for its working folder.
// Blocks that cannot run here say why: see TestLeftBlocks.
func TestCommands(t *testing.T) {
	t.Parallel()
	found := blocks(t)
	for _, page := range slices.Sorted(maps.Keys(found)) {
		runs := slices.ContainsFunc(found[page], runnable)
		if !runs {
			continue
		}
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			s := newSession(ctx, t, found[page])
			s.run(ctx)
			if s.server != nil {
				s.server.Stop(ctx)
			}
		})
	}
}

// runnable reports whether the block is commands for a shell that a test runs.
func runnable(b block) bool {
	return command(b) && b.left == "" && (testenv.OnMongoDB || !b.mongodb)
}

// session runs the blocks of a page in one shell.
type session struct {
	t      *testing.T
	blocks []block
	// dir has the copy of the repository, the home, the output of each command, and the programs that stand for others.
	dir string
	// server runs beside the commands, unless they start one.
	server *testenv.Server
	// ports are the ports of the servers, by those on the page.
	ports map[string]string
	// mongodb is the URI of the MongoDB server, or empty, and database a database of the session.
	mongodb, database string
	// expect has what commands print, by the name of the file in dir/out that has it.
	expect map[string]expected
}

// expected is what a page shows of the output of a command.
type expected struct {
	at, text string
	// last means that the text is the end of the output: it is of the last command of a block.
	last bool
}

// paths are folders on pages that are in the session's folder instead.
var paths = regexp.MustCompile(`(^|[\s=])(/var/lib/)`)

// address is that of a server of the page.
var address = regexp.MustCompile(`\b(localhost|127\.0\.0\.1):([0-9]{4,5})\b`)

func newSession(ctx context.Context, t *testing.T, blocks []block) *session {
	t.Helper()
	s := &session{t: t, blocks: blocks, dir: t.TempDir(), ports: map[string]string{}, expect: map[string]expected{}}
	for _, folder := range []string{"home", "out", "shims", "var/lib/fanmail-backups"} {
		require.NoError(t, os.MkdirAll(filepath.Join(s.dir, folder), 0o700))
	}
	copyRepository(t, filepath.Join(s.dir, "fanmail"))
	if testenv.OnMongoDB && slices.ContainsFunc(blocks, func(b block) bool { return b.mongodb }) {
		s.startServers(ctx)
	}
	starts := slices.ContainsFunc(blocks, func(b block) bool { return runnable(b) && foreground.MatchString(b.text) })
	if starts {
		s.ports["8080"] = testenv.FreePort(t)
		return s
	}
	site := testenv.NewSite(t, map[string]string{"backup.dir": filepath.Join(s.dir, "var/lib/fanmail-backups")})
	s.server = site.Start(ctx, t, program("fanmail"))
	_, port, err := net.SplitHostPort(site.Addr)
	require.NoError(t, err)
	s.ports["8080"] = port
	return s
}

// startServers makes a MongoDB database for blocks that need it, and starts a NATS server, unless the page starts one.
func (s *session) startServers(ctx context.Context) {
	s.t.Helper()
	s.mongodb, s.database = testenv.MongoDB(s.t)
	if slices.ContainsFunc(s.blocks, func(b block) bool { return strings.Contains(b.text, "nats-server --config") }) {
		return
	}
	s.ports["4222"] = testenv.FreePort(s.t)
	binary := filepath.Join(s.dir, "nats-server")
	testenv.Run(ctx, s.t, "go", "-C", mustAbs(s.t, root), "build", "-o", binary, "github.com/nats-io/nats-server/v2")
	testenv.Exec(ctx, s.t, nil, binary, "--addr", "127.0.0.1", "--port", s.ports["4222"], "--jetstream", "--store_dir", filepath.Join(s.dir, "nats"))
}

// mustAbs returns an absolute path.
func mustAbs(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	require.NoError(t, err)
	return path
}

// copyRepository copies the files of the repository, apart from what commands make in it.
func copyRepository(t *testing.T, to string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		switch filepath.ToSlash(relative) {
		case ".git", "bin", "fanmail-data", "deploy/secrets":
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil // a work tree's .git is a file
		}
		if d.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, info.Mode().Perm())
	}))
}

// local replaces the addresses and folders of a page by those of the session.
func (s *session) local(text string) string {
	text = paths.ReplaceAllString(text, "${1}"+s.dir+"${2}")
	if s.mongodb != "" {
		text = strings.ReplaceAll(text, "mongodb://127.0.0.1:27017", `"$MONGODB"`)
	}
	return address.ReplaceAllStringFunc(text, func(addr string) string {
		match := address.FindStringSubmatch(addr)
		if s.ports[match[2]] == "" {
			s.ports[match[2]] = testenv.FreePort(s.t)
		}
		return match[1] + ":" + s.ports[match[2]]
	})
}

// foreground finds a command that starts a server and does not return.
var foreground = regexp.MustCompile(`(?m)^((?:[A-Z_]+=\S+ )*(?:(?:bin/)?fanmail serve|go run \./cmd/fanmail serve|bin/(?:publisher|fanout-worker|rehydrator)))\b([^#&\n]*)(#.*)?$`)

// prints finds a command on a line of its own with a comment that shows the JSON which it prints.
var prints = regexp.MustCompile(`^([^#]*[^#\s])\s+# (\{.*\})$`)

// script returns what the shell runs.
func (s *session) script() string {
	var b strings.Builder
	b.WriteString(prelude)
	for i, block := range s.blocks {
		if !runnable(block) {
			continue
		}
		out := strconv.Itoa(block.line)
		fmt.Fprintf(&b, "\nat %s:%d %s\n%s", block.page, block.line, out, s.local(block.first))
		if block.language == "console" {
			s.transcript(&b, block)
			continue
		}
		text := foreground.ReplaceAllStringFunc(s.local(block.text), s.serve)
		lines := strings.Split(text, "\n")
		for j, line := range lines {
			if match := prints.FindStringSubmatch(line); match != nil {
				name := fmt.Sprintf("%d-%d", block.line, j+1)
				s.expect[name] = expected{at: fmt.Sprintf("%s:%d", block.page, block.line+1+j), text: match[2] + "\n"}
				lines[j] = match[1] + ` > "$OUT/` + name + `"`
			}
		}
		b.WriteString(strings.Join(lines, "\n"))
		if next := i + 1; next < len(s.blocks) && s.blocks[next].follows && s.blocks[next].language == "json" && s.blocks[next].left == "" {
			s.expect[out] = expected{at: s.blocks[next].at(), text: s.blocks[next].text, last: true}
		}
	}
	b.WriteString("\nat end end\n")
	return b.String()
}

// serve returns the command that runs a server in the background until the session ends, and waits until it is ready.
func (s *session) serve(line string) string {
	match := foreground.FindStringSubmatch(line)
	port := s.ports["8080"]
	if at := address.FindStringSubmatch(match[2]); at != nil {
		port = at[2]
	}
	return match[1] + match[2] + ` > "$OUT/server-` + port + `" 2>&1 &` + "\nawait " + port
}

// transcript appends the commands of a block that shows them behind a dollar sign, and each one's output.
func (s *session) transcript(b *strings.Builder, shown block) {
	name := ""
	for i, line := range strings.SplitAfter(shown.text, "\n") {
		if command, found := strings.CutPrefix(line, "$ "); found {
			name = fmt.Sprintf("%d-%d", shown.line, i+1)
			s.expect[name] = expected{at: fmt.Sprintf("%s:%d", shown.page, shown.line+1+i)}
			b.WriteString(strings.TrimSuffix(s.local(command), "\n") + ` > "$OUT/` + name + "\"\n")
		} else if line != "" {
			e := s.expect[name]
			e.text += line
			s.expect[name] = e
		}
	}
}

// prelude begins the script. A command that fails ends it. The servers end with it.
const prelude = `set -e
trap 'kill $(jobs -p) 2> /dev/null || true; wait' EXIT
at() {
	echo "$1" > "$OUT/at"
	exec > "$OUT/$2" 2> "$OUT/$2.err"
}
await() {
	until command curl --fail --silent --output /dev/null "http://127.0.0.1:$1/readyz"; do
		kill -0 $!
		sleep 0.1
	done
}
`

// shims stand for programs. An HTTP error ends curl with an error, so that it ends the script. A curl that tries again does so for as long as a
// busy machine needs. "go run" becomes the program, because a
// signal would end "go run" alone.
var shims = map[string]string{
	"curl": `#!/bin/sh
case " $* " in
*" --fail "*) exec CURL "$@" ;;
*" --retry "*) set -- "$@" --retry 600 ;;
esac
exec CURL --silent --show-error --fail-with-body "$@"
`,
	"go": `#!/bin/sh
if [ "$1" != run ]; then exec GO "$@"; fi
program=$(mktemp -d)/program
GO build -o "$program" "$2"
shift 2
exec "$program" "$@"
`,
}

// run runs the blocks and compares their output.
func (s *session) run(ctx context.Context) {
	s.t.Helper()
	out := filepath.Join(s.dir, "out")
	script := filepath.Join(s.dir, "script")
	require.NoError(s.t, os.WriteFile(script, []byte(s.script()), 0o600))
	cmd := exec.CommandContext(ctx, "bash", script)
	cmd.Dir = filepath.Join(s.dir, "fanmail")
	cmd.Env = s.environment(ctx)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	at, _ := os.ReadFile(filepath.Join(out, "at"))
	if err != nil {
		s.show(out)
	}
	require.NoError(s.t, err, "the block at %s", at)
	for _, name := range slices.Sorted(maps.Keys(s.expect)) {
		e := s.expect[name]
		printed, err := os.ReadFile(filepath.Join(out, name))
		require.NoError(s.t, err)
		got := string(printed)
		if e.last {
			lines := strings.SplitAfter(got, "\n")
			got = strings.Join(lines[max(0, len(lines)-strings.Count(e.text, "\n")-1):], "")
		}
		if !alike(e.text, got) {
			s.t.Errorf("%s shows\n%sand the command prints\n%s", e.at, e.text, got)
		}
	}
	s.t.Logf("%d blocks were run, %d outputs compared", len(slices.DeleteFunc(slices.Clone(s.blocks), func(b block) bool { return !runnable(b) })), len(s.expect))
}

// show logs what the commands have printed.
func (s *session) show(out string) {
	s.t.Helper()
	files, err := os.ReadDir(out)
	require.NoError(s.t, err)
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(out, file.Name()))
		require.NoError(s.t, err)
		if len(content) > 0 {
			s.t.Logf("%s:\n%s", file.Name(), content[max(0, len(content)-4096):])
		}
	}
}

// environment returns the variables of the shell. The home is empty; of Fanmail's variables there are only the addresses.
func (s *session) environment(ctx context.Context) []string {
	s.t.Helper()
	shimmed := filepath.Join(s.dir, "shims")
	for name, text := range shims {
		program, err := exec.LookPath(name)
		require.NoError(s.t, err)
		text = strings.ReplaceAll(text, strings.ToUpper(name), program)
		require.NoError(s.t, os.WriteFile(filepath.Join(shimmed, name), []byte(text), 0o700))
	}
	env := []string{
		"HOME=" + filepath.Join(s.dir, "home"), "OUT=" + filepath.Join(s.dir, "out"), "TMPDIR=" + s.dir,
		"PATH=" + strings.Join([]string{shimmed, programs, os.Getenv("PATH")}, string(filepath.ListSeparator)),
		"FANMAIL_ADDR=127.0.0.1:" + s.ports["8080"], "FANMAIL_SERVER=http://127.0.0.1:" + s.ports["8080"], "FANMAIL_DRAIN_DELAY=0s",
		"GOFLAGS=-trimpath -buildvcs=false", // the cache then serves every copy of the repository
	}
	if s.mongodb != "" {
		env = append(env, "MONGODB="+s.mongodb, "FANMAIL_MONGODB_DATABASE="+s.database)
	}
	for _, name := range []string{"GOPATH", "GOCACHE", "GOMODCACHE", "GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOPROXY", "GOPRIVATE", "GOTOOLCHAIN"} {
		value, err := exec.CommandContext(ctx, "go", "env", name).Output()
		require.NoError(s.t, err)
		env = append(env, name+"="+strings.TrimSpace(string(value)))
	}
	for _, name := range []string{"LANG", "USER", "SSL_CERT_FILE", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"} {
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	return env
}

var (
	uuid    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)
	instant = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	cursor  = regexp.MustCompile(`"(next|cursor)":"[A-Za-z0-9_-]{20,}"`)
)

// alike reports whether two outputs are the same, apart from ids, times and cursors. The same id must stand in the same places. An ellipsis
// in what the page shows stands for any text.
func alike(shown, printed string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(steady(shown)), "…", ".*")
	return regexp.MustCompile(`^` + pattern + `$`).MatchString(steady(printed))
}

// steady replaces the ids, times and cursors of an output by names.
func steady(text string) string {
	ids := map[string]string{}
	text = uuid.ReplaceAllStringFunc(text, func(id string) string {
		if ids[id] == "" {
			ids[id] = fmt.Sprintf("ID-%d", len(ids)+1)
		}
		return ids[id]
	})
	text = instant.ReplaceAllString(text, "TIME")
	return cursor.ReplaceAllString(text, `"$1":"CURSOR"`)
}

func TestAlike(t *testing.T) {
	t.Parallel()
	const a, b = "01a1fdce-6ea3-7263-8757-d901a0f5ee19", "01a1fdce-7201-7659-a66d-f837f1dcc66a"
	for _, c := range []struct {
		shown, printed string
		alike          bool
	}{
		{`{"id":"` + a + `","sent":"2026-11-21T11:12:06.819Z"}`, `{"id":"` + b + `","sent":"2026-11-22T01:02:03.004Z"}`, true},
		{a + " " + b, b + " " + a, true},
		{a + " " + b, a + " " + a, false},
		{a + " " + a, a + " " + b, false},
		{`"total":1`, `"total":2`, false},
		{`"error":"…"}`, `"error":"why"}`, true},
		{`"error":"…"}`, `"error":"why"`, false},
		{`"next":"AQAAAAABof3OceR1-4bezbctxMJfO9eEEJw8agQ"`, `"next":"AQAAAAABof3OceR1-4bezbctxMJfO9eEEJw8agA"`, true},
		{`"next":"AQAAAAABof3OceR1-4bezbctxMJfO9eEEJw8agQ"`, `"next":null`, false},
	} {
		require.Equal(t, c.alike, alike(c.shown, c.printed), "%s %s", c.shown, c.printed)
	}
}
