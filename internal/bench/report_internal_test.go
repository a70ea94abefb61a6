package bench

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRunGivesMedians runs a benchmark three times. Each figure is the median, with the lowest and the highest beside it.
func TestRunGivesMedians(t *testing.T) {
	t.Parallel()
	once := func(values ...float64) func() (Report, error) {
		next := 0
		return func() (Report, error) {
			value := values[next]
			next++
			return Report{Rows: []Row{{Case: "a", Figures: []Figure{{"took", value, "ms"}, {"share", 0, ""}}}}}, nil
		}
	}
	report, err := Run(3, once(5, 9, 7))
	require.NoError(t, err)
	require.Equal(t, 3, report.Runs)
	text, err := json.Marshal(report.Rows)
	require.NoError(t, err)
	require.JSONEq(t, `[{
		"case": "a", "figures": [{"name": "took", "value": 7, "unit": "ms"}, {"name": "share", "value": 0}],
		"low": [{"name": "took", "value": 5, "unit": "ms"}, {"name": "share", "value": 0}],
		"high": [{"name": "took", "value": 9, "unit": "ms"}, {"name": "share", "value": 0}]
	}]`, string(text))

	report, err = Run(1, once(5))
	require.NoError(t, err)
	text, err = json.Marshal(report.Rows)
	require.NoError(t, err)
	require.JSONEq(t, `[{"case": "a", "figures": [{"name": "took", "value": 5, "unit": "ms"}, {"name": "share", "value": 0}]}]`, string(text))
}
