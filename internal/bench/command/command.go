// Package command makes the commands of benchmarks, those of the product and those of the lab.
package command

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/bench"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/internal/telemetry"
)

// Command is a command that measures something.
type Command struct {
	*cobra.Command
	// Conclude, unless it is nil, adds to the report with the medians of all runs.
	Conclude func(*bench.Report)
	checks   []func() error
}

// New adds the flags and the run function that all benchmarks share.
func New(p program.Process, cmd *cobra.Command, measure func(context.Context, bench.Env) (bench.Report, error)) *Command {
	c := &Command{Command: cmd}
	cmd.Args = program.Exactly()
	s := program.NewSettings(p, cmd, "store", "mongodb.uri", "mongodb.database", "partitions")
	env := bench.Env{Now: p.Now, Body: 200, Tell: func(what string) {
		_, _ = fmt.Fprintln(p.Stderr, what) // failing to show progress is not an error
	}}
	asJSON, runs := false, 1
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the figures as JSON")
	c.Number(&runs, "runs", 1, "number of runs; the figures are medians")
	c.Number(&env.Body, "body", 1, "length of a message's body in bytes")
	cmd.Flags().StringVar(&env.Dir, "dir", "", "folder, on the disk to be measured, for temporary folders (default the system's)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for _, check := range c.checks {
			if err := check(); err != nil {
				return program.Usage(err)
			}
		}
		if env.Dir == "" {
			env.Dir = os.TempDir()
		}
		var err error
		if env.Config, err = s.Load(); err != nil {
			return err
		}
		logging := telemetry.LogOptions{Level: "warn", Format: env.Config.Log.Format, Writer: p.Stderr, Now: p.Now}
		if env.Logger, err = telemetry.NewLogger(logging); err != nil {
			return err
		}
		report, err := bench.Run(runs, func() (bench.Report, error) { return measure(cmd.Context(), env) })
		if err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		if c.Conclude != nil {
			c.Conclude(&report)
		}
		if asJSON {
			err = json.NewEncoder(p.Stdout).Encode(report)
		} else {
			err = report.Print(p.Stdout)
		}
		if err != nil {
			return fmt.Errorf("print the result: %w", err)
		}
		return nil
	}
	return c
}

// Check adds a check of the flags.
func (c *Command) Check(check func() error) { c.checks = append(c.checks, check) }

// Number adds a flag for a number that is at least low.
func (c *Command) Number(value *int, name string, low int, usage string) {
	c.Flags().IntVar(value, name, *value, usage)
	c.Check(func() error {
		if *value < low {
			return fmt.Errorf("--%s is %d: give %d or more", name, *value, low)
		}
		return nil
	})
}

// Numbers adds a flag for several numbers that are at least 1.
func (c *Command) Numbers(values *[]int, name, usage string) {
	c.Flags().IntSliceVar(values, name, *values, usage)
	c.Check(func() error {
		for _, value := range *values {
			if value < 1 {
				return fmt.Errorf("--%s has %d: give 1 or more", name, value)
			}
		}
		return nil
	})
}

// Share adds a flag for a number from 0 to 1.
func (c *Command) Share(value *float64, name, usage string) {
	c.Flags().Float64Var(value, name, *value, usage)
	c.Check(func() error {
		if !(*value >= 0 && *value <= 1) { // NaN is neither
			return fmt.Errorf("--%s is %g: give a number from 0 to 1", name, *value)
		}
		return nil
	})
}
