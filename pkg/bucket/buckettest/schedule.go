package buckettest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// fault is what happens to a writer at one of its operations.
type fault int

const (
	// noFault lets the operation succeed.
	noFault fault = iota
	// crashBefore abandons the writer before the operation takes effect.
	crashBefore
	// crashAfter abandons the writer when the operation has taken effect.
	crashAfter
	// loseOutcome lets the operation take effect, and tells the writer of a push that it is not known whether.
	loseOutcome
)

var errCrashed = errors.New("the writer has crashed")

// job is one call of Append by a writer.
type job struct {
	ns []int
	// hint is where the writer saw the head, unless current is set.
	hint bucket.Hint
	// current takes the hint that is recorded when the call is made.
	current bool
}

// writer is a goroutine that appends, and that stops before each operation on the store until it is told to go on.
type writer struct {
	jobs   []job
	parked chan string // the method that it is going to call; closed when it has finished
	resume chan fault
	next   string // what parked said last; empty when the writer has finished

	// What follows belongs to whoever is running: the writer, or, while it is parked, the stage.

	crashed  bool
	after    fault
	reported []int // the messages of which Append has said that they are in the inbox
	added    int   // the sum of New
	failed   error // an error that is not a crash
}

// stage lets writers append to one owner's inbox. Exactly one of the writers, or none, runs at any time.
type stage struct {
	store   bucket.Store
	owner   message.UserID
	hints   *hintBook
	writers []*writer
	seen    inbox
}

// newStage starts a writer for each list of jobs. They stand before their first operations.
func newStage(t tester, store bucket.Store, owner message.UserID, jobs [][]job) *stage {
	t.Helper()
	s := &stage{store: store, owner: owner, hints: &hintBook{store: store}, seen: readInbox(t, store, owner)}
	for _, j := range jobs {
		w := &writer{jobs: j, parked: make(chan string), resume: make(chan fault)}
		s.writers = append(s.writers, w)
		go s.run(t.Context(), w)
		w.next = <-w.parked
	}
	return s
}

func (s *stage) run(ctx context.Context, w *writer) {
	defer close(w.parked)
	seam := &Seam{Store: s.store, Hints: s.hints, Before: w.before, After: w.afterwards}
	appender := bucket.NewAppender(seam, seam)
	for _, j := range w.jobs {
		if j.current {
			j.hint = s.hints.hint
		}
		results, err := appender.Append(ctx, []bucket.Append{{Owner: s.owner, Hint: j.hint, Entries: entries(j.ns...)}})
		if err == nil {
			err = results[0].Err
		}
		if err != nil {
			if !errors.Is(err, errCrashed) {
				w.failed = err
			}
			return
		}
		w.added += results[0].New
		w.reported = append(w.reported, j.ns...)
	}
}

func (w *writer) before(_ context.Context, op *Op) error {
	if w.crashed {
		return errCrashed
	}
	w.parked <- op.Method
	w.after = <-w.resume
	if w.after == crashBefore {
		w.crashed = true
		return errCrashed
	}
	return nil
}

func (w *writer) afterwards(_ context.Context, op *Op) error {
	switch w.after {
	case crashAfter:
		w.crashed = true
		return errCrashed
	case loseOutcome:
		clear(op.Outcomes)
	default:
	}
	return nil
}

// runnable returns the writers that have not finished.
func (s *stage) runnable() []*writer {
	return slices.DeleteFunc(slices.Clone(s.writers), func(w *writer) bool { return w.next == "" })
}

func (w *writer) step(f fault) {
	w.resume <- f
	w.next = <-w.parked
}

// step lets a writer carry out one operation, with a fault or without, and returns what is wrong after it.
func (s *stage) step(t tester, w *writer, f fault) error {
	t.Helper()
	reads := w.next == "Heads" || w.next == "Range"
	w.step(f)
	if reads && w.next != "" {
		return nil // nothing has changed, and nothing was reported
	}
	return s.check(t)
}

// check returns what is wrong by the invariants, by what was there before, and by what the writers have reported.
func (s *stage) check(t tester) error {
	t.Helper()
	now := readInbox(t, s.store, s.owner)
	if err := now.check(); err != nil {
		return err
	}
	if err := now.follows(s.seen); err != nil {
		return err
	}
	s.seen = now
	if s.hints.wrong != nil {
		return s.hints.wrong
	}
	for i, w := range s.writers {
		if w.failed != nil {
			return fmt.Errorf("writer %d failed: %w", i, w.failed)
		}
		for _, n := range w.reported {
			if !now.holds(id(n)) {
				return fmt.Errorf("writer %d reported message %d, which is not in the inbox", i, n)
			}
		}
	}
	return nil
}

// redeliver delivers messages again, together and one by one, with stale hints and with the right one, and returns what is
// wrong afterwards: they must all be there, once, and only the first time may have added any.
func (s *stage) redeliver(t tester, ns []int) error {
	t.Helper()
	before := len(s.seen.entries())
	added := appendAll(t, s.store, s.owner, s.hints.hint, ns)
	if err := s.check(t); err != nil {
		return fmt.Errorf("after a redelivery: %w", err)
	}
	if now := len(s.seen.entries()); now != before+added {
		return fmt.Errorf("a redelivery reported %d new messages and added %d", added, now-before)
	}
	singles := slices.Collect(slices.Chunk(ns, 1))
	if len(singles) > 6 {
		singles = append(singles[:3], singles[len(singles)-3:]...)
	}
	for sequence := range s.seen {
		if sequence > 0 && sequence < len(s.seen)-1 {
			continue // between the most stale of hints and the least
		}
		for _, batch := range append(singles, ns) {
			if added := appendAll(t, s.store, s.owner, s.seen.hint(sequence), batch); added > 0 {
				return fmt.Errorf("message %v was delivered again with a hint to bucket %d", batch, sequence)
			}
		}
	}
	if err := s.check(t); err != nil {
		return fmt.Errorf("after redeliveries: %w", err)
	}
	for _, n := range ns {
		if !s.seen.holds(id(n)) {
			return fmt.Errorf("message %d is missing", n)
		}
	}
	return nil
}

// stop abandons the writers that have not finished, and waits for them.
func (s *stage) stop() {
	for _, w := range s.runnable() {
		w.step(crashBefore)
	}
}

// ordered returns numbers ascending, each once.
func ordered(ns []int) []int {
	ns = slices.Clone(ns)
	slices.Sort(ns)
	return slices.Compact(ns)
}

// requireSound fails the test, saying how it came about, if something is wrong.
func requireSound(t tester, err error, how any) {
	t.Helper()
	require.NoError(t, err, "%v", how)
}
