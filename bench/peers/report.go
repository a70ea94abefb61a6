package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// measured is what one run of a row has measured. All times are in seconds from the call that published the first message.
type measured struct {
	// all is until the reader has found every message in every inbox, first until it has found any message.
	all, first float64
	// counting is how long the reader took to count all inboxes, once everything was there. It is a part of all.
	counting float64
	// complete is for each watched inbox until the reader has found all messages there.
	complete []float64
}

// spread is a median with the lowest and the highest value.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// row is a row of the report.
type row struct {
	Case      string `json:"case"`
	Delivered string `json:"delivered"`
	Durable   string `json:"durable"`
	// Seconds is until everything is delivered.
	Seconds spread `json:"seconds"`
	// CountingSeconds is the part of Seconds in which the reader counts all inboxes for the last time.
	CountingSeconds     spread `json:"counting_seconds"`
	DeliveriesPerSecond spread `json:"deliveries_per_second"`
	// FirstSeconds is until the first delivery is found. P50Seconds and P99Seconds are until an inbox has all messages.
	FirstSeconds spread `json:"first_seconds"`
	P50Seconds   spread `json:"p50_seconds"`
	P99Seconds   spread `json:"p99_seconds"`
}

// fact is a condition of the comparison.
type fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// report is the result.
type report struct {
	Facts     []fact `json:"facts"`
	Followers int    `json:"followers"`
	Messages  int    `json:"messages"`
	Body      int    `json:"body"`
	Runs      int    `json:"runs"`
	Rows      []row  `json:"rows"`
}

// newRow returns the row of a peer from its runs, of which there is at least one.
func newRow(p peer, deliveries int, runs []measured) row {
	over := func(value func(measured) float64) spread {
		values := make([]float64, len(runs))
		for i, r := range runs {
			values[i] = value(r)
		}
		return newSpread(values)
	}
	percent := func(p int) spread { return over(func(r measured) float64 { return percentile(r.complete, p) }) }
	return row{
		Case: p.name, Delivered: p.delivered, Durable: p.durable,
		Seconds:             over(func(r measured) float64 { return r.all }),
		CountingSeconds:     over(func(r measured) float64 { return r.counting }),
		DeliveriesPerSecond: over(func(r measured) float64 { return float64(deliveries) / r.all }),
		FirstSeconds:        over(func(r measured) float64 { return r.first }),
		P50Seconds:          percent(50),
		P99Seconds:          percent(99),
	}
}

// newSpread returns the spread of at least one value. Of an even number, the median is the lower one in the middle.
func newSpread(values []float64) spread {
	sorted := slices.Sorted(slices.Values(values))
	return spread{Median: sorted[(len(sorted)-1)/2], Min: sorted[0], Max: sorted[len(sorted)-1]}
}

// percentile returns the smallest of the values that at least the given percentage of them do not exceed.
func percentile(values []float64, percent int) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}

// places returns evenly spread places of a list, including the first and the last one: n of them, or all if there are fewer.
func places(n, length int) []int {
	if n >= length {
		n = length
	}
	found := make([]int, n)
	for i := range found {
		found[i] = i * (length - 1) / max(1, n-1)
	}
	return found
}

// since returns the seconds between two moments of one clock, in nanoseconds.
func since(start, end int64) float64 { return float64(end-start) / float64(time.Second) }

// print writes the report as JSON or as text.
func (r report) print(w io.Writer, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d messages of %d bytes to %d followers: %d deliveries. Medians of %d runs, with the lowest and the highest.\n\n",
		r.Messages, r.Body, r.Followers, r.Messages*r.Followers, r.Runs)
	for _, f := range r.Facts {
		fmt.Fprintf(&text, "%s: %s\n", f.Name, f.Value)
	}
	text.WriteByte('\n')
	lines := []string{"\tdeliveries/s\tall delivered\tof it counting\tfirst found\tan inbox has all, p50\tp99"}
	for _, r := range r.Rows {
		lines = append(lines, strings.Join([]string{
			r.Case, r.DeliveriesPerSecond.format(number), r.Seconds.format(seconds), seconds(r.CountingSeconds.Median),
			seconds(r.FirstSeconds.Median), seconds(r.P50Seconds.Median), seconds(r.P99Seconds.Median),
		}, "\t"))
	}
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(table, strings.Join(lines, "\n")+"\n"); err != nil {
		return err
	}
	if err := table.Flush(); err != nil {
		return err
	}
	text.WriteByte('\n')
	for _, r := range r.Rows {
		fmt.Fprintf(&text, "%s\n  delivered: %s\n  durable: %s\n", r.Case, r.Delivered, r.Durable)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// format writes the median and, in brackets, the range.
func (s spread) format(write func(float64) string) string {
	return fmt.Sprintf("%s (%s to %s)", write(s.Median), write(s.Min), write(s.Max))
}

// seconds writes a time with two or three digits.
func seconds(value float64) string {
	switch {
	case value < 0.1:
		return fmt.Sprintf("%.0f ms", value*1000)
	case value < 10:
		return fmt.Sprintf("%.2f s", value)
	default:
		return fmt.Sprintf("%.0f s", value)
	}
}

// number writes a number with three digits that count, and a comma before each three.
func number(value float64) string {
	if value <= 0 {
		return "0"
	}
	unit := math.Pow(10, math.Max(0, math.Floor(math.Log10(value))-2))
	digits := fmt.Sprintf("%.0f", math.Round(value/unit)*unit)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
