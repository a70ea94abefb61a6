package main

import (
	"context"
	"time"

	"github.com/fanmail/fanmail/internal/bench"
)

// These are the parts of a report.
type (
	Report = bench.Report
	Row    = bench.Row
	Figure = bench.Figure
	Fact   = bench.Fact
)

func figure(name string, value float64, unit string) Figure {
	return Figure{Name: name, Value: value, Unit: unit}
}

// env configures a benchmark, and world is a running server with its own store. The lab's benchmarks are methods of both.
type (
	env   struct{ bench.Env }
	world struct{ *bench.World }
)

// open makes a world. The caller must close it.
func (e env) open(ctx context.Context) (*world, error) {
	w, err := e.Open(ctx)
	return &world{w}, err
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
