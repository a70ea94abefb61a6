package deploy_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the root of the repository, and deploy the folder that is tested.
const (
	root   = "../.."
	deploy = ".."
)

// run runs a command in a folder and returns what it writes to both outputs.
func run(t *testing.T, dir, name string, args ...string) (string, error) {
	t.Helper()
	return runWith(t, nil, dir, name, args...)
}

// runWith is run with additions to the environment.
func runWith(t *testing.T, env []string, dir, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// output runs a command that has to succeed, and returns what it writes to standard output.
func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	require.NoError(t, cmd.Run(), "%s %s: %s", name, strings.Join(args, " "), stderr.String())
	return stdout.String()
}

var programs struct {
	once sync.Once
	dir  string
	err  error
}

// binaries builds the programs as the Dockerfile does, once, and returns the folder that they are in.
func binaries(t *testing.T) string {
	t.Helper()
	programs.once.Do(func() {
		if programs.dir, programs.err = os.MkdirTemp("", "fanmail-deploy"); programs.err != nil { //nolint:usetesting // all tests share it
			return
		}
		file := readDockerfile(t)
		out := filepath.Join(programs.dir, "bin") + "/"
		command := strings.ReplaceAll(file.build, file.out, out)
		_, programs.err = runWith(t, append([]string{"GOFLAGS=-buildvcs=false"}, file.env...), root, "sh", "-c", command)
	})
	require.NoError(t, programs.err)
	return filepath.Join(programs.dir, "bin")
}

func TestMain(m *testing.M) {
	code := m.Run()
	if programs.dir != "" {
		_ = os.RemoveAll(programs.dir)
	}
	os.Exit(code)
}

// read returns the content of a file below deploy.
func read(t *testing.T, path ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(append([]string{deploy}, path...)...))
	require.NoError(t, err)
	return string(content)
}
