package bench_test

import (
	"flag"
	"slices"
	"time"
)

// What the benchmarks of coming back are measured with. With -small, there are a twentieth of the users, authors and
// messages.
var (
	followed  = flag.Int("followed", 1000, "how many authors they follow who come back")
	missed    = flag.Int("missed", 200_000, "how many messages they have missed in a year; another run is always with ten")
	small     = flag.Bool("small", false, "take a twentieth of everything")
	openings  = flag.Int("openings", 200, "how many users open their inbox, one after the other")
	returning = flag.Int("returning", 20_000, "how many users come back in a stampede")
	within    = flag.Duration("within", time.Minute, "in how long they do")
	fans      = flag.Int("fans", 200_000, "how many active followers the star has, whose messages are fanned out meanwhile")
	alone     = flag.Duration("alone", 20*time.Second, "for how long the star's messages are fanned out before the stampede")
	store     = flag.String("store", "embedded", "where who comes back keeps their data: embedded or mongodb")
	settings  = flag.String("settings", "", "environment of the server in a stampede, such as FANMAIL_REHYDRATE_WORKERS=8; separated by spaces")
	server    = flag.String("server", "", "the server in a stampede; it is built unless it is given")
)

// sized returns n, or a twentieth of it with -small.
func sized(n int) int {
	if *small {
		return max(1, n/20)
	}
	return n
}

// durations are times that were measured.
type durations []time.Duration

// percentile returns the time that so many percent of all are at or below, in milliseconds.
func (d durations) percentile(percent int) float64 {
	slices.Sort(d)
	return milliseconds(d[(len(d)-1)*percent/100])
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
