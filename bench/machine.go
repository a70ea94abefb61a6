package main

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/fanmail/fanmail/bench/mongolayouts"
)

// notTold is the value of a fact that cannot be read.
const notTold = "not told"

// facts returns what figures depend on beside the options. The load average is that of now, before the run.
func (e env) facts(ctx context.Context) ([]Fact, error) {
	server, durability := "none", "each append is synced"
	if e.OnMongoDB() {
		durability = "each write is acknowledged by a majority, from the journal"
		var err error
		if server, err = mongolayouts.Server(ctx, string(e.Config.MongoDB.URI)); err != nil {
			return nil, err
		}
		if server == "" {
			server = notTold
		}
	}
	return []Fact{
		{Name: "server", Value: server},
		{Name: "durability", Value: durability},
		{Name: "processors", Value: strconv.Itoa(runtime.NumCPU())},
		{Name: "load average before", Value: loadAverage()},
	}, nil
}

// loadAverage returns the load average of the last minute. Only Linux tells it.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return notTold
	}
	load, _, _ := strings.Cut(string(text), " ")
	return load
}

// disk returns the file system of a folder and its device. Only Linux tells them.
func disk(folder string) string {
	const (
		point = 4 // the position of the mount point
		after = 2 // how many fields behind the separator are read
	)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	path, pathErr := filepath.EvalSymlinks(folder)
	if err != nil || pathErr != nil {
		return notTold
	}
	if path, err = filepath.Abs(path); err != nil {
		return notTold
	}
	found, longest := notTold, -1
	for line := range strings.Lines(string(mounts)) {
		mount, source, _ := strings.Cut(line, " - ")
		of, from := strings.Fields(mount), strings.Fields(source)
		if len(of) <= point || len(from) < after {
			continue
		}
		within, err := filepath.Rel(of[point], path)
		if err == nil && within != ".." && !strings.HasPrefix(within, "../") && len(of[point]) >= longest {
			found, longest = from[0]+" on "+from[1], len(of[point])
		}
	}
	return found
}

// layoutFacts adds to the facts those that the figures of layouts depend on.
func (e env) layoutFacts(ctx context.Context, o LayoutsOptions) ([]Fact, error) {
	facts, err := e.facts(ctx)
	if err != nil {
		return nil, err
	}
	where := disk(e.Dir)
	if e.OnMongoDB() {
		where = notTold // it is the server's
	}
	facts = append(facts, Fact{Name: "disk", Value: where}, Fact{Name: "reads per delivery", Value: strconv.FormatFloat(o.ReadsPerSend, 'g', -1, 64)})
	if e.OnMongoDB() && !strings.HasPrefix(facts[0].Value, "MongoDB ") {
		facts = append(facts, Fact{Name: "valid for", Value: "this server: the figures do not speak for MongoDB"})
	}
	return facts, nil
}
