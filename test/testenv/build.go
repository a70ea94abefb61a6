// Package testenv runs the built programs for tests from outside: servers that a test can kill and restart, and commands.
package testenv

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Binaries are the paths of the programs.
type Binaries struct {
	// Fanmail is the product, Faulty is the same server with failpoints.
	Fanmail, Faulty string
	// Publisher, FanoutWorker and Rehydrator are the programs of the roles.
	Publisher, FanoutWorker, Rehydrator string
	// NATS is the NATS server, in the same version as the embedded one.
	NATS string
	// Driver publishes messages and lets users return. Check compares the published messages with the inboxes. Tamper damages
	// inboxes.
	Driver, Check, Tamper string
}

// Build builds the programs into a folder.
func Build(ctx context.Context, dir string) (Binaries, error) {
	b := Binaries{
		Fanmail: filepath.Join(dir, "fanmail"), Faulty: filepath.Join(dir, "faulty"),
		Driver: filepath.Join(dir, "driver"), Check: filepath.Join(dir, "check"),
		Tamper:    filepath.Join(dir, "tamper"),
		Publisher: filepath.Join(dir, "publisher"), FanoutWorker: filepath.Join(dir, "fanout-worker"), Rehydrator: filepath.Join(dir, "rehydrator"),
		NATS: filepath.Join(dir, "nats-server"),
	}
	return b, build(ctx, dir, module+"cmd/...", module+"test/faulty", module+"test/wrongclock", module+"test/driver", module+"test/check", module+"test/tamper",
		"github.com/nats-io/nats-server/v2")
}

// BuildWithRaceDetector builds Fanmail and Faulty with the race detector, and wrongclock, into a folder. The race detector needs a
// C compiler.
func BuildWithRaceDetector(ctx context.Context, dir string) (Binaries, error) {
	b := Binaries{Fanmail: filepath.Join(dir, "fanmail"), Faulty: filepath.Join(dir, "faulty")}
	return b, build(ctx, dir, "-race", module+"cmd/fanmail", module+"test/faulty", module+"test/wrongclock")
}

const module = "github.com/fanmail/fanmail/"

// BuildPackages builds the programs of packages of this module into a folder.
func BuildPackages(ctx context.Context, dir string, packages ...string) error {
	paths := make([]string, len(packages))
	for i, name := range packages {
		paths[i] = module + name
	}
	return build(ctx, dir, paths...)
}

// build builds programs into a folder. It leaves out the symbols for debuggers, which halves the time of linking.
func build(ctx context.Context, dir string, args ...string) error {
	args = append([]string{"build", "-ldflags=-w", "-o", dir + string(filepath.Separator)}, args...)
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go %v: %w\n%s", args, err, out)
	}
	return nil
}
