package main_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/test/leaktest"
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
	// Killed programs leave their folders here, and the tests remove this folder at the end.
	if err = errors.Join(err, os.Setenv("TMPDIR", folder)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := leaktest.Run(m)
	_ = os.RemoveAll(folder) // a remaining folder does not affect later runs
	os.Exit(code)
}

// within returns a context that ends later than any step of a test takes.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// show is a command that prints the URI from its environment.
var show = []string{"sh", "-c", `echo "uri=$FANMAIL_TEST_MONGODB_URI"`}

func TestWithoutACommand(t *testing.T) {
	t.Parallel()
	p := testenv.Exec(within(t), t, nil, binary, "--")
	require.Equal(t, 2, p.Code(within(t)))
	require.Contains(t, p.Stderr(), "usage:")
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
