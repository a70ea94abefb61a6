package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/fanmail/fanmail/internal/cli/program"
)

const (
	// plainEvery is how often progress is printed without a terminal.
	plainEvery = 3 * time.Second
	barEvery   = 65 * time.Millisecond
)

// progress tells how far a command is: as a bar on a terminal, as a line every few seconds elsewhere. It is safe
// for concurrent use.
type progress struct {
	w     io.Writer
	now   func() time.Time
	label string
	total int64 // 0 if it is not known

	mu   sync.Mutex
	done int64
	told time.Time
	bar  *progressbar.ProgressBar // nil where there is no terminal
}

// newProgress begins to tell progress on standard error. The total is 0 if it is not known.
func newProgress(p program.Process, label string, total int64) *progress {
	g := &progress{w: p.Stderr, now: p.Now, label: label, total: total, told: p.Now()}
	if p.Width(p.Stderr) == 0 {
		return g
	}
	length := total
	if total == 0 {
		length = -1
	}
	g.bar = progressbar.NewOptions64(length,
		progressbar.OptionSetWriter(p.Stderr),
		progressbar.OptionSetDescription(label),
		progressbar.OptionSetWidth(30),
		progressbar.OptionShowCount(),
		progressbar.OptionThrottle(barEvery),
		progressbar.OptionSetPredictTime(total > 0),
		progressbar.OptionSetRenderBlankState(true),
		progressbar.OptionClearOnFinish(),
	)
	return g
}

// set says how much is done.
func (g *progress) set(done int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.advance(done)
}

// add says that so much more is done.
func (g *progress) add(more int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.advance(g.done + int64(more))
}

func (g *progress) advance(done int64) {
	g.done = done
	if g.bar != nil {
		_ = g.bar.Set64(done) // progress that cannot be shown is no reason to fail
		return
	}
	now := g.now()
	if now.Sub(g.told) < plainEvery {
		return
	}
	g.told = now
	if g.total > 0 {
		fmt.Fprintf(g.w, "%s: %s of %s (%d%%)\n", g.label, count(done), count(g.total), done*100/g.total) //nolint:errcheck // see above
		return
	}
	fmt.Fprintf(g.w, "%s: %s\n", g.label, count(done)) //nolint:errcheck // see above
}

// close ends the telling and removes the bar, so that what is printed next begins on a line of its own.
func (g *progress) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.bar != nil {
		_ = g.bar.Clear() // see advance
		_ = g.bar.Exit()
	}
}
