package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/fanmail/fanmail/test/leaktest"
	"github.com/fanmail/fanmail/test/testenv"
)

// programs are built once for all tests. Where tests have the race detector, programs have it, but for plain ones: they are for
// MongoDB, whose server needs the processor itself. What they have of their own runs with the detector in the tests of its package.
var programs, plain testenv.Binaries

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fanmail-e2e-")
	if err == nil {
		programs, err = testenv.Build(context.Background(), filepath.Join(dir, "programs"), testenv.Race)
	}
	if plain = programs; err == nil && testenv.Race {
		plain, err = testenv.Build(context.Background(), filepath.Join(dir, "plain"), false)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := leaktest.Run(m)
	_ = os.RemoveAll(dir) // a folder that stays harms no later run
	os.Exit(code)
}
