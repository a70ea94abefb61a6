package monitoring_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/app"
)

// documented is a metric as docs/metrics.md describes it.
type documented struct {
	kind   string
	labels []string
	unit   string
	from   string
}

var code = regexp.MustCompile("`([^`]+)`")

// page returns the table of docs/metrics.md.
func page(t *testing.T) map[string]documented {
	t.Helper()
	table := make(map[string]documented)
	for line := range strings.Lines(read(t, metricsPage)) {
		if !strings.HasPrefix(line, "| `fanmail_") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		require.Len(t, cells, 7, line)
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		name := strings.Trim(cells[0], "`")
		require.NotContains(t, table, name, "it is there twice")
		var labels []string
		for _, label := range code.FindAllStringSubmatch(cells[2], -1) {
			labels = append(labels, label[1])
		}
		slices.Sort(labels)
		require.NotEmpty(t, cells[5], "%s has no meaning", name)
		require.NotEmpty(t, cells[6], "there is nothing to do with %s", name)
		table[name] = documented{kind: cells[1], labels: labels, unit: cells[3], from: cells[4]}
	}
	require.NotEmpty(t, table)
	return table
}

// described returns a metric as the page is to describe it.
func described(family *dto.MetricFamily) (kind string, labels []string) {
	seen := make(map[string]bool)
	for _, metric := range family.GetMetric() {
		for _, label := range metric.GetLabel() {
			seen[label.GetName()] = true
		}
	}
	return strings.ToLower(family.GetType().String()), slices.Sorted(maps.Keys(seen))
}

// A process that has done nothing yet has every metric that the page describes, with its labels, and no other.
func TestPageIsTheTruth(t *testing.T) {
	t.Parallel()
	table, running := page(t), families(t, scrape(t))
	require.Equal(t, slices.Sorted(maps.Keys(table)), slices.Sorted(maps.Keys(running)))
	for name, family := range running {
		kind, labels := described(family)
		want := table[name]
		require.Equal(t, want.kind, kind, name)
		require.Equal(t, want.labels, labels, name)
		require.NotEmpty(t, family.GetHelp(), name)
	}
}

// The name of a metric ends in its unit.
func TestUnitsAreInNames(t *testing.T) {
	t.Parallel()
	for name, metric := range page(t) {
		base := strings.TrimSuffix(name, "_total")
		require.Equal(t, metric.kind == "counter", base != name, "%s: counters end in _total", name)
		for _, unit := range []string{"seconds", "bytes"} {
			require.Equal(t, metric.unit == unit, strings.HasSuffix(base, "_"+unit), name)
		}
	}
}

// Processes have the metrics of their roles, and no others.
func TestRolesHaveTheirMetrics(t *testing.T) {
	t.Parallel()
	for role, word := range map[app.Role]string{app.Publisher: "publisher", app.FanoutWorker: "worker", app.Rehydrator: "rehydrator"} {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			var want []string
			for name, metric := range page(t) {
				if slices.Contains(strings.Split(metric.from, ", "), word) || metric.from == "all" || metric.from == "embedded" {
					want = append(want, name)
				}
			}
			slices.Sort(want)
			require.Equal(t, want, slices.Sorted(maps.Keys(families(t, scrape(t, role)))))
		})
	}
}
