package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
)

const (
	// topEvery is the time between two overviews.
	topEvery = time.Second
	// topMessages is how many of the messages under way are shown.
	topMessages = 10
	// clearScreen clears a terminal.
	clearScreen = "\x1b[H\x1b[2J"
)

// seen is an overview, and the oldest messages under way.
type seen struct {
	client.Overview
	Messages []client.MessageProgress `json:"messages,omitempty"`
}

func newTop(p program.Process) *cobra.Command {
	once := false
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show what all processes do, and what is wrong, every second",
		Long: "Show the lanes of messages on their way, all processes, the oldest messages under way, and what needs an operator,\n" +
			"every second until you interrupt it. Rates are those between the last two reports of each process, which come every\n" +
			"10 s. Messages are shown if the server has the role publisher as well.",
		Example: "  fanmail top\n  fanmail top --once --json | jq '.warnings'",
		Args:    program.Exactly(),
	}
	out := newOutput(p, cmd, "print each overview as one line of JSON")
	cmd.Flags().BoolVar(&once, "once", false, "print one overview, and end")
	return onServer(p, app.Rehydrator, cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		ticker := time.NewTicker(topEvery)
		defer ticker.Stop()
		for {
			overview, err := c.Overview(ctx)
			now := seen{Overview: overview}
			if err == nil {
				if page, err := c.Messages(ctx, client.MessagesQuery{Limit: topMessages}); err == nil { // otherwise it is no publisher
					now.Messages = page.Messages
				}
				err = out.print(now, func(w io.Writer) error {
					var screen bytes.Buffer
					if !once && p.Width(w) > 0 {
						screen.WriteString(clearScreen)
					}
					if err := printSeen(p, &screen, now); err != nil {
						return err
					}
					return printf(w, "%s", screen.Bytes())
				})
			}
			if ctx.Err() != nil { // it was interrupted
				return nil
			}
			if err != nil || once {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
		}
	})
}

func printSeen(p program.Process, w io.Writer, now seen) error {
	lanes := [][]string{{"lane", "waiting", "oldest", "a second", "empty in"}}
	for _, l := range now.Lanes {
		least := ""
		if l.AtLeast {
			least = "at least "
		}
		lanes = append(lanes, []string{
			l.Lane, count(l.Waiting), shortly(&l.OldestSeconds), least + decimal(l.Rate), shortly(l.SecondsToEmpty),
		})
	}
	processes := [][]string{{"process", "roles", "version", "address", "state", "seen", "accepted/s", "delivered/s"}}
	for _, o := range now.Processes {
		state := o.State
		if !o.Alive {
			state = "gone"
		}
		processes = append(processes, []string{
			o.Name, o.Role, o.Version, o.Address, state, showTime(o.Seen.Time), decimal(o.AcceptedRate), decimal(o.DeliveredRate),
		})
	}
	for _, rows := range [][][]string{lanes, processes} {
		if len(rows) == 1 {
			continue
		}
		for _, row := range rows {
			for i := range row {
				row[i] = program.Printable(row[i])
			}
		}
		if err := (&table{w: w}).print(append(rows, nil)); err != nil {
			return err
		}
	}
	if len(now.Messages) > 0 {
		if err := printMessageRows(p, &table{w: w}, now.Messages); err != nil {
			return err
		}
		if err := printf(w, "\n"); err != nil {
			return err
		}
	}
	return printCounts(w, now)
}

func printCounts(w io.Writer, now seen) error {
	var text strings.Builder
	if r := now.Rehydrations; r != nil {
		fmt.Fprintf(&text, "rehydrations  %s waiting, %s running\n", count(r.Waiting), count(r.Running))
	}
	if d := now.DeadLetters; d != nil {
		fmt.Fprintf(&text, "dead letters  %s\n", count(d.Total))
	}
	if t := now.Totals; t != nil {
		fmt.Fprintf(&text, "ever          %s accepted, %s delivered, about %s skipped\n",
			count(t.Accepted), count(t.Delivered), count(t.Skipped.Dormant+t.Skipped.NeverSeen+t.Skipped.Blocked))
	}
	for _, warning := range now.Warnings {
		fmt.Fprintf(&text, "! %s\n", program.Printable(warning.Text))
	}
	return printf(w, "%s", &text)
}

// decimal returns a number with one decimal, or "-" without one.
func decimal(n *float64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatFloat(*n, 'f', 1, 64)
}

// shortly returns a duration in seconds in its largest unit, or "-" without one.
func shortly(s *float64) string {
	if s == nil || *s == 0 {
		return "-"
	}
	return age(time.Duration(*s * float64(time.Second)))
}
