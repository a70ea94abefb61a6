package monitoring_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// runbook is the public address of docs/operations.md: a pager shows it where there is no clone.
const runbook = "https://github.com/fanmail/fanmail/blob/main/docs/operations.md"

// rule is a recording rule or an alert.
type rule struct {
	Record, Alert, Expr, For string
	Labels, Annotations      map[string]string
}

func rules(t *testing.T) []rule {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(read(t, rulesFile)), &file))
	var all []rule
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	require.NotEmpty(t, all)
	return all
}

// recorded returns the names of the recording rules.
func recorded(t *testing.T) (names []string) {
	t.Helper()
	for _, r := range rules(t) {
		if r.Record != "" {
			names = append(names, r.Record)
		}
	}
	return names
}

var (
	// selector matches a metric in an expression, with its matchers.
	selector = regexp.MustCompile(`\b(fanmail[_:][a-zA-Z0-9_:]+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)\s*(?:=|!=|=~|!~)\s*"`)
)

// requireKnown requires that every metric of Fanmail in an expression is one, or is recorded, and has the labels it is asked by.
func requireKnown(t *testing.T, where, expression string) {
	t.Helper()
	table, recorded := page(t), recorded(t)
	for _, found := range selector.FindAllStringSubmatch(expression, -1) {
		name := found[1]
		if slices.Contains(recorded, name) {
			continue
		}
		metric, ok := table[name]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base := strings.TrimSuffix(name, suffix); !ok && base != name && table[base].kind == "histogram" {
				metric, ok = table[base], true
			}
		}
		require.True(t, ok, "%s: there is no metric %s", where, name)
		for _, label := range matcher.FindAllStringSubmatch(found[2], -1) {
			known := append([]string{"namespace", "job", "role", "instance", "le"}, metric.labels...)
			require.Contains(t, known, label[1], "%s: %s has no such label", where, name)
		}
	}
}

func TestRulesKnowTheirMetrics(t *testing.T) {
	t.Parallel()
	for _, r := range rules(t) {
		requireKnown(t, r.Record+r.Alert, r.Expr)
	}
}

var bound = regexp.MustCompile(`\b(fanmail_[a-z_]+)_bucket\{[^}]*\ble="([^"]+)"`)

// What an objective counts up to is a bound of the histogram: otherwise it would count nothing.
func TestBoundsAreThoseOfHistograms(t *testing.T) {
	t.Parallel()
	running, found := families(t, scrape(t)), 0
	for _, r := range rules(t) {
		for _, match := range bound.FindAllStringSubmatch(r.Expr, -1) {
			found++
			var bounds []string
			for _, bucket := range running[match[1]].GetMetric()[0].GetHistogram().GetBucket() {
				bounds = append(bounds, strconv.FormatFloat(bucket.GetUpperBound(), 'g', -1, 64))
			}
			require.Contains(t, bounds, match[2], "%s of %s", r.Record, match[1])
		}
	}
	require.NotZero(t, found)
}

// Numbers of two installations are never added up: what a rule aggregates, it aggregates by namespace and job.
func TestRulesKeepInstallationsApart(t *testing.T) {
	t.Parallel()
	for _, r := range rules(t) {
		for _, aggregated := range aggregation.FindAllStringSubmatch(r.Expr, -1) {
			require.True(t, strings.HasPrefix(aggregated[2], " by (namespace, job"), "%s%s: %s%s", r.Record, r.Alert, aggregated[1], aggregated[2])
		}
	}
}

var aggregation = regexp.MustCompile(`\b(sum|max|min|avg|count|topk)(\s*by \([^)]*\)|\()`)

// Every alert says how bad it is, what is the matter, and where it is explained; and the runbook explains no others.
func TestEveryAlertIsInTheRunbook(t *testing.T) {
	t.Parallel()
	var alerts, explained []string
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		alerts = append(alerts, r.Alert)
		require.Contains(t, []string{"critical", "warning"}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.Equal(t, runbook+"#"+strings.ToLower(r.Alert), r.Annotations["runbook_url"])
	}
	for line := range strings.Lines(read(t, operationsPage)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "#### Fanmail"); ok {
			explained = append(explained, "Fanmail"+name)
		}
	}
	require.ElementsMatch(t, alerts, explained)
}

// Every alert is shown to fire by the tests of promtool.
func TestEveryAlertIsTested(t *testing.T) {
	t.Parallel()
	tested := read(t, "testdata/rules_test.yaml") + read(t, "testdata/days_test.yaml")
	for _, r := range rules(t) {
		if r.Alert != "" {
			require.Contains(t, tested, "alertname: "+r.Alert+"\n")
		}
	}
}
