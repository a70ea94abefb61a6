//go:build mongod

package main_test

import (
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/test/testenv"
)

// ownServer runs a command with a server that withmongodb starts for it, and returns after the command has printed the URI. before,
// if given, is the command that starts withmongodb.
func ownServer(t *testing.T, command string, before ...string) (_ *testenv.Process, addr string) {
	t.Helper()
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

// listens reports whether a server listens at an address.
func listens(t *testing.T, addr string) bool {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		return false
	}
	require.NoError(t, conn.Close())
	return true
}

// The server runs while the command runs, and ends with it. The exit code is that of the command.
func TestOwnServer(t *testing.T) {
	t.Parallel()
	p, addr := ownServer(t, "read -r _; exit 7")
	require.Equal(t, 7, p.Code(within(t)), "standard input is at its end")
	require.Contains(t, p.Stderr(), "MongoDB server under test: ")
	require.False(t, listens(t, addr), "the server is left behind")
}

// A signal reaches the processes that the command has started. The server ends after them.
func TestSignals(t *testing.T) {
	t.Parallel()
	p, addr := ownServer(t, `
		trap 'wait; exit 9' TERM # first: the child may be ready at once
		sh -c 'trap "echo told; exit" TERM; echo set; sleep 60 & wait' &
		wait`)
	testenv.Eventually(within(t), t, "the command's own command runs", func() bool { return lines(p) == 2 })
	require.True(t, listens(t, addr))
	p.Terminate()
	require.Equal(t, 9, p.Code(within(t)))
	require.Contains(t, p.Stdout(), "told\n")
	require.False(t, listens(t, addr), "the server is left behind")
}

// If a signal kills the command, the exit code is the one that a shell would report.
func TestCommandIsKilled(t *testing.T) {
	t.Parallel()
	p, _ := ownServer(t, "kill -9 $$")
	require.Equal(t, 128+9, p.Code(within(t)))
}

// If the program is killed, it cannot stop the server. The server ends nevertheless.
func TestKilled(t *testing.T) {
	t.Parallel()
	p, addr := ownServer(t, "sleep 3")
	require.True(t, listens(t, addr))
	p.Kill()
	testenv.Eventually(within(t), t, "the server is gone", func() bool { return !listens(t, addr) })
}

// If the process that started the program ends, the command and the server end, too.
func TestOrphaned(t *testing.T) {
	t.Parallel()
	p, addr := ownServer(t, "sleep 60 & wait", "sh", "-c", `"$@"; true`, "sh")
	require.True(t, listens(t, addr))
	p.Kill() // kills the shell before the program, and waits for all processes that can still print
	require.False(t, listens(t, addr), "the server still runs")
}

// If the server is killed, the result of the command does not count, even if it succeeds.
func TestServerEnds(t *testing.T) {
	t.Parallel()
	p, _ := ownServer(t, `
		for task in /proc/$PPID/task/*; do
			for child in $(cat $task/children); do
				[ $child = $$ ] || { kill -9 $child; while [ -e /proc/$child ]; do sleep 0.1; done; }
			done
		done
		exit 0`)
	require.Equal(t, 1, p.Code(within(t)))
	require.Contains(t, p.Stderr(), "the MongoDB server has ended before the command")
}

// lines counts the lines that a command has printed.
func lines(p *testenv.Process) int {
	count := 0
	for _, r := range p.Stdout() {
		if r == '\n' {
			count++
		}
	}
	return count
}
