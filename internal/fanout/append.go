package fanout

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/tally"
	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

const (
	// chunksPerBatch is into how many chunks a batch divides the recipients that it appends to, if it passes over few. The batch may append
	// so many at the same time, while it reads the next one. Each chunk costs the embedded store at least a file.
	chunksPerBatch = 2
	// entriesPerChunk bounds the entries of a chunk. It does not depend on BatchOwners: in small batches behind many messages, each chunk would
	// have a few owners, and each chunk is a round trip.
	entriesPerChunk = 8000
	// bytesPerChunk bounds the bodies and attributes that the store writes for a chunk, and so how long that takes.
	bytesPerChunk = 16 << 20
)

// The cost of a recipient. A batch ends at a cost limit, not at a recipient count: skipping a dormant follower takes a store about 1/8 of
// the time of an append. Each further message takes about as little, and the batch remembers what becomes of it.
const (
	costPass     = 1 // includes the first message
	costMessage  = 1 // each further message, whether it is appended or skipped
	costAppend   = 7
	costPerOwner = costPass + costAppend
)

// pass delivers messages to a sequence of recipients, and counts them. A batch of tasks is a pass, and so is a round of the router.
type pass struct {
	stores  Stores
	bus     bus.Emitter
	opts    Options
	reach   *reach
	metrics *passMetrics              // nil while a batch has no task
	damaged map[message.UserID]damage // the owners whom the pass misses because of damage
}

// job is a message in a pass.
type job struct {
	message message.Message
	entry   bucket.Entry
	sent    time.Time // of message, which tells it from its id
	order   int       // among the jobs of the pass, which are ascending by message id

	counts progress.Counts // the deliveries of this pass
	passed tally.Counters  // those whom this pass skips: they count if the pass is recorded
	dead   error           // why the message cannot be delivered to one of its recipients
	missed error           // why one of its recipients could not be reached: the pass counts nobody then
	unread error           // why its audience could not be read: the pass does not know all recipients then

	// The rest is zero in a round of the router.
	delivery event.Delivery
	task     event.Task
	recorded progress.Scan // the stored record, as read when the batch began
	scan     progress.Scan // recorded, joined to the position of the batch
}

// set makes the job deliver a message.
func (j *job) set(m message.Message) { j.message, j.entry, j.sent = m, bucket.EntryOf(m), m.Sent() }

// appendCall is one call of the Appender: the entries for the owners of one chunk.
type appendCall struct {
	appends []bucket.Append
	jobs    [][]*job    // for each of appends, the jobs that its entries are from
	viewed  []time.Time // for each of appends, when its owner last looked
	results []bucket.Appended
	skips   []skip
}

// skip is an owner to whom a job is not delivered.
type skip struct {
	job    *job
	reason int
	viewed time.Time      // when the owner last looked
	owner  message.UserID // set if damaged
	damage error
}

// appendNext delivers to the next recipients of a merge, until the pass has reached the cost limit of a batch or the merge has
// ended. It returns the position behind the last recipient. While it appends one chunk, it reads the next one and looks
// up its users.
func (p *pass) appendNext(ctx context.Context, m *merger, addressed func(*job, recipient) bool) (reached position, err error) {
	group, appending := errgroup.WithContext(ctx)
	group.SetLimit(chunksPerBatch)
	var handled []*handling
	budget := p.opts.BatchOwners * costPerOwner
	for last := false; !last && budget > 0; {
		h := new(handling)
		if err = p.prepare(appending, m, addressed, h); err != nil {
			break
		}
		reached, last = h.chunk.reached, h.chunk.last()
		budget -= costPass*h.chunk.passed + costMessage*(len(h.chunk.jobs)-len(h.chunk.owners))
		if h.call != nil {
			budget -= costAppend * len(h.call.appends)
		} else { // how many need an append is not known yet
			budget -= costAppend * len(h.chunk.owners)
		}
		handled = append(handled, h)
		if h.call == nil || len(h.call.appends) > 0 {
			group.Go(func() error { return p.handle(appending, h) })
		}
	}
	if failed := group.Wait(); failed != nil {
		return position{}, failed // a failed append also makes prepare fail
	}
	if err != nil {
		return position{}, err
	}
	for _, h := range handled {
		if err := p.count(ctx, h); err != nil {
			return position{}, err
		}
	}
	return reached, nil
}

// handling is what becomes of a chunk.
type handling struct {
	chunk chunk
	call  *appendCall // nil if the owners could not be looked up together
	alone []*appendCall
	// missed are the errors of the owners that could not be reached, by their index.
	missed map[int]error
}

// prepare reads the next chunk and prepares its append call.
// It recovers from a panic, because the caller has to wait for the goroutines that append.
func (p *pass) prepare(ctx context.Context, m *merger, addressed func(*job, recipient) bool, h *handling) (err error) {
	defer panics.Catch(&err)
	limit := max(1, p.opts.BatchOwners/chunksPerBatch)
	if h.chunk, err = m.next(ctx, limit, addressed); err != nil {
		return err
	}
	err = p.reach.together(ctx, func(ctx context.Context) (err error) {
		h.call, err = p.lookUp(ctx, &h.chunk)
		return err
	})
	if err != nil && passing(ctx, err) {
		return nil
	}
	return err
}

// handle appends to the inboxes of a chunk. If its owners cannot be reached together, it tries each alone.
func (p *pass) handle(ctx context.Context, h *handling) error {
	if h.call != nil {
		err := p.reach.together(ctx, func(ctx context.Context) error { return p.append(ctx, h.call) })
		if err == nil || !passing(ctx, err) {
			return err
		}
	}
	h.call, h.alone = nil, make([]*appendCall, len(h.chunk.owners))
	key := func(i int) string { return string(h.chunk.owners[i]) }
	h.missed = p.reach.alone(ctx, len(h.chunk.owners), key, func(ctx context.Context, i int) error {
		one := chunk{owners: h.chunk.owners[i : i+1], jobs: h.chunk.jobsOf(i)}
		one.ends = []int{len(one.jobs)}
		call, err := p.lookUp(ctx, &one)
		if err == nil && len(call.appends) > 0 {
			err = p.append(ctx, call)
		}
		if err == nil {
			h.alone[i] = call
		}
		return err
	})
	for _, err := range h.missed {
		if !passing(ctx, err) {
			return err
		}
	}
	return nil
}

// likely guesses how many of n owners are of a kind, given how many of another kind came first.
func likely(n, before int) int { return n/(before+1) + 1 }

// lookUp looks up the owners of a chunk and returns its append call. A message that was sent after an owner's horizon
// is left to rehydration. An owner whose record is damaged is skipped, too.
func (p *pass) lookUp(ctx context.Context, c *chunk) (*appendCall, error) {
	call := new(appendCall)
	if len(c.owners) == 0 {
		return call, nil
	}
	// The states are read after the messages were stored. So a user who is skipped here and returns later finds the
	// messages when rehydration looks for missed messages.
	looked, err := p.stores.Users.Lookup(ctx, c.owners)
	if err != nil {
		return nil, fmt.Errorf("look up users: %w", err)
	}
	var owed []userstate.State
	var delivered []*job
	for i, owner := range c.owners {
		if looked[i].Err != nil {
			for _, j := range c.jobsOf(i) {
				call.skips = append(call.skips, skip{job: j, reason: skipDamaged, owner: owner, damage: looked[i].Err})
			}
			continue
		}
		state := &looked[i].State
		delivered = delivered[:0]
		leftToGap := false
		for _, j := range c.jobsOf(i) {
			if state.Deliver(j.sent) {
				delivered = append(delivered, j)
				continue
			}
			leftToGap = leftToGap || state.InGap(j.sent)
			if call.skips == nil {
				call.skips = make([]skip, 0, likely(len(c.jobs), i))
			}
			call.skips = append(call.skips, skip{job: j, reason: skipReason(state, j.sent), viewed: state.LastViewed})
		}
		if leftToGap {
			owed = append(owed, *state)
		}
		if len(delivered) == 0 {
			continue
		}
		a := bucket.Append{Owner: owner, Hint: state.Head}
		if call.appends == nil {
			n := likely(len(c.owners)-i, i)
			call.appends, call.jobs, call.viewed = make([]bucket.Append, 0, n), make([][]*job, 0, n), make([]time.Time, 0, n)
		}
		var jobs []*job
		if last := len(call.appends) - 1; last >= 0 && slices.Equal(delivered, call.jobs[last]) {
			jobs, a.Entries = call.jobs[last], call.appends[last].Entries // most owners get the same entries: share them
		} else {
			jobs, a.Entries = slices.Clone(delivered), entriesOf(delivered)
		}
		call.appends, call.jobs, call.viewed = append(call.appends, a), append(call.jobs, jobs), append(call.viewed, state.LastViewed)
	}
	// Like the entries, this becomes durable with record.
	if err := userstate.Owe(ctx, p.stores.Users, owed, p.opts.Now(), true); err != nil {
		return nil, err
	}
	return call, nil
}

// append appends the entries of a call. They become durable with record.
func (p *pass) append(ctx context.Context, call *appendCall) (err error) {
	ctx, span := p.opts.Tracer.Start(ctx, "append")
	defer func() { span.Done(err) }()
	defer panics.Catch(&err)
	if span.IsRecording() {
		span.SetAttributes(tracing.Owners.Int(len(call.appends)), tracing.Entries.Int(call.entries()))
	}
	if call.results, err = p.stores.Appender.AppendLazily(ctx, call.appends); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	var appended, duplicates int
	var delivered tally.Counters
	for i, result := range call.results {
		if result.Err != nil {
			continue
		}
		appended += result.New
		for _, j := range call.jobs[i][len(call.jobs[i])-result.New:] { // the others were there, or which is not known
			delivered.DeliveredBytes += j.size()
			delivered.Away[tally.Step(call.viewed[i], j.sent)]++
		}
		if there := len(call.appends[i].Entries) - result.New; there > 0 {
			duplicates += max(0, there-headStarted(call.appends[i].Owner, call.jobs[i]))
		}
	}
	p.metrics.deliveries.Add(float64(appended))
	p.metrics.duplicates.Add(float64(duplicates))
	delivered.Delivered = int64(appended)
	p.opts.Tally.Add(delivered)
	return nil
}

// count counts for each job to whom a chunk was delivered, and who was skipped.
func (p *pass) count(ctx context.Context, h *handling) error {
	for i, err := range h.missed {
		for _, j := range h.chunk.jobsOf(i) {
			j.missed = err
		}
	}
	for _, call := range append(h.alone, h.call) {
		if call == nil {
			continue
		}
		if err := p.countCall(ctx, call); err != nil {
			return err
		}
	}
	return nil
}

func (p *pass) countCall(ctx context.Context, call *appendCall) error {
	for _, s := range call.skips {
		s.job.counts.Skipped++
		p.metrics.skipped[s.reason].Inc()
		s.tally()
		if s.damage != nil {
			p.noteDamaged(s.owner, s.job, s.damage)
		}
	}
	for i, result := range call.results {
		delivered := call.jobs[i]
		if result.Err != nil {
			var err error
			if delivered, err = p.appendOneByOne(ctx, call.appends[i], delivered, result.Err); err != nil {
				return err
			}
		}
		for _, j := range delivered {
			j.counts.Delivered++
		}
	}
	return nil
}

// tally counts a skip for its job.
func (s *skip) tally() {
	passed := &s.job.passed
	switch s.reason {
	case skipDormant:
		passed.Skipped.Dormant++
		passed.Away[tally.Step(s.viewed, s.job.sent)]++
	case skipNeverSeen:
		passed.Skipped.NeverSeen++
	default:
		return
	}
	passed.Skipped.Bytes += s.job.size()
}

// size returns the bytes of a copy of the message: of its body and attributes.
func (j *job) size() int64 { return int64(len(j.entry.Body) + len(j.entry.Attrs)) }

// appendOneByOne appends entries to an inbox one by one, after appending them together failed. It returns the jobs whose entry
// is there. It skips the owner for those that damage in the inbox prevents, and marks the others as dead.
func (p *pass) appendOneByOne(ctx context.Context, together bucket.Append, jobs []*job, cause error) (delivered []*job, err error) {
	if Classify(cause) != DeadLetter {
		return nil, cause
	}
	for _, j := range jobs {
		alone := together
		alone.Entries = []bucket.Entry{j.entry}
		results, err := p.stores.Appender.AppendLazily(ctx, []bucket.Append{alone})
		switch {
		case err != nil && passing(ctx, err):
			j.missed = err
		case err != nil:
			return nil, fmt.Errorf("append: %w", err)
		case results[0].Err == nil:
			delivered = append(delivered, j)
		case isDamaged(results[0].Err):
			p.skipDamaged(together.Owner, j, results[0].Err)
		case Classify(results[0].Err) == DeadLetter:
			j.dead = fmt.Errorf("inbox of %s: %w", together.Owner, results[0].Err)
		default:
			return nil, results[0].Err
		}
	}
	return delivered, nil
}

func entriesOf(jobs []*job) []bucket.Entry {
	entries := make([]bucket.Entry, len(jobs))
	for i, j := range jobs {
		entries[i] = j.entry
	}
	return entries
}

// entries returns how many entries a call appends.
func (c *appendCall) entries() (n int) {
	for _, a := range c.appends {
		n += len(a.Entries)
	}
	return n
}

// report measures and logs messages that have ended.
func (p *pass) report(endings []message.Ending) {
	for _, e := range endings {
		p.metrics.messages.Observe(p.opts.Now().Sub(e.Ref.ID.Time()).Seconds())
		p.opts.logEnding(e)
	}
}
