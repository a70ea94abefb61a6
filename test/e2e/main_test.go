//go:build long

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/fanmail/fanmail/test/leaktest"
	"github.com/fanmail/fanmail/test/testenv"
)

// folder holds the programs.
var folder string

// programs are built once for all tests.
var programs testenv.Binaries

// raceDetecting are Fanmail and Faulty with the race detector. They are built when the first test needs them.
var raceDetecting = sync.OnceValues(func() (testenv.Binaries, error) {
	return testenv.BuildWithRaceDetector(context.Background(), filepath.Join(folder, "race"))
})

func TestMain(m *testing.M) {
	var err error
	if folder, err = os.MkdirTemp("", "fanmail-e2e-"); err == nil {
		programs, err = testenv.Build(context.Background(), filepath.Join(folder, "programs"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := leaktest.Run(m)
	_ = os.RemoveAll(folder) // a remaining folder does not affect later runs
	os.Exit(code)
}
