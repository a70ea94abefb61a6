//go:build long

package security_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/fanmail/fanmail/test/leaktest"
	"github.com/fanmail/fanmail/test/testenv"
)

// fanmail is the path of the program, which is built once for all tests.
var fanmail string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fanmail-security-")
	if err == nil {
		fanmail = filepath.Join(dir, "fanmail")
		err = testenv.BuildPackages(context.Background(), dir, "cmd/fanmail")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := leaktest.Run(m)
	_ = os.RemoveAll(dir) // a folder that stays harms no later run
	os.Exit(code)
}
