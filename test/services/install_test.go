//go:build hosttools

package services_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/test/services"
)

// script installs DocumentDB.
const script = "documentdb/install"

// complaint runs the script with a new cache, requires that it fails, and returns its error output.
func complaint(t *testing.T, cache string, bash *exec.Cmd) string {
	t.Helper()
	bash.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache)
	output, err := bash.CombinedOutput()
	require.ErrorAs(t, err, new(*exec.ExitError), "it succeeds: %s", output)
	return string(output)
}

// An interrupted installation does not count as installed.
func TestHalfAnInstallationIsNone(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	for _, folder := range []string{"root", "template", "bin"} {
		require.NoError(t, os.MkdirAll(filepath.Join(cache, "fanmail", "building", folder), 0o755))
	}
	said := complaint(t, cache, exec.CommandContext(t.Context(), "bash", script, "--check"))
	require.Contains(t, said, "not installed")
	require.Contains(t, said, filepath.Join(cache, "fanmail", "documentdb-"))
}

func TestOnlyRootInstalls(t *testing.T) {
	t.Parallel()
	text, err := os.Open(script) // other users may not read the file at its path
	require.NoError(t, err)
	defer func() { require.NoError(t, text.Close()) }()
	bash := exec.CommandContext(t.Context(), "bash", "-s")
	bash.Stdin, bash.Dir = text, "/"
	if os.Getuid() == 0 {
		const nobody = 65534
		bash.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	require.Contains(t, complaint(t, "/nonexistent", bash), "only root can install")
}

// If a step fails, the script names the step, the reason, and the file with more details. It leaves nothing that looks like an
// installation.
func TestInstallationFails(t *testing.T) {
	require.Zero(t, os.Getuid(), "only root installs")
	const debootstrap = "#!/bin/sh\necho there is no network here >&2\nexit 1\n"
	folder, cache := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "debootstrap"), []byte(debootstrap), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "go"), []byte("#!/bin/sh\n"), 0o755)) // the script must fail before it builds anything
	t.Setenv("PATH", folder+string(filepath.ListSeparator)+os.Getenv("PATH"))
	said := complaint(t, cache, exec.CommandContext(t.Context(), "bash", script))
	require.Contains(t, said, "there is no network here\ndocumentdb: the smallest Debian sid (debootstrap): failed")
	log := filepath.Join(cache, "fanmail", "building", "log")
	require.Contains(t, said, log)
	require.FileExists(t, log)
	said = complaint(t, cache, exec.CommandContext(t.Context(), "bash", script, "--check"))
	require.Contains(t, said, "not installed")
}

// A mongod on the PATH has precedence. FindMongoDB does not install a server.
func TestFindMongoDB(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	program, err := services.FindMongoDB(t.Context())
	if path, missing := exec.LookPath("mongod"); missing == nil {
		require.NoError(t, err)
		require.Equal(t, path, program.String())
	} else {
		require.ErrorIs(t, err, services.ErrNotInstalled)
	}
	entries, err := os.ReadDir(cache)
	require.NoError(t, err)
	require.Empty(t, entries)
}
