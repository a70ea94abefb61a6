package bench

import (
	"context"
	"os"
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
