package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bench"
	"github.com/fanmail/fanmail/internal/cli/program"
)

// small reduces the space that a benchmark reserves.
var small = []string{
	"--nats-max-published", "16MiB", "--nats-max-fanout", "16MiB", "--nats-max-login", "16MiB", "--nats-max-dlq", "16MiB",
	"--embedded-cache", "8MiB", "--embedded-memtable", "4MiB",
}

// TestBench runs every benchmark with small numbers. A benchmark fails unless its deliveries are exact.
func TestBench(t *testing.T) {
	t.Parallel()
	inboxFigures := []string{
		"page p50", "page p99", "view p50", "view p99", "between p50", "between p99", "login p50", "login p99", "first login p50", "first login p99", "times the first, p50",
	}
	for args, figures := range map[string]map[string][]string{
		"fanout --followers 100,1500 --messages 2 --runs 2": {
			"100 followers":  {"deliveries", "raw", "of raw", "took", "resident"},
			"1500 followers": {"deliveries", "raw", "of raw", "took", "resident"},
		},
		"fanout --followers 2000 --dormant 0.5": {
			"2000 followers": {"followers", "raw scan", "times a raw scan", "took", "resident"},
		},
		"burst --followers 1200 --celebrities 3 --graded --overlap 0.5 --apart 10ms": {
			"6 by 3 celebrities": {
				"deliveries", "raw, one by one", "times that", "raw, all at once", "of that", "entries per push", "at most", "of it", "first done", "last done",
				"last to first", "resident",
			},
			"named beside the audience": {"in the inbox after p50", "in the inbox after p99"},
			"following celebrity":       {"in the inbox after p50", "in the inbox after p99"},
		},
		"mixed --followers 3000 --medium 1100 --probes 5 --messages 1 --named 2 --celebrities 2 --fanout-class-ttl 1ms": {
			"direct message, idle":       {"readable after p50", "readable after p99"},
			"direct message, under bulk": {"readable after p50", "readable after p99"},
			"to 1100, idle":              {"done after p50", "done after p99"},
			"to 1100, under bulk":        {"done after p50", "done after p99"},
			"publishing to one":          {"accepted after p50", "accepted after p99"},
			"publishing to 3000":         {"accepted after p50", "accepted after p99", "times one, p50", "times one, p99"},

			"direct message beside these": {"in the inbox after p50", "in the inbox after p99"},
			"named beside the audience":   {"in the inbox after p50", "in the inbox after p99", "times direct, p50", "times direct, p99"},
			"following celebrity":         {"in the inbox after p50", "in the inbox after p99", "of a lap, p99"},
			"lap of the scan":             {"took p50", "took p99"},
		},
		"publish --connections 2 --messages 20": {"2 connections": {"accepted", "raw", "of raw", "took p50", "took p99"}},
		"read --entries 60,5100 --pages 3": {
			"60 messages":   inboxFigures,
			"5100 messages": inboxFigures,
		},
		"expire --inboxes 20 --messages 60 --probes 3 --max-age 2500ms --every 1s": {
			"1200 messages":                     {"expired", "raw", "of raw", "oldest overdue", "allowed", "freed", "files before", "files after"},
			"direct message, idle":              {"readable after p50", "readable after p99"},
			"direct message, while they expire": {"readable after p50", "readable after p99"},
		},
		"identities --users 300 --lookups 20 --together 200": {
			"a record for each identity": {"claims", "lookup of one p50", "lookup of one p99", "lookup of many p50", "lookup of many p99"},
		},
		"counts --users 30 --messages 120 --requests 3 --dormant 1200": {
			"1200 dormant users":       {"counted", "request p50", "request p99", "skipped by the next message"},
			"a page":                   {"took p50", "took p99"},
			"a page with names":        {"took p50", "took p99"},
			"the same page again":      {"took p50", "took p99"},
			"30 inboxes":               {"took p50", "took p99"},
			"30 inboxes, half expired": {"took p50", "took p99"},
		},
		"rehydrate --users 2 --authors 20 --missed 3,60": {
			"3 missed":  {"first page p50", "first page p99", "rebuilt p50", "rebuilt p99"},
			"60 missed": {"first page p50", "first page p99", "rebuilt p50", "rebuilt p99"},
		},
		"rehydrate --users 2 --authors 20 --missed 60 --topics 3": {
			"60 missed":         {"first page p50", "first page p99", "rebuilt p50", "rebuilt p99"},
			"60 missed, topics": {"first page p50", "first page p99", "rebuilt p50", "rebuilt p99"},
		},
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			command := append(strings.Fields("bench "+args+" --json --dir "+dir), small...)
			report := fromJSON[bench.Report](t, fanmail(t, command...))
			got := make(map[string][]string)
			for _, row := range report.Rows {
				for _, f := range row.Figures {
					got[row.Case] = append(got[row.Case], f.Name)
					require.Positive(t, f.Value, f.Name)
				}
			}
			require.Equal(t, figures, got)
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, left, "nothing is left behind")
		})
	}
}

func TestBenchFacts(t *testing.T) {
	t.Parallel()
	text := fanmail(t, append(strings.Fields("bench find --entries 60 --inboxes 3 --requests 1 --walks 1 --rounds 1 --dir "+t.TempDir()), small...)...)
	require.Regexp(t, `(?s)^find, store embedded\n  server +none\n  durability +each append is synced\n.*\n4 values, 1 in 10\n  found +6 \n`, text)
}

func TestBenchPlots(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "read.svg")
	text := fanmail(t, append(strings.Fields("bench read --entries 60,600 --pages 3 --plot "+file), small...)...)
	require.Regexp(t, `(?s)^read, store embedded\n60 messages\n  page p50 +[0-9.]+ ms\n.*600 messages\n.*  times the first, p50 +[0-9.]+ \n$`, text)
	svg, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(svg), "<svg")
	require.Contains(t, string(svg), "fanmail bench read, store embedded")
}

// TestBenchFind finds as many messages as match, whether the attributes were declared before or not.
func TestBenchFind(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string]string{"early": "", "late": "--late"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := benchFind(t, append(small, strings.Fields("--dir "+t.TempDir()+" "+flags)...)...)
			require.Equal(t, "each append is synced", fact(report, "durability"))
			require.Equal(t, "none", fact(report, "server"))
			require.Equal(t, name == "late", strings.Contains(fact(report, "attributes declared"), "after half"))
			figures := names(report)
			require.Equal(t, []string{"files"}, figures["stored"])
			require.Equal(t, []string{"records", "all indexes"}, figures["stored, a record for each entry"])
		})
	}
}

// TestBenchLayouts compares the layouts of the embedded store, and draws four charts.
func TestBenchLayouts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	layouts := []string{"on-read", "on-write", "counter", "open-bucket", "newest-n", "dated", "bucket-values", "buckets"}
	report := benchLayouts(t, layouts, append([]string{"--plot", filepath.Join(dir, "layouts.svg"), "--runs", "2"}, small...)...)
	require.Equal(t, "each append is synced", fact(report, "durability"))
	require.Empty(t, fact(report, "valid for"))
	for _, chart := range []string{"send", "read", "size", "cost"} {
		svg, err := os.ReadFile(filepath.Join(dir, "layouts-"+chart+".svg"))
		require.NoError(t, err)
		require.Contains(t, string(svg), "bucket-values")
	}
	require.Positive(t, figures(report, "buckets send")["log"])
	require.InDelta(t, 2, figures(report, "newest-n read 50")["documents"]+figures(report, "newest-n read 100")["documents"], 0, "a record each")
	for _, l := range append(layouts, "fanmail") {
		cost := figures(report, l+" cost")
		require.Positive(t, cost["send"], l)
		require.Greater(t, cost["cost"], cost["read 50"], l)
	}
}

// benchLayouts runs bench layouts in small inboxes, and checks what does not depend on the store.
func benchLayouts(t *testing.T, layouts []string, flags ...string) bench.Report {
	t.Helper()
	dir := t.TempDir()
	command := strings.Fields("bench layouts --json --recipients 12 --there 15 --messages 4 --bucket-size 5 --newest 20 --redeliver 0.5 --reads-per-send 3 --dir " + dir)
	report := fromJSON[bench.Report](t, fanmail(t, append(command, flags...)...))
	var cases []string
	for _, row := range report.Rows {
		cases = append(cases, row.Case)
	}
	var want, ranks []string
	for _, l := range layouts {
		for _, part := range []string{"send", "read 50", "read 100", "size", "cost", "killed", "right"} {
			want = append(want, l+" "+part)
		}
		ranks = append(ranks, l+" rank")
		send, read, killed, right := figures(report, l+" send"), figures(report, l+" read 50"), figures(report, l+" killed"), figures(report, l+" right")
		require.Positive(t, send["answered p50"], l)
		require.LessOrEqual(t, send["answered p50"], send["readable p50"], l)
		require.GreaterOrEqual(t, send["documents"], 1., l)
		require.Positive(t, read["took p50"], l)
		require.LessOrEqual(t, read["took p50"], read["took p99"], l)
		require.Positive(t, figures(report, l+" size")["in all"], l)
		require.Positive(t, right["made again"], l)
		twice := l == "counter" || l == "open-bucket" || l == "newest-n" || l == "dated"
		require.Equal(t, twice, right["double"] > 0, l)
		require.Equal(t, twice, killed["double"] >= 6, "%s: %f of 12", l, killed["double"])
		require.Equal(t, twice, killed["double"] > 0, l)
		if l != "newest-n" { // what it shows twice pushes others out
			require.Zero(t, right["lost"]+killed["lost"], l)
		}
		for _, column := range []string{"send", "read", "size"} {
			rank := figures(report, l+" rank")[column]
			require.True(t, rank >= 1 && rank <= float64(len(layouts)), "%s: %s: %f", l, column, rank)
		}
	}
	for _, part := range []string{"send", "read 50", "read 100", "size", "cost"} {
		want = append(want, "fanmail "+part)
	}
	require.Equal(t, append(want, ranks...), cases)
	require.Len(t, report.Conclusions, 9, "three layouts of the source in three columns")
	require.NotEmpty(t, fact(report, "disk"))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "nothing is left behind")
	return report
}

// benchFind runs bench find in a small inbox, and checks what does not depend on the store.
func benchFind(t *testing.T, flags ...string) bench.Report {
	t.Helper()
	command := strings.Fields("bench find --json --entries 2000 --page 30 --requests 2 --walks 1 --inboxes 30 --messages 1 --rounds 2")
	report := fromJSON[bench.Report](t, fanmail(t, append(command, flags...)...))
	require.NotEmpty(t, fact(report, "server"))
	for _, name := range []string{"processors", "load average before", "load average after"} {
		require.NotEmpty(t, fact(report, name), name)
	}
	found, got := map[string]int{"1 in 10": 200, "1 in 1,000": 2, "one": 1}, names(report)
	for _, attribute := range []string{"4 values, ", "a value each, "} {
		for share, n := range found {
			own, other := attribute+share, attribute+share+", a record for each entry"
			common := []string{"found", "first request p50", "first page p50", "all pages p50", "requests"}
			require.Equal(t, common, got[other])
			require.Equal(t, append(common, "buckets read", "messages read"), got[own])
			for _, name := range []string{own, other} {
				f := figures(report, name)
				require.Equal(t, n, int(f["found"]), name)
				require.LessOrEqual(t, max(1, n/30), int(f["requests"]), name)
				require.Positive(t, f["first request p50"], name)
				require.LessOrEqual(t, f["first request p50"], f["first page p50"], name)
				require.Positive(t, f["all pages p50"], name)
			}
			require.Positive(t, figures(report, own)["buckets read"], own)
			require.Zero(t, figures(report, own)["messages read"], "the inbox has no gap")
		}
	}
	for _, name := range []string{"appending, %d declared", "appending, a record for each entry, %d indexed"} {
		none, one, all := figures(report, fmt.Sprintf(name, 0)), figures(report, fmt.Sprintf(name, 1)), figures(report, fmt.Sprintf(name, 10))
		require.Positive(t, none["entries"], name)
		require.NotContains(t, none, "of none", name)
		require.InEpsilon(t, one["entries"]/none["entries"], one["of none"], 1e-9, name)
		require.InEpsilon(t, all["entries"]/none["entries"], all["of none"], 1e-9, name)
	}
	least := figures(report, "appending, a record for each entry, 1 indexed")["all indexes"]
	require.Greater(t, figures(report, "appending, a record for each entry, 10 indexed")["all indexes"], least)
	return report
}

// names returns the names of the figures of each case.
func names(report bench.Report) map[string][]string {
	names := make(map[string][]string)
	for _, row := range report.Rows {
		for _, f := range row.Figures {
			names[row.Case] = append(names[row.Case], f.Name)
		}
	}
	return names
}

// figures returns the figures of a case by name.
func figures(report bench.Report, of string) map[string]float64 {
	figures := make(map[string]float64)
	for _, row := range report.Rows {
		if row.Case == of {
			for _, f := range row.Figures {
				figures[f.Name] = f.Value
			}
		}
	}
	return figures
}

// fact returns a fact of a report.
func fact(report bench.Report, name string) string {
	for _, f := range report.Facts {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// TestBenchDormancy replays a trace of which the second half is known: ben looks after four days and after ten, and cy never again.
func TestBenchDormancy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "trace.ndjson")
	lines := `# days 0 to 20
{"view":"ben","time":"2026-01-01T00:00:00Z"}
{"view":"cy","time":"2026-01-01T00:00:00Z"}
{"view":"ben","time":"2026-01-11T00:00:00Z"}
{"publish":"ann","to":["ben","cy"],"time":"2026-01-12T00:00:00Z"}
{"publish":"ann","to":["ben","cy"],"time":"2026-01-14T12:00:00Z"}
{"view":"ben","time":"2026-01-15T00:00:00Z"}
{"view":"ben","time":"2026-01-21T00:00:00Z"}
`
	require.NoError(t, os.WriteFile(file, []byte(lines), 0o600))
	flags := append(strings.Fields("--followers 300 --returns 10 --json --dir "+dir), small...)
	report := fromJSON[bench.Report](t, fanmail(t, append([]string{"bench", "dormancy", file}, flags...)...))
	got := make(map[string]map[string]float64)
	for _, row := range report.Rows {
		got[row.Case] = make(map[string]float64)
		for _, f := range row.Figures {
			got[row.Case][f.Name] = f.Value
		}
	}
	for threshold, want := range map[string][4]float64{
		"threshold 1 d":  {1, 3, 1, 1},
		"threshold 2 d":  {1, 3, 1, 1},
		"threshold 3 d":  {1, 3, 1, 1},
		"threshold 5 d":  {2, 2, 0, 0},
		"threshold 14 d": {4, 0, 0, 0},
	} {
		row := got[threshold]
		require.Equal(t, want, [4]float64{row["copies"], row["skipped"], row["rebuilds"], row["messages rebuilt"]}, threshold)
	}
	prices, four := got["prices"], got["threshold 14 d"]
	for name, price := range prices {
		if name != "rebuild" && name != "message rebuilt" { // these are differences of two measured times
			require.Positive(t, price, name)
		}
	}
	require.InEpsilon(t, 4*prices["copy"]/1e6, four["cost"], 1e-9)
	require.InEpsilon(t, 3*prices["page"]/1e3, four["waiting for first pages"], 1e-3)
	require.LessOrEqual(t, got["optimum, with hindsight"]["copies"], 2.0, "nobody copies for cy")
	require.Contains(t, got, "habits, learned in the first half")

	require.NoError(t, os.WriteFile(file, []byte(lines+`{"view":"ben"}`), 0o600))
	wrong := run{args: append([]string{"bench", "dormancy", file}, flags...)}.do(t.Context(), t)
	require.Equal(t, program.ExitFailed, wrong.code)
	require.Equal(t, "fanmail: "+file+`: line 9: "time" is missing`+"\n", wrong.stderr)
}
