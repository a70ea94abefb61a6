package monitoring_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// panel is a panel of the dashboard, or a row that stands above some.
type panel struct {
	ID         int
	Type       string
	Title      string
	Datasource struct{ UID string }
	GridPos    struct{ H, W, X, Y int }
	Targets    []struct {
		RefID, Expr, LegendFormat string
		Datasource                struct{ UID string }
	}
}

// chosen are the labels by which an operator chooses processes.
var chosen = []string{"namespace", "role", "instance"}

func dashboard(t *testing.T) []panel {
	t.Helper()
	var board struct {
		UID        string
		Panels     []panel
		Templating struct {
			List []struct {
				Name, Type, AllValue, Definition string
				IncludeAll                       bool
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(read(t, dashboardFile)), &board))
	require.Equal(t, "fanmail", board.UID)
	require.Len(t, board.Templating.List, 1+len(chosen))
	require.Equal(t, "datasource", board.Templating.List[0].Name)
	for i, name := range chosen {
		variable := board.Templating.List[1+i]
		require.Equal(t, name, variable.Name)
		require.True(t, variable.IncludeAll, name)
		require.Equal(t, ".*", variable.AllValue, "also processes without the label %s", name)
		requireKnown(t, name, variable.Definition)
	}
	require.NotEmpty(t, board.Panels)
	return board.Panels
}

func TestDashboardKnowsItsMetrics(t *testing.T) {
	t.Parallel()
	for _, p := range dashboard(t) {
		for _, target := range p.Targets {
			requireKnown(t, p.Title, target.Expr)
		}
	}
}

// What is measured is shown.
func TestDashboardShowsEveryMetric(t *testing.T) {
	t.Parallel()
	var shown strings.Builder
	for _, p := range dashboard(t) {
		for _, target := range p.Targets {
			shown.WriteString(target.Expr + "\n")
		}
	}
	for _, r := range rules(t) { // what a recording rule is made of is shown by it
		if r.Record != "" && strings.Contains(shown.String(), r.Record) {
			shown.WriteString(r.Expr + "\n")
		}
	}
	for name := range page(t) {
		require.Contains(t, shown.String(), name)
	}
}

// Every query heeds what the operator has chosen. What rules have recorded and alerts are of an installation, and of no process.
func TestDashboardIsOfTheChosenProcesses(t *testing.T) {
	t.Parallel()
	for _, p := range dashboard(t) {
		for _, target := range p.Targets {
			for _, found := range queried.FindAllStringSubmatch(target.Expr, -1) {
				labels := chosen
				if name := found[1]; strings.Contains(name, ":") || name == "ALERTS" {
					labels = chosen[:1]
				}
				for _, label := range labels {
					if found[1] != "fanmail:slo_budget:ratio" { // it is the same for all
						require.Contains(t, found[2], label+`=~"$`+label+`"`, "%s: %s", p.Title, found[1])
					}
				}
			}
		}
	}
}

var queried = regexp.MustCompile(`\b(fanmail[_:][a-z0-9_:]+|process_[a-z_]+|go_[a-z_]+|ALERTS)\b(\{[^}]*\})?`)

// Panels have ids and places of their own, ask the Prometheus that was chosen, and stand in the rows that operators look for.
func TestDashboardIsSound(t *testing.T) {
	t.Parallel()
	ids, places := make(map[int]bool), make(map[[2]int]bool)
	var rows []string
	for _, p := range dashboard(t) {
		require.False(t, ids[p.ID], p.Title)
		ids[p.ID] = true
		if p.Type == "row" {
			rows = append(rows, p.Title)
			continue
		}
		require.Equal(t, "${datasource}", p.Datasource.UID, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		refs := make(map[string]bool)
		for _, target := range p.Targets {
			require.Equal(t, "${datasource}", target.Datasource.UID, p.Title)
			require.NotEmpty(t, target.LegendFormat, p.Title)
			require.False(t, refs[target.RefID], p.Title)
			refs[target.RefID] = true
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				require.Less(t, x, 24, p.Title)
				require.False(t, places[[2]int{x, y}], "%s stands on another panel", p.Title)
				places[[2]int{x, y}] = true
			}
		}
	}
	require.Equal(t, []string{"At a glance", "Objectives", "Publishing", "Lanes", "Fan-out", "Stores", "Rehydration", "HTTP", "Streams", "Retention", "Process"}, rows)
}
