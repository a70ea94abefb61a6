package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/app/embedded"
	"github.com/fanmail/fanmail/internal/cli"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/test/leaktest"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) {
	cli.WatchEvery(time.Millisecond)
	leaktest.Main(m)
}

// run is a command line that runs in this process.
type run struct {
	args  []string
	env   []string
	stdin string
	// now is the clock; nil means the system's.
	now func() time.Time
	// width is the width of the terminal behind standard output and error; 0 if there is none.
	width int
}

type result struct {
	code           int
	stdout, stderr string
}

func (r run) do(ctx context.Context, t *testing.T) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if r.now == nil {
		r.now = time.Now
	}
	code := cli.Main(ctx, program.Process{
		Args: r.args, Env: r.env, Stdin: strings.NewReader(r.stdin), Stdout: &stdout, Stderr: &stderr,
		Now: r.now, Width: func(io.Writer) int { return r.width },
	})
	return result{code: code, stdout: stdout.String(), stderr: stderr.String()}
}

// fanmail runs a command line that must succeed, and returns its output.
func fanmail(t *testing.T, args ...string) string {
	t.Helper()
	got := run{args: args}.do(t.Context(), t)
	require.Equal(t, program.ExitDone, got.code, got.stderr)
	return got.stdout
}

// serve starts an app and returns its URL.
func serve(t *testing.T) string {
	t.Helper()
	return serveWith(t, nil)
}

// TestOneServer runs tests at the same time on one server: none depends on what the others store.
func TestOneServer(t *testing.T) {
	t.Parallel()
	url := serve(t)
	for name, test := range map[string]func(*testing.T, string){
		"attributes": attributeCommands, "identities": identityCommands, "topics": topicCommands, "users": userCommands,
		"import from everywhere": importFollowsFromEverywhere, "import without bad lines": importSkipsBadLines,
		"import without the names of columns": importSkipsTheNamesOfColumns,
		"progress on a terminal":              progressOnTerminal, "progress without a terminal": progressWithoutTerminal,
		"publish a file": publishFileReportsLines, "publish from standard input": publishBodyFromStandardInput,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, url)
		})
	}
}

// serveWith starts an app whose parts a test replaces.
func serveWith(t *testing.T, wrap func(app.Parts) app.Parts) string {
	t.Helper()
	return serveAs(t, wrap, func(*config.Config) {})
}

// serveAs is serveWith for a server whose configuration a test changes.
func serveAs(t *testing.T, wrap func(app.Parts) app.Parts, change func(*config.Config)) string {
	t.Helper()
	cfg := config.Default()
	cfg.Addr, cfg.Data = "127.0.0.1:0", t.TempDir()
	cfg.NATS.MaxPublished, cfg.NATS.MaxFanout = 16*config.MiB, 16*config.MiB
	cfg.NATS.MaxLogin, cfg.NATS.MaxDLQ = 16*config.MiB, 16*config.MiB
	cfg.Embedded.Cache, cfg.Embedded.Memtable = 8*config.MiB, 4*config.MiB
	change(&cfg)
	server := app.New(cfg, app.Options{Embedded: embedded.Engines{}, Logger: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel), Wrap: wrap})
	require.NoError(t, server.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, server.Stop(context.WithoutCancel(t.Context()))) })
	return server.URL()
}

// file writes a file and returns its path.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// fromJSON decodes one JSON document. All its fields must be fields of T.
func fromJSON[T any](t *testing.T, text string) T {
	t.Helper()
	var value T
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&value), text)
	return value
}
