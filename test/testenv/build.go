// Package testenv runs the built programs for tests that look at them from outside: servers that can be killed and
// started again, and commands.
package testenv

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
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

// Build builds the programs into a folder, servers with the race detector if that is asked for.
func Build(ctx context.Context, dir string, race bool) (Binaries, error) {
	b := Binaries{
		Fanmail: filepath.Join(dir, "fanmail"), Faulty: filepath.Join(dir, "faulty"),
		Driver: filepath.Join(dir, "driver"), Check: filepath.Join(dir, "check"),
		Tamper:    filepath.Join(dir, "tamper"),
		Publisher: filepath.Join(dir, "publisher"), FanoutWorker: filepath.Join(dir, "fanout-worker"), Rehydrator: filepath.Join(dir, "rehydrator"),
		NATS: filepath.Join(dir, "nats-server"),
	}
	const module = "github.com/fanmail/fanmail/"
	// Without what debuggers need it takes half as long to link them.
	build := []string{"build", "-ldflags=-w", "-o", dir + string(filepath.Separator)}
	servers := slices.Clone(build)
	if race {
		servers = append(servers, "-race")
	}
	if err := goTool(ctx, append(servers, module+"cmd/...", module+"test/faulty", module+"test/wrongclock")); err != nil {
		return b, err
	}
	return b, goTool(ctx, append(build, module+"test/driver", module+"test/check", module+"test/tamper", "github.com/nats-io/nats-server/v2"))
}

func goTool(ctx context.Context, args []string) error {
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go %v: %w\n%s", args, err, out)
	}
	return nil
}
