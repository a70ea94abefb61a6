package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/fanmail/fanmail/bench/mongolayouts"
	"github.com/fanmail/fanmail/internal/bench"
)

// processor reads the processor time of this process and of the store's server.
type processor struct {
	// server returns that of the server, and whether it is known. It is nil if the store has no server.
	server func(ctx context.Context) (used time.Duration, told bool, err error)
}

// processor returns the processor of the store. Names are those of the server's processes on this machine; without any the server is asked.
func (e env) processor(names []string) processor {
	if !e.OnMongoDB() {
		return processor{}
	}
	if len(names) > 0 {
		return processor{server: func(context.Context) (time.Duration, bool, error) {
			used, told := processesTime("/proc", names)
			return used, told, nil
		}}
	}
	return processor{server: func(ctx context.Context) (time.Duration, bool, error) {
		return mongolayouts.ProcessorTime(ctx, string(e.Config.MongoDB.URI))
	}}
}

// spent is processor time that so many deliveries or pages took.
type spent struct {
	client, server time.Duration
	// served says that there is a server, and untold that its time is not known.
	served, untold bool
	times          int
}

// plus adds what was used by so many deliveries or pages.
func (s spent) plus(used spent, times int) spent {
	return spent{
		client: s.client + used.client, server: s.server + used.server,
		served: s.served || used.served, untold: s.untold || used.untold, times: s.times + used.times + times,
	}
}

// spend returns the processor time that is used while do runs.
func (p processor) spend(ctx context.Context, do func() error) (used spent, err error) {
	read := func() (now spent, err error) {
		if p.server != nil {
			used, told, err := p.server(ctx)
			if err != nil {
				return now, err
			}
			now.server, now.served, now.untold = used, true, !told
		}
		now.client = bench.ProcessorTime()
		return now, nil
	}
	before, err := read()
	if err != nil {
		return used, err
	}
	if err := do(); err != nil {
		return used, err
	}
	client := bench.ProcessorTime()
	after, err := read()
	return spent{
		client: client - before.client, server: after.server - before.server, served: after.served, untold: before.untold || after.untold,
	}, err
}

// each returns the mean times in microseconds.
func (s spent) each() (client, server float64) {
	return float64(s.client.Microseconds()) / float64(s.times), float64(s.server.Microseconds()) / float64(s.times)
}

// cost returns the processor time of a delivery with so many reads of a page, as far as that of the server is known.
func cost(sending, reading spent, reads float64) []Figure {
	const delivery, page = "µs per delivery", "µs per page"
	client, server := sending.each()
	pageClient, pageServer := reading.each()
	all := figure("cost", client+server+reads*(pageClient+pageServer), delivery)
	switch {
	case !sending.served:
		return []Figure{figure("send", client, delivery), figure("read 50", pageClient, page), all}
	case sending.untold || reading.untold:
		return []Figure{figure("send, client", client, delivery), figure("read 50, client", pageClient, page)}
	}
	return []Figure{
		figure("send, client", client, delivery), figure("send, server", server, delivery), figure("read 50, client", pageClient, page), figure("read 50, server", pageServer, page), all,
	}
}

// processesTime returns the processor time of all processes with these names, and of their children that have ended. It reports whether there is one.
// Only Linux tells it.
func processesTime(proc string, names []string) (used time.Duration, told bool) {
	const (
		tick = time.Second / 100 // the same on all of Linux's architectures
		// first is the position of the first of four times behind the name: of user and system, and the same of the children.
		first, fields = 11, 4
	)
	files, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "stat")) // fails only for a wrong pattern
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // it is below /proc
		begin, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
		if err != nil || begin < 0 || end < begin || !slices.Contains(names, string(text[begin+1:end])) { // the process has ended, or is another
			continue
		}
		rest := bytes.Fields(text[end+1:])
		if len(rest) < first+fields {
			continue
		}
		told = true
		for _, field := range rest[first : first+fields] {
			ticks, err := strconv.ParseInt(string(field), 10, 64)
			if err == nil {
				used += time.Duration(ticks) * tick
			}
		}
	}
	return used, told
}
