package cli

import (
	"context"

	"github.com/fanmail/fanmail/internal/cli/program"
)

// Main runs a command line of fanmail and returns its exit code. When ctx ends, the command ends cleanly.
func Main(ctx context.Context, p program.Process) int {
	return program.Run(ctx, p, newRoot(p)) //nolint:contextcheck // the command gets ctx
}
