package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/verdict"
)

// auditCommand audits inboxes.
type auditCommand struct {
	process program.Process
	output  *output
	options client.AuditOptions
	bar     *progress // nil until the number of users is known
}

func newAudit(p program.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Recompute inboxes, and report missing, extra and double entries",
		Long: "Recompute inboxes from the stored messages and edges, and compare them with the stored inboxes. Report entries\n" +
			"that are missing, extra, double, different or out of order. You can run it while the server works: it counts\n" +
			"deliveries in progress separately, and reports a finding only if a second read confirms it.\n\n" +
			"With --repair, the server appends missing entries and removes extra and double ones.\n" +
			"The exit code is 1 if a finding remains at the end.",
		Example: "  fanmail audit --sample 1000\n  fanmail audit --user ben --repair\n  fanmail audit --json | jq -c 'select(.finding)'",
		Args:    program.Exactly(),
	}
	a := auditCommand{process: p, output: newOutput(p, cmd, "print each finding, and last the summary, as one line of JSON")}
	cmd.Flags().StringVar((*string)(&a.options.User), "user", "", "audit one user")
	cmd.Flags().IntVar(&a.options.Sample, "sample", 0, "audit this number of users, chosen at random (default all users)")
	cmd.Flags().BoolVar(&a.options.Repair, "repair", false, "repair findings")
	return onServer(p, app.Rehydrator, cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		if err := a.check(cmd.Flags().Changed("user"), cmd.Flags().Changed("sample")); err != nil {
			return program.Usage(err)
		}
		return a.run(ctx, c)
	})
}

func (a *auditCommand) check(user, sample bool) error {
	switch {
	case user && sample:
		return errors.New("--user asks for one user, --sample for several: give one of them")
	case sample && a.options.Sample < 1:
		return fmt.Errorf("--sample is %d: give 1 or more, or leave it out for all users", a.options.Sample)
	case user:
		return a.options.User.Validate("user")
	}
	return nil
}

func (a *auditCommand) run(ctx context.Context, c *client.Client) error {
	defer func() {
		if a.bar != nil {
			a.bar.close()
		}
	}()
	for line, err := range c.Audit(ctx, a.options) {
		switch {
		case err != nil:
			return err
		case line.Progress != nil:
			a.progress(*line.Progress)
		case line.Finding != nil:
			if err := a.print(line, func(w io.Writer) error { return printFinding(w, *line.Finding) }); err != nil {
				return err
			}
		case line.Summary != nil:
			return a.end(line)
		}
	}
	return ctx.Err()
}

func (a *auditCommand) progress(p verdict.Progress) {
	if a.bar == nil {
		a.bar = newProgress(a.process, "audited users", p.Of)
	}
	a.bar.set(p.Users)
}

// print removes the progress and prints a line. The progress appears again when it goes on.
func (a *auditCommand) print(line client.AuditLine, text func(io.Writer) error) error {
	if a.bar != nil {
		a.bar.close()
	}
	return a.output.print(line, text)
}

func (a *auditCommand) end(line client.AuditLine) error {
	summary := *line.Summary
	if err := a.print(line, func(w io.Writer) error { return printAudit(w, summary, a.options.Repair) }); err != nil {
		return err
	}
	remaining := total(summary.Remaining)
	if remaining == 0 {
		return nil
	}
	advice := "'fanmail audit --repair' repairs the findings that can be repaired"
	if a.options.Repair {
		advice = "each finding above says why it was not repaired"
	}
	return fmt.Errorf("audit: %s: %s", plural(remaining, "finding remains", "findings remain"), advice)
}

func printFinding(w io.Writer, f client.Finding) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", f.User, f.Kind)
	if !f.Message.IsZero() {
		fmt.Fprintf(&b, " %s", f.Message)
	}
	if f.From != "" {
		fmt.Fprintf(&b, " by %s", f.From)
	}
	if f.Bucket != nil && f.Slot != nil {
		fmt.Fprintf(&b, " in bucket %d, slot %d", *f.Bucket, *f.Slot)
	}
	fmt.Fprintf(&b, ": %s", f.Detail)
	switch {
	case f.Repaired:
		b.WriteString("; repaired")
	case f.Note != "":
		b.WriteString("; " + f.Note)
	}
	return printf(w, "%s\n", program.Printable(b.String()))
}

func printAudit(w io.Writer, s verdict.Summary, repair bool) error {
	err := printf(w, "audited    %s, %s, %s expected\nfound      %s\n",
		plural(s.Users, "user", "users"), plural(s.Entries, "entry", "entries"), count(s.Expected), kinds(s.Found))
	if err == nil && repair {
		err = printf(w, "repaired   %s\nremaining  %s\n", kinds(s.Repaired), kinds(s.Remaining))
	}
	if err != nil {
		return err
	}
	var apart []string
	for _, n := range []struct {
		count int64
		what  string
	}{
		{s.InFlight, "in flight"},
		{s.DeadLettered, "among the dead letters"},
		{s.Tolerated, "tolerated"},
	} {
		if n.count > 0 {
			apart = append(apart, count(n.count)+" "+n.what)
		}
	}
	if s.Rehydrating > 0 {
		apart = append(apart, plural(s.Rehydrating, "user", "users")+" being rehydrated")
	}
	if len(apart) == 0 {
		return nil
	}
	return printf(w, "apart      %s\n", strings.Join(apart, ", "))
}

// kinds returns the number of findings of each kind as text.
func kinds(counts map[verdict.Kind]int64) string {
	if len(counts) == 0 {
		return "nothing"
	}
	texts := make([]string, 0, len(counts))
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		texts = append(texts, count(counts[kind])+" "+program.Printable(string(kind)))
	}
	return strings.Join(texts, ", ")
}

func total(counts map[verdict.Kind]int64) int64 {
	sum := int64(0)
	for _, n := range counts {
		sum += n
	}
	return sum
}
