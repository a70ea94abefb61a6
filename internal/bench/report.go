package bench

import (
	"slices"
	"time"
)

// Figure is one number that was measured.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	// Unit is what the value counts, such as "ms"; empty for a ratio.
	Unit string `json:"unit,omitempty"`
}

// Row is what was measured in one case.
type Row struct {
	Case    string   `json:"case"`
	Figures []Figure `json:"figures"`
	// X is where the row is in a plot; 0 if it is in none.
	X float64 `json:"x,omitempty"`
}

// Report is the result of a benchmark.
type Report struct {
	Benchmark string `json:"benchmark"`
	Store     string `json:"store"`
	// Runs is of how many runs each figure is the median.
	Runs int   `json:"runs"`
	Rows []Row `json:"rows"`
	// XName says what the rows' X is, and Plotted which figures are drawn over it.
	XName   string   `json:"x_name,omitempty"`
	Plotted []string `json:"plotted,omitempty"`
}

// median returns the report of several runs of the same benchmark.
func median(runs []Report) Report {
	report := runs[0]
	report.Runs = len(runs)
	for r := range report.Rows {
		for f := range report.Rows[r].Figures {
			values := make([]float64, len(runs))
			for i, run := range runs {
				values[i] = run.Rows[r].Figures[f].Value
			}
			slices.Sort(values)
			report.Rows[r].Figures[f].Value = values[(len(values)-1)/2]
		}
	}
	return report
}

// times are durations that were measured.
type times []time.Duration

// percentile returns the time that so many percent of all are at or below, in milliseconds.
func (t times) percentile(percent int) float64 {
	slices.Sort(t)
	return milliseconds(t[(len(t)-1)*percent/100])
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// latency returns the percentiles that matter.
func latency(name string, t times) []Figure {
	return []Figure{{name + " p50", t.percentile(50), "ms"}, {name + " p99", t.percentile(99), "ms"}}
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
