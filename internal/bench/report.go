package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Figure is one measured number.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	// Unit is the unit of the value, for example "ms"; empty for a ratio.
	Unit string `json:"unit,omitempty"`
}

// Row holds the figures of one case.
type Row struct {
	Case    string   `json:"case"`
	Figures []Figure `json:"figures"`
	// Low and High are the lowest and the highest of several runs, in the order of the figures; nil after one run.
	Low  []Figure `json:"low,omitempty"`
	High []Figure `json:"high,omitempty"`
	// X is the position of the row in a plot; 0 if the row is not plotted.
	X float64 `json:"x,omitempty"`
}

// Fact is a condition of a run that is no number.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Report is the result of a benchmark.
type Report struct {
	Benchmark string `json:"benchmark"`
	Store     string `json:"store"`
	// Runs is the number of runs. Each figure is the median of them.
	Runs int `json:"runs"`
	// Facts are those of the first run. Only the lab has facts and conclusions.
	Facts       []Fact `json:"facts,omitempty"`
	Rows        []Row  `json:"rows"`
	Conclusions []Fact `json:"conclusions,omitempty"`
	// XName is the name of the rows' X, and Plotted are the names of the figures in a plot, which the lab draws.
	XName   string   `json:"x_name,omitempty"`
	Plotted []string `json:"plotted,omitempty"`
}

// median returns a report with the medians of several runs of the same benchmark.
func median(runs []Report) Report {
	report := runs[0]
	report.Runs = len(runs)
	for r := range report.Rows {
		row := &report.Rows[r]
		if len(runs) > 1 {
			row.Low, row.High = slices.Clone(row.Figures), slices.Clone(row.Figures)
		}
		for f := range row.Figures {
			values := make([]float64, len(runs))
			for i, run := range runs {
				values[i] = run.Rows[r].Figures[f].Value
			}
			slices.Sort(values)
			if len(runs) > 1 {
				row.Low[f].Value, row.High[f].Value = values[0], values[len(values)-1]
			}
			row.Figures[f].Value = values[(len(values)-1)/2]
		}
	}
	return report
}

// Times are measured durations.
type Times []time.Duration

// Percentile returns a percentile of the times in milliseconds. It sorts the times.
func (t Times) Percentile(percent int) float64 {
	slices.Sort(t)
	return milliseconds(t[(len(t)-1)*percent/100])
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// Latency returns the percentiles 50 and 99.
func Latency(name string, t Times) []Figure {
	return []Figure{{name + " p50", t.Percentile(50), "ms"}, {name + " p99", t.Percentile(99), "ms"}}
}

// Run runs a benchmark several times, and returns the medians.
func Run(runs int, benchmark func() (Report, error)) (Report, error) {
	reports := make([]Report, runs)
	for i := range reports {
		var err error
		if reports[i], err = benchmark(); err != nil {
			return Report{}, err
		}
	}
	return median(reports), nil
}

// Print prints a line for each figure, under its case.
func (r Report) Print(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s, store %s", r.Benchmark, r.Store)
	if r.Runs > 1 {
		fmt.Fprintf(&text, ", medians of %d runs, with the lowest and the highest", r.Runs)
	}
	text.WriteByte('\n')
	for _, f := range r.Facts {
		fmt.Fprintf(&text, "  %-22s %s\n", f.Name, f.Value)
	}
	for _, row := range r.Rows {
		fmt.Fprintln(&text, row.Case)
		for i, f := range row.Figures {
			fmt.Fprintf(&text, "  %-22s %12s %s", f.Name, digits(f.Value), f.Unit)
			if row.Low != nil {
				fmt.Fprintf(&text, " (%s to %s)", digits(row.Low[i].Value), digits(row.High[i].Value))
			}
			text.WriteByte('\n')
		}
	}
	for _, c := range r.Conclusions {
		fmt.Fprintf(&text, "%s: %s\n", c.Name, c.Value)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// digits formats a number with its significant digits, and with commas between thousands.
func digits(value float64) string {
	switch {
	case value >= 1000:
		text := strconv.FormatInt(int64(value), 10)
		for i := len(text) - 3; i > 0; i -= 3 {
			text = text[:i] + "," + text[i:]
		}
		return text
	case value >= 100 || value == math.Trunc(value):
		return strconv.FormatFloat(value, 'f', 0, 64)
	default:
		return strconv.FormatFloat(value, 'f', 2, 64)
	}
}
