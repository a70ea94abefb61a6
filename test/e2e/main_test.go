package e2e_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/fanmail/fanmail/test/testenv"
)

// programs are built once for all tests.
var programs testenv.Binaries

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fanmail-e2e-")
	if err == nil {
		programs, err = testenv.Build(context.Background(), dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir) // a folder in the way of nobody
		os.Exit(code)
	}))
}
