package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// facts returns the versions, and the conditions of the machine before the runs.
func (o options) facts(ctx context.Context) ([]fact, error) {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return nil, err
	}
	sync, err := timeOfSync(o.data)
	if err != nil {
		return nil, err
	}
	facts := []fact{
		{"processors", strconv.Itoa(runtime.NumCPU())},
		{"load average before", strings.Fields(string(load))[0]},
		{"a synced write of 4 KiB", fmt.Sprintf("%.2f ms (median of %d)", sync.Seconds()*1000, syncs)},
	}
	for _, program := range []fact{{"Redis", "/usr/bin/redis-server"}, {"PostgreSQL", postgresPrograms + "postgres"}, {"Node.js", "/usr/bin/node"}} {
		version, err := exec.CommandContext(ctx, "chroot", o.root, program.Value, "--version").Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", program.Value, err)
		}
		facts = append(facts, fact{program.Name, strings.TrimSpace(string(version))})
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			switch module.Path {
			case "github.com/hibiken/asynq", "github.com/riverqueue/river":
				facts = append(facts, fact{filepath.Base(module.Path), module.Version})
			}
		}
	}
	var bullmq struct{ Version string }
	text, err := os.ReadFile(filepath.Join(o.root, "opt/bullmq/node_modules/bullmq/package.json"))
	if err == nil {
		err = json.Unmarshal(text, &bullmq)
	}
	return append(facts, fact{"bullmq", bullmq.Version}), err
}

// syncs is the number of writes that timeOfSync measures.
const syncs = 51

// timeOfSync returns the median time of a synced write in a folder.
func timeOfSync(folder string) (time.Duration, error) {
	file, err := os.CreateTemp(folder, "sync-")
	if err != nil {
		return 0, err
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}()
	times := make([]float64, syncs)
	for i := range times {
		start := time.Now()
		if _, err := file.Write(make([]byte, 4096)); err != nil {
			return 0, err
		}
		if err := file.Sync(); err != nil {
			return 0, err
		}
		times[i] = time.Since(start).Seconds()
	}
	return time.Duration(newSpread(times).Median * float64(time.Second)), nil
}
