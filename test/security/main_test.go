package security_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/fanmail/fanmail/test/leaktest"
)

// fanmail is the path of the program, which is built once for all tests.
var fanmail string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fanmail-security-")
	if err == nil {
		fanmail = filepath.Join(dir, "fanmail")
		var out []byte
		build := exec.CommandContext(context.Background(), "go", "build", "-o", fanmail, "github.com/fanmail/fanmail/cmd/fanmail")
		if out, err = build.CombinedOutput(); err != nil {
			err = fmt.Errorf("%w\n%s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := leaktest.Run(m)
	_ = os.RemoveAll(dir) // a folder that stays harms no later run
	os.Exit(code)
}
