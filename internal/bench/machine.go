package bench

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/fanmail/fanmail/internal/mongostore/mongoraw"
)

// notTold is the value of a fact that cannot be read.
const notTold = "not told"

// facts returns what figures depend on beside the options. The load average is that of now, before the run.
func (w *world) facts(ctx context.Context) ([]Fact, error) { return w.env.facts(ctx) }

func (e Env) facts(ctx context.Context) ([]Fact, error) {
	server, durability := "none", "each append is synced"
	if e.onMongoDB() {
		durability = "each write is acknowledged by a majority, from the journal"
		var err error
		if server, err = mongoraw.Server(ctx, string(e.Config.MongoDB.URI)); err != nil {
			return nil, err
		}
		if server == "" {
			server = notTold
		}
	}
	return []Fact{
		{"server", server},
		{"durability", durability},
		{"processors", strconv.Itoa(runtime.NumCPU())},
		{"load average before", loadAverage()},
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
func (e Env) layoutFacts(ctx context.Context, o LayoutsOptions) ([]Fact, error) {
	facts, err := e.facts(ctx)
	if err != nil {
		return nil, err
	}
	where := disk(e.Dir)
	if e.onMongoDB() {
		where = notTold // it is the server's
	}
	facts = append(facts, Fact{"disk", where}, Fact{"reads per delivery", strconv.FormatFloat(o.ReadsPerSend, 'g', -1, 64)})
	if e.onMongoDB() && !strings.HasPrefix(facts[0].Value, "MongoDB ") {
		facts = append(facts, Fact{"valid for", "this server: the figures do not speak for MongoDB"})
	}
	return facts, nil
}
