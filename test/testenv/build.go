// Package testenv runs the built programs for tests that look at them from outside: servers that can be killed and
// started again, and commands.
package testenv

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Binaries are the paths of the programs.
type Binaries struct {
	// Fanmail is the product, Faulty the same server with a failpoint.
	Fanmail, Faulty string
	// Publisher, FanoutWorker and Rehydrator are the roles.
	Publisher, FanoutWorker, Rehydrator string
	// NATS is the NATS server, of the version that the embedded one has.
	NATS string
	// Driver publishes and lets users come back, Check compares what was published with what arrived, Tamper damages it.
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

// BuildWithRaceDetector builds Fanmail and Faulty into a folder, and wrongclock, with the race detector. That needs a C compiler.
func BuildWithRaceDetector(ctx context.Context, dir string) (Binaries, error) {
	b := Binaries{Fanmail: filepath.Join(dir, "fanmail"), Faulty: filepath.Join(dir, "faulty")}
	return b, build(ctx, dir, "-race", module+"cmd/fanmail", module+"test/faulty", module+"test/wrongclock")
}

const module = "github.com/fanmail/fanmail/"

// build builds programs into a folder. Without the symbols for debuggers the linker takes half as long.
func build(ctx context.Context, dir string, args ...string) error {
	args = append([]string{"build", "-ldflags=-w", "-o", dir + string(filepath.Separator)}, args...)
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go %v: %w\n%s", args, err, out)
	}
	return nil
}
