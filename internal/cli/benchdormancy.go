package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/bench"
	"github.com/fanmail/fanmail/internal/bench/trace"
	"github.com/fanmail/fanmail/internal/cli/program"
)

func newBenchDormancy(p program.Process) *cobra.Command {
	o := bench.DormancyOptions{Followers: 100_000, Returns: 1000}
	population := trace.DefaultPopulation()
	b := newBenchmark(p, &cobra.Command{
		Use:   "dormancy [FILE]",
		Short: "Compute what thresholds of dormancy cost",
		Long: "Measure what a copy, a rebuild and a page cost. With these prices, compute what policies of dormancy cost in the\n" +
			"second half of a recorded trace: thresholds of 1 to 365 days, the one that is cheapest in the first half, habits\n" +
			"of users that are learned in the first half, and the optimum with hindsight. FILE has a JSON object on each\n" +
			"line, a view or a message:\n\n" +
			"  {\"view\":\"ben\",\"time\":\"2026-01-02T15:04:05Z\"}\n" +
			"  {\"publish\":\"ann\",\"to\":[\"ben\",\"cy\"],\"time\":\"2026-01-02T15:04:05Z\"}\n\n" +
			"It may be compressed with gzip; - stands for standard input. Without FILE the trace is synthetic:\n" + population.String() + ".\n" +
			"Costs are seconds of this machine while it does nothing else.",
		Example: "  fanmail bench dormancy\n  fanmail bench dormancy trace.ndjson.gz --plot dormancy.svg",
	}, func(ctx context.Context, e bench.Env) (bench.Report, error) { return e.Dormancy(ctx, o) })
	b.number(&o.Followers, "followers", "size of the audience with which copies are priced")
	b.number(&o.Returns, "returns", "number of users with whom rebuilds are priced")
	b.cmd.Args = cobra.MaximumNArgs(1)
	run := b.cmd.RunE
	b.cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if len(args) == 0 {
			o.Trace = trace.Synthetic(population)
		} else if o.Trace, err = readTrace(cmd.Context(), p, args[0]); err != nil {
			return err
		}
		return run(cmd, nil)
	}
	return b.cmd
}

// readTrace reads a recorded trace.
func readTrace(ctx context.Context, p program.Process, path string) (_ *trace.Trace, err error) {
	file, err := openSource(ctx, p, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.close()) }()
	t := trace.New()
	err = file.each(ctx, func(l line) error {
		err := fmt.Errorf("is longer than %d bytes", maxLineBytes)
		if !l.long {
			err = t.AddLine(l.text)
		}
		if err != nil {
			return fmt.Errorf("%s: line %d: %w", file.name, l.number, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(t.Inboxes) == 0 {
		return nil, fmt.Errorf("%s has no views and no messages", file.name)
	}
	t.Sort()
	return t, nil
}
