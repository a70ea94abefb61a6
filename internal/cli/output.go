package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/cli/program"
)

const jsonFlag = "json"

// output prints the result of a command.
type output struct {
	w    io.Writer
	json bool
}

// newOutput returns the output of a command to standard output, with --json.
func newOutput(p program.Process, cmd *cobra.Command, usage string) *output {
	o := &output{w: p.Stdout}
	cmd.Flags().BoolVar(&o.json, jsonFlag, false, usage)
	return o
}

// tableOf writes a table with a row for each value, below a header; nothing if there are no values.
func tableOf[T any](w io.Writer, header []string, values []T, row func(T) []string) error {
	rows := make([][]string, len(values))
	for i, value := range values {
		rows[i] = row(value)
	}
	return printTable(w, header, rows)
}

// print writes a result: as one line of JSON, or as text.
func (o *output) print(result any, text func(w io.Writer) error) error {
	if o.json {
		return o.line(result)
	}
	return text(o.w)
}

// sayf is print with a format of the text.
func (o *output) sayf(result any, format string, args ...any) error {
	return o.print(result, func(w io.Writer) error { return printf(w, format, args...) })
}

// line writes a value as one line of JSON.
func (o *output) line(value any) error {
	encoder := json.NewEncoder(o.w)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

// printf writes text. Its error says that printing failed.
func printf(w io.Writer, format string, args ...any) error {
	if _, err := fmt.Fprintf(w, format, args...); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

// firstLine returns the first line of a body that is not blank.
func firstLine(body string) string {
	line, _, _ := strings.Cut(strings.TrimLeft(body, " \t\r\n"), "\n")
	return strings.TrimRight(line, " \t\r")
}

// fit cuts s to at most width columns of a terminal. A width of 0 or less means no limit.
func fit(s string, width int) string {
	if width <= 0 || uniseg.StringWidth(s) <= width {
		return s
	}
	const ellipsis = "…"
	end, columns := 0, 0
	for graphemes := uniseg.NewGraphemes(s); graphemes.Next(); {
		if columns += graphemes.Width(); columns > width-1 {
			break
		}
		_, end = graphemes.Positions()
	}
	return s[:end] + ellipsis
}

// pad appends spaces to s until it takes width columns.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-uniseg.StringWidth(s)))
}

// table prints rows in columns, which may grow from one call of print to the next.
type table struct {
	w      io.Writer
	widths []int
}

// printTable prints rows in columns, below a header; nothing if there are no rows.
func printTable(w io.Writer, header []string, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	return (&table{w: w}).print(append([][]string{header}, rows...))
}

func (t *table) print(rows [][]string) error {
	for _, row := range rows {
		t.widths = append(t.widths, make([]int, max(0, len(row)-len(t.widths)))...)
		for i, cell := range row {
			cell = program.Printable(cell)
			row[i], t.widths[i] = cell, max(t.widths[i], uniseg.StringWidth(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(pad(cell, t.widths[i]) + "  ")
		}
		if err := printf(t.w, "%s\n", strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// age returns a duration in its largest unit, such as 5 min.
func age(d time.Duration) string {
	const day = 24 * time.Hour
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{day, " d"}, {time.Hour, " h"}, {time.Minute, " min"}} {
		if d >= unit.of {
			return count(int64(d/unit.of)) + unit.name
		}
	}
	return count(int64(max(0, d)/time.Second)) + " s"
}

// count returns a number with commas between thousands.
func count[N int | int64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// plural returns a number and the matching form of a noun.
func plural[N int | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + many
}

// seconds returns a duration in seconds with one decimal, or in milliseconds if it is shorter than a second.
func seconds(d time.Duration) string {
	if d < time.Second {
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	}
	return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
}
