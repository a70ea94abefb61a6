package main_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/test/leaktest"
	"github.com/fanmail/fanmail/test/services"
	"github.com/fanmail/fanmail/test/testenv"
)

// binary is the program under test.
var binary string

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "withmongodb-test-")
	if err == nil {
		binary = filepath.Join(folder, "withmongodb")
		var out []byte
		if out, err = exec.CommandContext(context.Background(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
			err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	}
	// The folders of killed programs stay behind, but not longer than this one.
	if err = errors.Join(err, os.Setenv("TMPDIR", folder)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := leaktest.Run(m)
	_ = os.RemoveAll(folder) // a folder that stays harms no later run
	os.Exit(code)
}

// within returns a context that is longer than anything here takes.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// show is a command that prints the URI that it is given.
var show = []string{"sh", "-c", `echo "uri=$FANMAIL_TEST_MONGODB_URI"`}

func TestWithoutACommand(t *testing.T) {
	t.Parallel()
	p := testenv.Exec(within(t), t, nil, binary, "--")
	require.Equal(t, 2, p.Code(within(t)))
	require.Contains(t, p.Stderr(), "usage:")
}

// Off means off, also where there is a URI, and cannot be overlooked.
func TestOff(t *testing.T) {
	t.Parallel()
	settings := map[string]string{"test.mongodb": "off", "test.mongodb.uri": "mongodb://127.0.0.1:1"}
	p := testenv.Exec(within(t), t, settings, binary, append([]string{"--"}, show...)...)
	require.Zero(t, p.Code(within(t)))
	require.Equal(t, "uri=\n", p.Stdout())
	require.Equal(t, 2, strings.Count(p.Stderr(), "there is NO MongoDB server"), "before and after: %s", p.Stderr())

	fails := testenv.Exec(within(t), t, settings, binary, "sh", "-c", "exit 3")
	require.Equal(t, 3, fails.Code(within(t)))
}

func TestSwitchIsOffOrNothing(t *testing.T) {
	t.Parallel()
	p := testenv.Exec(within(t), t, map[string]string{"test.mongodb": "false"}, binary, show...)
	require.Equal(t, 1, p.Code(within(t)))
	require.Contains(t, p.Stderr(), "FANMAIL_TEST_MONGODB=false: it can only be off, or not set")
	require.Empty(t, p.Stdout(), "the command is run")
}

func TestGivenServer(t *testing.T) {
	t.Parallel()
	uri, _ := testenv.MongoDB(t)
	p := testenv.Exec(within(t), t, map[string]string{"test.mongodb.uri": uri}, binary, show...)
	require.Zero(t, p.Code(within(t)))
	require.Equal(t, "uri="+uri+"\n", p.Stdout())
	require.Contains(t, p.Stderr(), "MongoDB server under test: the one of FANMAIL_TEST_MONGODB_URI, ")
}

func TestGivenServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	settings := map[string]string{"test.mongodb.uri": "mongodb://somebody:secret@127.0.0.1:1/?serverSelectionTimeoutMS=100"}
	p := testenv.Exec(within(t), t, settings, binary, show...)
	require.Equal(t, 1, p.Code(within(t)))
	require.Contains(t, p.Stderr(), "the server of FANMAIL_TEST_MONGODB_URI: ")
	require.NotContains(t, p.Stderr(), "secret")
	require.Empty(t, p.Stdout(), "the command is run")
}

// ownServer runs a command with a server that is started for it, and returns once the command has printed its URI. The
// program is started by what is before it, if anything is.
func ownServer(t *testing.T, command string, before ...string) (_ *testenv.Process, addr string) {
	t.Helper()
	if testing.Short() || os.Getenv(services.SwitchVariable) == services.Off {
		t.Skip("without a MongoDB server")
	}
	if _, err := services.FindMongoDB(t.Context()); err != nil {
		require.ErrorIs(t, err, services.ErrNotInstalled)
		t.Skip(err)
	}
	args := slices.Concat(before, []string{binary, "sh", "-c", show[2] + "\n" + command})
	p := testenv.Exec(within(t), t, nil, args[0], args[1:]...)
	testenv.Eventually(within(t), t, "the command runs", func() bool {
		return strings.Contains(p.Stdout(), "\n") || !p.Running()
	})
	line, _, _ := strings.Cut(p.Stdout(), "\n")
	uri, err := url.Parse(strings.TrimPrefix(line, "uri="))
	require.NoError(t, err)
	require.NotEmpty(t, uri.Host, "no server for the command: %s", p.Stderr())
	return p, uri.Host
}
