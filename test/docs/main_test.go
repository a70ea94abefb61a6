//go:build hosttools

package docs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/fanmail/fanmail/test/leaktest"
	"github.com/fanmail/fanmail/test/testenv"
)

// programs is the folder with the programs of Fanmail and the examples in Go. They are built once for all tests.
var programs string

// program returns the path of a program.
func program(name string) string { return filepath.Join(programs, name) }

func TestMain(m *testing.M) {
	for _, name := range []string{"NO_PROXY", "no_proxy"} { // the examples talk to this machine
		_ = os.Setenv(name, "127.0.0.1,localhost,"+os.Getenv(name))
	}
	dir, err := os.MkdirTemp("", "fanmail-docs-")
	if err == nil {
		programs = dir
		err = testenv.BuildPackages(context.Background(), dir, "cmd/...")
	}
	if err == nil {
		err = testenv.BuildPackages(context.Background(), filepath.Join(dir, "go"), "docs/examples/go/...")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := leaktest.Run(m)
	_ = os.RemoveAll(dir) // a folder that stays harms no later run
	os.Exit(code)
}
