package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/test/leaktest"
)

// TestMain is also the processes that layouts and streams start.
func TestMain(m *testing.M) {
	if len(os.Args) == 1 || os.Args[1] != senderCommand && os.Args[1] != streamServerCommand {
		leaktest.Main(m)
	}
	os.Exit(run(context.Background(), program.Process{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Now: time.Now}))
}

// small reduces the space that a benchmark reserves.
var small = []string{
	"--nats-max-published", "16MiB", "--nats-max-fanout", "16MiB", "--nats-max-login", "16MiB", "--nats-max-dlq", "16MiB",
	"--embedded-cache", "8MiB", "--embedded-memtable", "4MiB",
}

// do runs a command line in this process, and returns its exit code and what it prints.
func do(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, complaints bytes.Buffer
	code = run(t.Context(), program.Process{Args: args, Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &complaints, Now: time.Now})
	return code, out.String(), complaints.String()
}

// report runs a benchmark, which must succeed, and returns its report.
func report(t *testing.T, command string, flags ...string) (r Report) {
	t.Helper()
	code, stdout, stderr := do(t, "", slices.Concat(strings.Fields(command+" --json"), flags, small)...)
	require.Equal(t, program.ExitDone, code, stderr)
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	return r
}

// TestCommands runs every benchmark with small numbers. A benchmark fails unless its deliveries are exact.
func TestCommands(t *testing.T) {
	t.Parallel()
	for args, figures := range map[string]map[string][]string{
		"expire --inboxes 20 --messages 60 --probes 3 --max-age 2500ms --every 1s": {
			"1200 messages":                     {"expired", "raw", "of raw", "oldest overdue", "allowed", "files before", "files after"},
			"direct message, idle":              {"readable after p50", "readable after p99"},
			"direct message, while they expire": {"readable after p50", "readable after p99"},
		},
		"identities --users 300 --lookups 20 --together 200": {
			"300 users": {"claims", "lookup of one p50", "lookup of one p99", "lookup of many p50", "lookup of many p99"},
		},
		"counts --users 30 --messages 120 --requests 3 --dormant 1200": {
			"1200 dormant users":             {"counted", "request p50", "request p99", "skipped by the next message"},
			"a page":                         {"took p50", "took p99"},
			"the same page again":            {"took p50", "took p99"},
			"a page of the inboxes to count": {"took p50", "took p99"},
			"30 inboxes":                     {"took p50", "took p99"},
			"30 inboxes, half expired":       {"took p50", "took p99"},
		},
		"counts --users 3 --messages 120 --requests 3 --flagged 2": {
			"a page":                         {"took p50", "took p99"},
			"the same page again":            {"took p50", "took p99"},
			"a page of the inboxes to count": {"took p50", "took p99"},
			"3 inboxes":                      {"took p50", "took p99"},
			"a page, 2 flagged buckets":      {"took p50", "took p99"},
			"3 inboxes, 2 flagged buckets":   {"took p50", "took p99"},
		},
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			report := report(t, args, "--dir", dir)
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

// TestSight asks for everything that operators look at. What a page costs may be too little to measure.
func TestSight(t *testing.T) {
	t.Parallel()
	report := report(t, "sight --users 20 --messages 2 --published 30 --letters 3 --requests 2 --open 1s", "--dir", t.TempDir())
	got := names(report)
	require.Len(t, got, 19)
	for _, path := range []string{"/v1/messages", "/v1/messages/{id}?partitions=true", "/v1/admin/overview", "/console/", "/console/dead-letters"} {
		require.Equal(t, []string{"took p50", "took p99", "longest"}, got[path], path)
	}
	require.Equal(t, []string{"processor time a minute", "of the idle server", "events"}, got["an open page"])
	for _, f := range report.Rows[len(report.Rows)-1].Figures[2:] {
		require.Positive(t, f.Value, f.Name)
	}
}

// TestPages reads pages cold where the system can forget files, and warm.
func TestPages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := map[string][]string{"warm": {"page p50", "page p99"}}
	if forgets, err := dropCached(dir); forgets {
		want["cold"] = want["warm"]
	} else {
		require.NoError(t, err)
	}
	require.Equal(t, want, names(report(t, "pages --users 30 --messages 3 --pages 10", "--dir", dir)))
}

// TestFind finds as many messages as match, whether the attributes were declared before or not.
func TestFind(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string]string{"early": "", "late": "--late"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := benchFind(t, strings.Fields("--dir "+t.TempDir()+" "+flags)...)
			require.Equal(t, "each append is synced", fact(report, "durability"))
			require.Equal(t, "none", fact(report, "server"))
			require.Equal(t, name == "late", strings.Contains(fact(report, "attributes declared"), "after half"))
			require.Equal(t, []string{"files"}, names(report)["stored"])
		})
	}
}

// TestLayouts compares the layouts of the embedded store, and draws four charts.
func TestLayouts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	layouts := []string{"on-read", "on-write", "counter", "open-bucket", "newest-n", "dated", "bucket-values", "buckets"}
	report := benchLayouts(t, layouts, "--runs", "2")
	text, err := json.Marshal(report)
	require.NoError(t, err)
	code, _, stderr := do(t, string(text), "plot", filepath.Join(dir, "layouts.svg"))
	require.Equal(t, program.ExitDone, code, stderr)
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
func benchLayouts(t *testing.T, layouts []string, flags ...string) Report {
	t.Helper()
	dir := t.TempDir()
	report := report(t, "layouts --recipients 12 --there 15 --messages 4 --bucket-size 5 --newest 20 --redeliver 0.5 --reads-per-send 3 --dir "+dir, flags...)
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
func benchFind(t *testing.T, flags ...string) Report {
	t.Helper()
	report := report(t, "find --entries 2000 --page 30 --requests 2 --walks 1 --inboxes 30 --messages 1 --rounds 2", flags...)
	require.NotEmpty(t, fact(report, "server"))
	for _, name := range []string{"processors", "load average before", "load average after"} {
		require.NotEmpty(t, fact(report, name), name)
	}
	found, got := map[string]int{"1 in 10": 200, "1 in 1,000": 2, "one": 1}, names(report)
	for _, attribute := range []string{"4 values, ", "a value each, "} {
		for share, n := range found {
			name := attribute + share
			require.Equal(t, []string{"found", "first request p50", "first page p50", "all pages p50", "requests", "buckets read", "messages read"}, got[name])
			f := figures(report, name)
			require.Equal(t, n, int(f["found"]), name)
			require.LessOrEqual(t, max(1, n/30), int(f["requests"]), name)
			require.Positive(t, f["first request p50"], name)
			require.LessOrEqual(t, f["first request p50"], f["first page p50"], name)
			require.Positive(t, f["buckets read"], name)
			require.Zero(t, f["messages read"], "the inbox has no gap")
		}
	}
	none, all := figures(report, "appending, 0 declared"), figures(report, "appending, 10 declared")
	require.Positive(t, none["entries"])
	require.NotContains(t, none, "of none")
	require.InEpsilon(t, all["entries"]/none["entries"], all["of none"], 1e-9)
	return report
}

// names returns the names of the figures of each case.
func names(report Report) map[string][]string {
	names := make(map[string][]string)
	for _, row := range report.Rows {
		for _, f := range row.Figures {
			names[row.Case] = append(names[row.Case], f.Name)
		}
	}
	return names
}

// figures returns the figures of a case by name.
func figures(report Report, of string) map[string]float64 {
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
func fact(report Report, name string) string {
	for _, f := range report.Facts {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// TestDormancy replays a trace of which the second half is known: ben looks after four days and after ten, and cy never again.
func TestDormancy(t *testing.T) {
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
	report := report(t, "dormancy --followers 300 --returns 10 --dir "+dir, file)
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
	code, _, stderr := do(t, "", "dormancy", file)
	require.Equal(t, program.ExitFailed, code)
	require.Equal(t, "bench: "+file+`: line 9: "time" is missing`+"\n", stderr)
}

// TestStreams runs each part of streams, which fails if a message is lost, and compares what clients get that come back.
func TestStreams(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	report := report(t, "streams --streams 40 --rounds 1 --probes 2 --idle 100ms --rate 100 --rate-for 500ms --churn 100 --churn-for 500ms "+
		"--recipients 60 --watchers 20 --pairs 1 --history 10 --dir "+dir)
	for _, server := range []string{"", "centrifuge, "} {
		require.Positive(t, figures(report, server+"40 streams")["memory a stream"])
		require.Positive(t, figures(report, server+"a message to 40 streams")["last frame"])
		require.Positive(t, figures(report, server+"a message to one of 40")["frame after sending p99"])
		require.Zero(t, figures(report, server+"100 messages a second, 40 streams")["lost"])
		require.Zero(t, figures(report, server+"reconnects of 40 streams")["errors"])
		require.InDelta(t, 5, figures(report, server+"resumed, few missed")["came"], 0)
	}
	require.Positive(t, figures(report, "a message to 40 streams")["times raw"])
	require.InDelta(t, 20, figures(report, "resumed, many missed")["came"], 0)
	require.Zero(t, figures(report, "centrifuge, resumed, many missed")["came"])
	require.Positive(t, figures(report, "fan-out to 60, 20 watch")["of unwatched, median"])
	require.Positive(t, figures(report, "direct message during fan-out to 60, 20 watch")["frame after sending p99"])
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "nothing is left behind")
}

// TestPlot draws what the product measures.
func TestPlot(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "read.svg")
	r := Report{Benchmark: "read", Store: "embedded", XName: "messages", Plotted: []string{"page p50"}, Rows: []Row{
		{Case: "60", X: 60, Figures: []Figure{figure("page p50", 1, "ms")}}, {Case: "600", X: 600, Figures: []Figure{figure("page p50", 2, "ms")}},
	}}
	text, err := json.Marshal(r)
	require.NoError(t, err)
	code, _, stderr := do(t, string(text), "plot", file)
	require.Equal(t, program.ExitDone, code, stderr)
	svg, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(svg), "read, store embedded")
	r.Rows = r.Rows[:1]
	require.ErrorContains(t, draw(r, file), "at least two sizes")
}
