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
	// plainEvery is the time between two lines of progress if standard error is no terminal.
	plainEvery = 3 * time.Second
	barEvery   = 65 * time.Millisecond
)

// progress shows the progress of a command on standard error: as a bar on a terminal, and otherwise as a line every plainEvery. It
// is safe for concurrent use.
type progress struct {
	w     io.Writer
	now   func() time.Time
	label string
	total int64 // 0 if it is unknown

	mu   sync.Mutex
	done int64
	told time.Time
	bar  *progressbar.ProgressBar // nil without a terminal
}

// newProgress starts to show progress. A total of 0 means that the total is unknown.
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

// set sets the finished amount.
func (g *progress) set(done int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.advance(done)
}

// add adds to the finished amount.
func (g *progress) add(more int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.advance(g.done + int64(more))
}

func (g *progress) advance(done int64) {
	g.done = done
	if g.bar != nil {
		_ = g.bar.Set64(done) // failing to show progress is not an error
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

// close removes the bar, so that the next output starts on an empty line.
func (g *progress) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.bar != nil {
		_ = g.bar.Clear() // see advance
		_ = g.bar.Exit()
	}
}
