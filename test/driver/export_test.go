package main

import (
	"context"
	"io"
	"time"
)

// Run exports run to the tests.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer, now func() time.Time) int {
	return run(ctx, args, program{stdout: stdout, stderr: stderr, now: now})
}
