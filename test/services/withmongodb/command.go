package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// orphanCheck is the interval of checking that the parent process still lives. If it has ended, withmongodb stops the command,
// because no other process can.
const orphanCheck = time.Second

var errServerEnded = errors.New("the MongoDB server has ended before the command")

// runCommand runs a command, passes signals to it and to all processes that it has started, and returns its exit code as a shell
// would. If the server ends meanwhile, it returns an error, whatever the code.
func runCommand(ctx context.Context, command, environment []string, signals <-chan os.Signal, serverEnded <-chan struct{}) (int, error) {
	parent := os.Getppid()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = os.Stdin, os.Stdout, os.Stderr, environment
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return 127, err
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	forward := func(received os.Signal) {
		if number, ok := received.(syscall.Signal); ok {
			_ = syscall.Kill(-cmd.Process.Pid, number) // fails only if all processes have ended
		}
	}
	ticker := time.NewTicker(orphanCheck)
	defer ticker.Stop()
	for {
		select {
		case err := <-exited:
			select {
			case <-serverEnded:
				err = errors.Join(errServerEnded, unlessExit(err))
			default:
				err = unlessExit(err)
			}
			return exitCode(cmd.ProcessState), err
		case received := <-signals:
			forward(received)
		case <-ticker.C:
			if os.Getppid() != parent {
				forward(syscall.SIGTERM)
			}
		}
	}
}

// exitCode returns the code that a shell reports for an ended process.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// unlessExit returns the error of waiting for a command, or nil if it only means that the command failed.
func unlessExit(err error) error {
	if errors.As(err, new(*exec.ExitError)) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("waiting for the command: %w", err)
	}
	return nil
}
