package bench_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/fanmail/fanmail/internal/bench"
	"github.com/fanmail/fanmail/test/leaktest"
)

// TestMain is also the process that a benchmark of layouts starts.
func TestMain(m *testing.M) {
	if !slices.Equal(os.Args[1:], bench.SenderCommand) {
		leaktest.Main(m)
	}
	if err := bench.SendLayout(context.Background(), os.Stdin, os.Stdout, time.Now); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
