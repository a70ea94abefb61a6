package docs_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/fanmail/fanmail/test/leaktest"
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
		err = build(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := leaktest.Run(m)
	_ = os.RemoveAll(dir) // a folder that stays harms no later run
	os.Exit(code)
}

func build(ctx context.Context) error {
	for folder, packages := range map[string]string{"": "cmd", "go": "docs/examples/go"} {
		out := filepath.Join(programs, folder) + string(filepath.Separator)
		command := exec.CommandContext(ctx, "go", "build", "-ldflags=-w", "-o", out, "github.com/fanmail/fanmail/"+packages+"/...")
		if text, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", command, err, text)
		}
	}
	return nil
}
