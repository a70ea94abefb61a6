//go:build long && mongodb

package faults_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/fanmail/fanmail/test/leaktest"
	"github.com/fanmail/fanmail/test/testenv"
)

// programs are built once for all tests.
var programs testenv.Binaries

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fanmail-faults-")
	if err == nil {
		programs, err = testenv.Build(context.Background(), dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := leaktest.Run(m)
	_ = os.RemoveAll(dir) // a remaining folder does not affect later runs
	os.Exit(code)
}
