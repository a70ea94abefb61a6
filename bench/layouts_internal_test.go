package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/bench"
)

// TestOwnLayoutMayNotShowTwice lets a recipe that shows deliveries twice take the place of buckets: the run fails.
func TestOwnLayoutMayNotShowTwice(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]func(*comparing) error{
		"made again": func(x *comparing) error { return x.redeliver(t.Context()) },
		"killed":     func(x *comparing) error { return x.kill(t.Context()) },
	} {
		for recipe, failure := range map[string]string{"counter": "shown twice", "bucket-values": ""} {
			t.Run(name+" "+recipe, func(t *testing.T) {
				t.Parallel()
				env := env{bench.Env{Config: config.Default(), Dir: t.TempDir(), Logger: zerolog.Nop(), Now: time.Now, Tell: func(string) {}, Body: 20}}
				x := &comparing{
					env: env, recipients: bench.Users("user", 0, 5),
					o: LayoutsOptions{There: 6, Messages: 2, Layouts: []string{recipe}, BucketSize: 2, Newest: 4, Redeliver: 1},
				}
				x.draw()
				require.NoError(t, x.open(t.Context()))
				x.layouts[0].name = "buckets"
				require.NoError(t, x.fill(t.Context()))
				require.NoError(t, x.send(t.Context()))
				x.entries = append(x.entries[:8:8], x.entries[len(x.entries)-1]) // the child sends one
				if err := step(x); failure == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, failure)
				}
				require.NoError(t, x.layouts[0].remove(t.Context()))
			})
		}
	}
}

// TestSenderFails tells why a sender has ended too early.
func TestSenderFails(t *testing.T) {
	t.Parallel()
	x := &comparing{recipients: bench.Users("user", 0, 5), o: LayoutsOptions{}}
	err := x.sendAndKill(t.Context(), &compared{order: order{Layout: "counter"}})
	require.ErrorContains(t, err, "ended before it was half way")
	require.ErrorContains(t, err, "the order names no store")
}

// TestConclude ranks made-up figures. The source is wrong about sends.
func TestConclude(t *testing.T) {
	t.Parallel()
	var r Report
	for _, l := range []struct {
		name             string
		send, read, size float64
	}{
		{"on-read", 20, 9, 1},
		{"on-write", 40, 8, 11},
		{"newest-n", 30, 5, 12},
		{"buckets", 10, 7, 10},
		{ofServer, 1, 1, 0.5},
	} {
		r.Rows = append(r.Rows,
			Row{Case: l.name + " send", Figures: []Figure{figure("answered p50", l.send, "ms"), figure("documents", l.send/10, "per message")}},
			Row{Case: l.name + " read 50", Figures: []Figure{figure("took p50", l.read, "ms")}},
			Row{Case: l.name + " size", Figures: []Figure{figure("in all", l.size, "MiB")}})
	}
	measured := len(r.Rows)
	conclude(&r)
	require.Equal(t, []Row{
		{Case: "on-read rank", Figures: []Figure{figure("send", 2, "of 4"), figure("read", 4, "of 4"), figure("size", 1, "of 4")}},
		{Case: "on-write rank", Figures: []Figure{figure("send", 4, "of 4"), figure("read", 3, "of 4"), figure("size", 3, "of 4")}},
		{Case: "newest-n rank", Figures: []Figure{figure("send", 3, "of 4"), figure("read", 1, "of 4"), figure("size", 4, "of 4")}},
		{Case: "buckets rank", Figures: []Figure{figure("send", 1, "of 4"), figure("read", 2, "of 4"), figure("size", 2, "of 4")}},
	}, r.Rows[measured:])
	require.Len(t, r.Conclusions, 9)
	require.Equal(t, Fact{Name: "buckets send", Value: `1 of 4, and 1 of the source's three; the source says "worst: a shard per recipient, appends, which grow"; differs: ` +
		"buckets is the first with 10 ms; on-read has 20 ms, 2.00 times that; on-write has 40 ms, 4.00 times that; " +
		"documents: buckets 1, on-read 2, on-write 4 per message"}, r.Conclusions[2])
	for _, c := range r.Conclusions[3:] {
		require.NotContains(t, c.Value, "differs", c.Name)
	}
	two := Report{Rows: r.Rows[:6]}
	conclude(&two)
	require.Empty(t, two.Conclusions, "the source speaks of three")
}

// TestCost adds what a client and a server spend.
func TestCost(t *testing.T) {
	t.Parallel()
	ms := time.Millisecond
	sending, reading := spent{client: 6 * ms, times: 3}, spent{client: 5 * ms, times: 5}
	require.Equal(t, []Figure{figure("send", 2000, "µs per delivery"), figure("read 50", 1000, "µs per page"), figure("cost", 4500, "µs per delivery")}, cost(sending, reading, 2.5))
	sending = sending.plus(spent{server: 9 * ms, served: true}, 0)
	require.Equal(t, figure("cost", 5000+1000, "µs per delivery"), cost(sending, reading, 1)[4])
	reading = reading.plus(spent{served: true, untold: true}, 0)
	require.Equal(t, []Figure{figure("send, client", 2000, "µs per delivery"), figure("read 50, client", 1000, "µs per page")}, cost(sending, reading, 1))
}

// TestProcessesTime adds the times of the processes with a name, whatever else is in the name.
func TestProcessesTime(t *testing.T) {
	t.Parallel()
	proc := t.TempDir()
	for pid, name := range map[string]string{"7": "postgres", "8": "a (b) c", "9": "postgres", "10": "other", "self": "postgres"} {
		require.NoError(t, os.Mkdir(filepath.Join(proc, pid), 0o700))
		stat := pid + " (" + name + ") S 1 2 3 4 5 6 7 8 9 10 100 20 3 1 20 0 1"
		require.NoError(t, os.WriteFile(filepath.Join(proc, pid, "stat"), []byte(stat), 0o600))
	}
	used, told := processesTime(proc, []string{"postgres"})
	require.True(t, told)
	require.Equal(t, 2*1240*time.Millisecond, used)
	used, told = processesTime(proc, []string{"a (b) c", "none"})
	require.True(t, told)
	require.Equal(t, 1240*time.Millisecond, used)
	_, told = processesTime(proc, []string{"none"})
	require.False(t, told)
}

// TestSenderNeedsAnOrder reads what is no order.
func TestSenderNeedsAnOrder(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.ErrorContains(t, SendLayout(t.Context(), strings.NewReader("now"), &out, time.Now), "read an order")
	require.Empty(t, out.String())
}
