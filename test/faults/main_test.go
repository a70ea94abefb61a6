package faults_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/fanmail/fanmail/test/testenv"
)

// programs are built once for all tests.
var programs testenv.Binaries

func TestMain(m *testing.M) {
	zerolog.SetGlobalLevel(zerolog.Disabled) // for toxiproxy, which logs to standard error in places
	dir, err := os.MkdirTemp("", "fanmail-faults-")
	if err == nil {
		programs, err = testenv.Build(context.Background(), dir, testenv.Race)
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
