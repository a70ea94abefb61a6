package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/fanmail/fanmail/internal/cli/program"
)

const (
	// plainEvery is the time between two lines of progress if standard error is no terminal. A terminal shows one line, which changes
	// every shownEvery.
	plainEvery = 3 * time.Second
	shownEvery = 100 * time.Millisecond
	// clearLine puts the cursor of a terminal at the start of its line, and clears the line.
	clearLine = "\r\x1b[K"
)

// progress shows the progress of a command on standard error. It is safe for concurrent use.
type progress struct {
	w     io.Writer
	width int // of the terminal; 0 without one
	now   func() time.Time
	label string
	note  string // after the amount; set by the only user

	mu    sync.Mutex
	total int64  // 0 if it is unknown
	about string // before the total
	done  int64
	told  time.Time
}

// newProgress starts to show progress. A total of 0 means that the total is unknown.
func newProgress(p program.Process, label string, total int64) *progress {
	g := &progress{w: p.Stderr, width: p.Width(p.Stderr), now: p.Now, label: label, total: total, told: p.Now()}
	if g.width > 0 {
		g.show()
	}
	return g
}

// expect sets the total to an estimate, unless that is 0.
func (g *progress) expect(total int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if total > 0 {
		g.total, g.about = total, "about "
	}
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
	every := plainEvery
	if g.width > 0 {
		every = shownEvery
	}
	if now := g.now(); now.Sub(g.told) >= every {
		g.told = now
		g.show()
	}
}

// show shows the progress. Failing to do so is not an error.
func (g *progress) show() {
	text := g.label + ": " + count(g.done)
	if g.total > 0 {
		text += fmt.Sprintf(" of %s%s (%d%%)", g.about, count(g.total), min(100, g.done*100/g.total))
	}
	text += g.note
	if g.width > 0 {
		_, _ = fmt.Fprint(g.w, clearLine+fit(text, g.width-1))
		return
	}
	_, _ = fmt.Fprintln(g.w, text)
}

// close removes the line from a terminal, so that the next output starts on an empty one. The next progress shows it again.
func (g *progress) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.width > 0 {
		_, _ = fmt.Fprint(g.w, clearLine)
	}
}
