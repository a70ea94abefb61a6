// Package leaktest runs the tests of a package and then checks that they left no goroutine behind.
package leaktest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long a goroutine may take to end after the tests. goleak itself waits for about 0.4 s, which a busy machine
// exceeds. The whole time passes only if a goroutine has leaked.
const patience = time.Minute

// Main runs the tests and exits the process. Call it from TestMain.
func Main(m *testing.M, options ...goleak.Option) { os.Exit(Run(m, options...)) }

// Run runs the tests and returns the exit code. If the tests pass and a goroutine does not end within a minute, it prints the
// goroutine and returns 1. The options must not contain goleak.Cleanup.
func Run(m *testing.M, options ...goleak.Option) int {
	code := m.Run()
	if code != 0 {
		return code
	}
	if err := find(patience, options...); err != nil {
		fmt.Fprintf(os.Stderr, "the tests passed and left goroutines behind: %v\n", err)
		return 1
	}
	return 0
}

// find repeats goleak.Find until it finds no goroutine or the time is over, and returns what it found last.
func find(within time.Duration, options ...goleak.Option) error {
	for deadline := time.Now().Add(within); ; {
		if err := goleak.Find(options...); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
