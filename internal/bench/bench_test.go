package bench_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/bench"
)

// TestBench runs every benchmark with small numbers. A benchmark fails unless its deliveries are exact.
func TestBench(t *testing.T) {
	t.Parallel()
	inboxFigures := []string{
		"page p50", "page p99", "view p50", "view p99", "between p50", "between p99", "login p50", "login p99", "first login p50", "first login p99", "times the first, p50",
	}
	returns := []string{"first page p50", "first page p99", "rebuilt p50", "rebuilt p99"}
	for name, test := range map[string]struct {
		run     func(context.Context, bench.Env) (bench.Report, error)
		figures map[string][]string
	}{
		"fanout": {
			func(ctx context.Context, e bench.Env) (bench.Report, error) {
				return e.Fanout(ctx, bench.FanoutOptions{Followers: []int{100, 1500}, Messages: 2, There: 3})
			},
			map[string][]string{
				"100 followers":  {"deliveries", "raw", "of raw", "raw tables", "of raw tables", "took"},
				"1500 followers": {"deliveries", "raw", "of raw", "raw tables", "of raw tables", "took"},
			},
		},
		"fanout to dormant subscribers": {
			func(ctx context.Context, e bench.Env) (bench.Report, error) {
				return e.Fanout(ctx, bench.FanoutOptions{Followers: []int{2000}, Dormant: 0.5, Messages: 1, Topics: 2})
			},
			map[string][]string{"2000 followers": {"followers", "raw scan", "times a raw scan", "took"}},
		},
		"rounds": {
			func(ctx context.Context, e bench.Env) (bench.Report, error) {
				return e.Fanout(ctx, bench.FanoutOptions{Followers: []int{1500}, Rounds: 3})
			},
			map[string][]string{
				"1500 followers, round 1":       {"deliveries", "raw", "of raw", "processor a delivery", "on disk a delivery"},
				"1500 followers, rounds 2 to 3": {"deliveries", "raw", "of raw", "processor a delivery", "on disk a delivery"},
			},
		},
		"rounds of authors": {
			func(ctx context.Context, e bench.Env) (bench.Report, error) {
				return e.Fanout(ctx, bench.FanoutOptions{Followers: []int{1501}, Rounds: 2, Authors: 3})
			},
			map[string][]string{
				"1501 followers of 3 authors, round 1":       {"deliveries", "raw", "of raw", "processor a delivery", "on disk a delivery"},
				"1501 followers of 3 authors, rounds 2 to 2": {"deliveries", "raw", "of raw", "processor a delivery", "on disk a delivery"},
			},
		},
		"burst": {
			func(ctx context.Context, e bench.Env) (bench.Report, error) {
				return e.Burst(ctx, bench.BurstOptions{Celebrities: 3, Messages: 2, Followers: 1200, Graded: true, Overlap: 0.5, Apart: time.Millisecond})
			},
			map[string][]string{"6 by 3 celebrities": {
				"deliveries", "raw, one by one", "times that", "raw, all at once", "of that", "entries per push", "at most", "of it", "first done", "last done",
				"last to first",
			}},
		},
		"mixed": {
			func(ctx context.Context, e bench.Env) (bench.Report, error) {
				return e.Mixed(ctx, bench.MixedOptions{Followers: 3000, Medium: 1100, Probes: 5})
			},
			map[string][]string{
				"direct message, idle":                                {"readable after p50", "readable after p99"},
				"direct message, beside 20 a second to 1000 each":     {"readable after p50", "readable after p99"},
				"direct message, during the fan-out":                  {"readable after p50", "readable after p99"},
				"direct message, during the fan-out and smaller ones": {"readable after p50", "readable after p99"},
				"to 1100, idle":               {"done after p50", "done after p99"},
				"to 1100, during the fan-out": {"done after p50", "done after p99"},
				"publishing to one":           {"accepted after p50", "accepted after p99"},
				"publishing to 3000":          {"accepted after p50", "accepted after p99", "times one, p50", "times one, p99"},
			},
		},
		"publish": {
			func(ctx context.Context, e bench.Env) (bench.Report, error) {
				return e.Publish(ctx, bench.PublishOptions{Connections: []int{2}, Messages: 20})
			},
			map[string][]string{"2 connections": {"accepted", "raw", "of raw", "took p50", "took p99"}},
		},
		"read": {
			func(ctx context.Context, e bench.Env) (bench.Report, error) {
				return e.Read(ctx, bench.ReadOptions{Entries: []int{60, 5100}, Pages: 3})
			},
			map[string][]string{"60 messages": inboxFigures, "5100 messages": inboxFigures},
		},
		"rehydrate": {
			func(ctx context.Context, e bench.Env) (bench.Report, error) {
				return e.Rehydrate(ctx, bench.RehydrateOptions{Users: 2, Authors: 20, Missed: []int{60}, Topics: 3})
			},
			map[string][]string{"60 missed": returns, "60 missed, topics": returns},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := bench.Env{Config: config.Default(), Dir: t.TempDir(), Logger: zerolog.Nop(), Now: time.Now, Tell: func(string) {}, Body: 200, Busy: true}
			env.Config.NATS.MaxPublished, env.Config.NATS.MaxFanout = 16*config.MiB, 16*config.MiB
			env.Config.NATS.MaxLogin, env.Config.NATS.MaxDLQ = 16*config.MiB, 16*config.MiB
			env.Config.Embedded.Cache, env.Config.Embedded.Memtable = 8*config.MiB, 4*config.MiB
			report, err := test.run(t.Context(), env)
			require.NoError(t, err)
			got := make(map[string][]string)
			for _, row := range report.Rows {
				for _, f := range row.Figures {
					require.Positive(t, f.Value, f.Name)
					if f.Name != "written a body's byte" { // where the folder is on a disk
						got[row.Case] = append(got[row.Case], f.Name)
					}
				}
			}
			require.Equal(t, test.figures, got)
			left, err := os.ReadDir(env.Dir)
			require.NoError(t, err)
			require.Empty(t, left, "nothing is left behind")
		})
	}
}
