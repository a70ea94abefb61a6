package testenv

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/telemetry/telemetrytest"
)

// Process is a running program. It is killed when its context or the test ends. If the test fails, its output is logged.
type Process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout *output
	stderr *output
	exited chan struct{}
	err    error // of waiting; readable after exited is closed
}

// Exec starts a program. Its environment has FANMAIL_* variables for the settings, which are keys of the configuration, and no
// other FANMAIL_* variables.
func Exec(ctx context.Context, t *testing.T, settings map[string]string, binary string, args ...string) *Process {
	t.Helper()
	p := &Process{t: t, stdout: new(output), stderr: new(output), exited: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, binary, args...)
	p.cmd.Dir = t.TempDir()
	p.cmd.Stdout, p.cmd.Stderr = p.stdout, p.stderr
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "FANMAIL_") {
			p.cmd.Env = append(p.cmd.Env, variable)
		}
	}
	for key, value := range settings {
		p.cmd.Env = append(p.cmd.Env, "FANMAIL_"+strings.ToUpper(strings.ReplaceAll(key, ".", "_"))+"="+value)
	}
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.exited)
		p.err = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s\nstandard output:\n%s\nstandard error:\n%s", p.cmd, p.stdout.tail(), p.stderr.tail())
		}
	})
	return p
}

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Running reports whether the process still runs.
func (p *Process) Running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Kill kills the process with SIGKILL if it runs, and waits until it has ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended
	<-p.exited
}

// Freeze stops the process with SIGSTOP until Thaw.
func (p *Process) Freeze() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGSTOP))
}

// Thaw lets a frozen process continue. It does nothing if the process has ended.
func (p *Process) Thaw() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// Killed reports whether the process was ended by SIGKILL.
func (p *Process) Killed() bool {
	return p.EndedBy() == syscall.SIGKILL
}

// Terminate sends SIGTERM to the process.
func (p *Process) Terminate() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGTERM))
}

// Interrupt sends SIGINT to the process, like Ctrl-C at a terminal.
func (p *Process) Interrupt() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGINT))
}

// clockSet begins the line that test/wrongclock prints after it has set its clock.
const clockSet = "wrongclock: the clock is set by"

// StepClock sets the clock of the process to its next offset, and waits until that is done. The process must have one of the clocks of
// test/wrongclock that change at a signal.
func (p *Process) StepClock(ctx context.Context) {
	p.t.Helper()
	steps := strings.Count(p.Stderr(), clockSet)
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGUSR1))
	Eventually(ctx, p.t, "the clock is set", func() bool {
		require.True(p.t, p.Running(), "%s has ended", p.cmd)
		return strings.Count(p.Stderr(), clockSet) > steps
	})
}

// EndedBy returns the signal that ended the process, or -1 if it exited by itself.
func (p *Process) EndedBy() syscall.Signal {
	<-p.exited
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal()
	}
	return -1
}

// Code waits until the process has ended, and returns its exit code. The test fails if ctx ends first.
func (p *Process) Code(ctx context.Context) int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-ctx.Done():
		require.Fail(p.t, "the process does not end", "%s: %v", p.cmd, context.Cause(ctx))
	}
	if p.err != nil && !errors.As(p.err, new(*exec.ExitError)) {
		require.NoError(p.t, p.err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// Stdout returns the output of the process so far.
func (p *Process) Stdout() string { return p.stdout.String() }

// Stderr returns the error output of the process so far.
func (p *Process) Stderr() string { return p.stderr.String() }

// Run runs a program to its end and returns its output. The test fails if the exit code is not 0, or if ctx ends first.
func Run(ctx context.Context, t *testing.T, binary string, args ...string) string {
	t.Helper()
	p := Exec(ctx, t, nil, binary, args...)
	require.Zero(t, p.Code(ctx), "%s exits with an error", p.cmd)
	return p.Stdout()
}

// output is the output of a process.
type output struct{ telemetrytest.Buffer }

// tail returns the last 16 KiB of the output, for a test's log.
func (o *output) tail() string {
	const most = 16 << 10
	text := o.String()
	if len(text) > most {
		return "[…]" + text[len(text)-most:]
	}
	return text
}
