package buckettest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/attribute"
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

// writer is a goroutine that appends, and that stops before each operation on the store until the stage lets it continue.
type writer struct {
	jobs   []job
	parked chan string // the method that it is going to call; closed when it has finished
	resume chan fault
	next   string // what parked said last; empty when the writer has finished

	// The next fields belong to the running goroutine: the writer or, while the writer is parked, the stage.

	crashed  bool
	after    fault
	reported []int // the messages of which Append has said that they are in the inbox
	added    int   // the sum of New
	failed   error // an error that is not a crash
	// knows is what it has loaded of the declarations.
	knows attribute.Set
}

// stage lets writers append to one owner's inbox. Exactly one of the writers, or none, runs at any time.
type stage struct {
	store   bucket.Store
	owner   message.UserID
	hints   *hintBook
	writers []*writer
	seen    inbox
	// purged is the owner's purge point, the greatest one with which an emptier empties the inbox.
	purged message.ID
	// gone are the ids that stubs held.
	gone map[message.ID]bool
	// registry, unless it is nil, has the declarations. Each writer knows those of them that it has loaded.
	registry *registry
}

// newStage starts a writer for each list of jobs. They stand before their first operations.
func newStage(t tester, store bucket.Store, owner message.UserID, jobs [][]job) *stage {
	t.Helper()
	return newDeclaringStage(t, store, owner, jobs, nil)
}

// newDeclaringStage is newStage with declarations.
func newDeclaringStage(t tester, store bucket.Store, owner message.UserID, jobs [][]job, declared *registry) *stage {
	t.Helper()
	s := &stage{store: store, owner: owner, hints: &hintBook{store: store}, seen: readInbox(t, store, owner), registry: declared}
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
	for _, j := range w.jobs {
		if j.current {
			j.hint = s.hints.hint
		}
		load := func(ctx context.Context) error { return w.before(ctx, &Op{Method: "Load"}) }
		appender := s.registry.appender(seam, seam, &w.knows, load)
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
	reads := slices.Contains([]string{"Heads", "Range", "Load"}, w.next)
	w.step(f)
	if reads && w.next != "" {
		return nil // nothing has changed, and nothing was reported
	}
	return s.check(t)
}

// check returns the violations of the invariants, given the earlier content and the reports of the writers.
func (s *stage) check(t tester) error {
	t.Helper()
	now := readInbox(t, s.store, s.owner)
	if err := now.check(); err != nil {
		return err
	}
	if err := now.follows(s.seen); err != nil {
		return err
	}
	if err := s.lose(now); err != nil {
		return err
	}
	if err := now.declares(s.seen); err != nil {
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

// redeliver delivers messages again, together and one by one, with stale hints and with the right one. It returns what is wrong afterwards:
// they must all be there, once, and only the first time may have added any.
func (s *stage) redeliver(t tester, ns []int) error {
	t.Helper()
	return redeliverAll(t, []*stage{s}, ns)[0]
}

// redeliverAll is redeliver on several stages of one store, in calls that they share.
func redeliverAll(t tester, stages []*stage, ns []int) (wrong []error) {
	t.Helper()
	wrong = make([]error, len(stages))
	check := func(when string) {
		for i, s := range stages {
			if err := s.check(t); err != nil && wrong[i] == nil {
				wrong[i] = fmt.Errorf("after %s: %w", when, err)
			}
		}
	}
	before := make([]int, len(stages))
	for i, s := range stages {
		before[i] = len(s.seen.entries())
	}
	added := appendToAll(t, stages, ns, func(s *stage) (bucket.Hint, bool) { return s.hints.hint, true })
	check("a redelivery")
	for i, s := range stages {
		if now := len(s.seen.entries()); now != before[i]+added[i] && wrong[i] == nil {
			wrong[i] = fmt.Errorf("a redelivery reported %d new messages and added %d", added[i], now-before[i])
		}
	}
	batches := slices.Collect(slices.Chunk(ns, 1))
	if len(batches) > 6 {
		batches = append(batches[:3], batches[len(batches)-3:]...)
	}
	batches = append(batches, ns)
	mostStale := func(s *stage) (bucket.Hint, bool) { return s.seen.hint(0), len(s.seen) > 0 }
	leastStale := func(s *stage) (bucket.Hint, bool) { return s.seen.hint(len(s.seen) - 1), len(s.seen) > 1 }
	for _, hint := range []func(*stage) (bucket.Hint, bool){mostStale, leastStale} {
		for _, batch := range batches {
			for i, added := range appendToAll(t, stages, batch, hint) {
				if added > 0 && wrong[i] == nil {
					hint, _ := hint(stages[i])
					wrong[i] = fmt.Errorf("message %v was delivered again with a hint to bucket %d", batch, hint.Sequence)
				}
			}
		}
	}
	check("redeliveries")
	for i, s := range stages {
		for _, n := range ns {
			if !s.seen.holds(id(n)) && wrong[i] == nil {
				wrong[i] = fmt.Errorf("message %d is missing", n)
			}
		}
	}
	return wrong
}

// appendToAll appends messages to the inboxes of all stages that have a hint, in one call, and returns how many were new to each.
func appendToAll(t tester, stages []*stage, ns []int, hint func(*stage) (bucket.Hint, bool)) []int {
	t.Helper()
	var appends []bucket.Append
	var places []int
	for i, s := range stages {
		if hint, ok := hint(s); ok {
			appends = append(appends, bucket.Append{Owner: s.owner, Hint: hint, Entries: entries(ns...)})
			places = append(places, i)
		}
	}
	added := make([]int, len(stages))
	if len(appends) == 0 {
		return added
	}
	results, err := stages[0].registry.appender(stages[0].store, noHints{}, new(attribute.Set), nil).Append(t.Context(), appends)
	require.NoError(t, err)
	for k, r := range results {
		require.NoError(t, r.Err)
		added[places[k]] = r.New
	}
	return added
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
