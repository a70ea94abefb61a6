package main

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"strings"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/message"
)

// scanning is the protocol by which the fan-out of a message goes through the recipients of a partition, in a circle: a
// scan that begins anywhere, tasks that are delivered again at any time, and workers that stall between any two steps and
// crash. What a scan does is computed by internal/progress itself.
type scanning struct {
	mutation mutation

	owners  int8
	batch   int8 // owners in a batch, at most
	repeats int8 // how often a task is delivered again while a worker still holds it
	crashes int8
	leaves  int8 // how many owners cease to be recipients meanwhile
	misses  int8 // how often a batch does not reach one of its owners
	heads   int8 // how many owners a head start reaches at most, at any time
}

const maxTasks = 7

// fanOut is a state of scanning.
type fanOut struct {
	scan    scan
	tasks   [maxTasks]task
	workers [2]worker

	owners  owners // who are recipients
	handled owners // who got the message, or were left to rehydration
	undone  bool   // the record was done, and is not any more

	repeats, crashes, leaves, misses, heads int8 // left
}

// scan is a progress.Scan with positions as numbers: 0 is before the first owner.
type scan struct {
	joined, done         bool
	start, at, delivered int8

	noted           bool // an arc, with what follows
	from, to, since int8

	// What no record holds: the owners whom delivered and since count, and whether one is counted a second time.
	counted, countedSince owners
	twice                 bool
}

// owners are a set, a bit for each position.
type owners uint8

func (o owners) has(owner int8) bool { return o&(1<<owner) != 0 }

// task is a place in the queue.
type task struct {
	waiting bool
	start   int8 // carried along, plus 1 (a mutation)
}

// worker is what a worker does and knows.
type worker struct {
	phase    working
	task     int8   // the place of its task in the queue
	carried  int8   // what the task carried (a mutation)
	start    int8   // what its continuation is to carry (a mutation)
	recorded scan   // the record as it was when the batch began
	to       scan   // as it is to be
	stretch  owners // whom the batch handles
	counts   owners // those of them who count
}

// working is what a worker does next.
type working uint8

const (
	free       working = iota
	beginning          // read the record
	merging            // join, and read the audience
	delivering         // append to the inboxes
	advancing          // record by compare-and-set
	emitting           // emit the continuation
	removing           // remove the task
)

func (m *scanning) initial() []fanOut {
	s := fanOut{owners: 2<<m.owners - 2, repeats: m.repeats, crashes: m.crashes, leaves: m.leaves, misses: m.misses, heads: m.heads}
	s.tasks[0].waiting = true
	return []fanOut{s}
}

func (m *scanning) next(s fanOut, do func(event, fanOut)) {
	yield := func(e event, t fanOut) { do(e, m.normal(t)) }
	for i := range s.workers {
		n := int8(i)
		w := s.workers[i]
		if w.phase == free {
			m.take(s, n, yield)
			continue
		}
		if s.crashes > 0 {
			t := s
			t.crashes--
			t.tasks[w.task] = task{waiting: true, start: w.carried}
			t.workers[i] = worker{}
			yield(happened("worker %d crashes", n), t)
		}
		if s.repeats > 0 && !s.tasks[w.task].waiting {
			t := s
			t.repeats--
			t.tasks[w.task] = task{waiting: true, start: w.carried}
			yield(happened("the task of worker %d is delivered again", n), t)
		}
		m.work(s, n, yield)
	}
	for owner := int8(1); owner <= m.owners && s.leaves > 0; owner++ {
		if t := s; s.owners.has(owner) {
			t.leaves--
			t.owners &^= 1 << owner
			yield(happened("owner %d is no recipient any more", owner), t)
		}
	}
	for owner := int8(1); owner <= m.owners && s.heads > 0; owner++ {
		if s.owners.has(owner) {
			yield(happened("a head start appends for owner %d", owner), m.headStart(s, owner))
		}
	}
}

// headStart appends the message for an owner, before, during or after the scan. It records and counts nothing.
func (m *scanning) headStart(s fanOut, owner int8) fanOut {
	s.heads--
	s.handled |= 1 << owner
	switch m.mutation {
	case headCounts:
		s.scan = s.scan.count(1 << owner)
		s.scan.delivered++
	case headRecords:
		moved := s.scan.real().Join("")
		if s.scan.done || !moved.Ahead(position(owner)) {
			break
		}
		counted := s.scan.counted
		s.scan = modelOf(moved.Advance(position(owner), false, progress.Counts{Delivered: 1}))
		s.scan.counted = counted | 1<<owner
	default:
	}
	return s
}

// take lets a free worker take a task.
func (m *scanning) take(s fanOut, n int8, yield func(event, fanOut)) {
	if n > 0 && s.workers[0].phase == free {
		return // the first one will do
	}
	for i, waiting := range s.tasks {
		if waiting.waiting {
			t := s
			t.tasks[i] = task{}
			t.workers[n] = worker{phase: beginning, task: int8(i), carried: waiting.start, start: waiting.start}
			yield(happened("worker %d takes task %d", n, int8(i)), t)
		}
	}
}

func (m *scanning) work(s fanOut, n int8, yield func(event, fanOut)) {
	w := &s.workers[n]
	switch w.phase {
	case free:
	case beginning:
		w.recorded, w.phase = s.scan, merging
		if s.scan.done {
			*w = worker{phase: removing, task: w.task, carried: w.carried}
		}
		yield(happened("worker %d reads the record", n), s)
	case merging:
		m.merge(s, n, yield)
	case delivering:
		if m.mutation == newOnly {
			w.counts &^= s.handled
			w.to.delivered = w.recorded.delivered + w.counts.len()
		}
		s.handled |= w.stretch
		w.phase = advancing
		if m.mutation == emitFirst && !w.to.done {
			m.emit(&s, 0)
			yield(happened("worker %d appends, and emits the continuation", n), s)
			return
		}
		yield(happened("worker %d appends", n), s)
	case advancing:
		to := w.to.at
		m.advance(&s, w)
		yield(happened("worker %d records %d; what is recorded is %d", n, to, s.scan.at), s)
	case emitting:
		m.emit(&s, w.start)
		*w = worker{phase: removing, task: w.task, carried: w.carried}
		yield(happened("worker %d emits the continuation", n), s)
	case removing:
		s.tasks[w.task] = task{}
		*w = worker{}
		yield(happened("worker %d removes its task", n), s)
	}
}

// merge joins the scan at its position or, if no worker has joined it yet, anywhere, because other scans may be there. It then reads the
// audience, up to any length of a batch.
func (m *scanning) merge(s fanOut, n int8, yield func(event, fanOut)) {
	first, last := s.workers[n].recorded.at, s.workers[n].recorded.at
	if !s.workers[n].recorded.joined {
		first, last = 0, m.owners
	}
	for at := first; at <= last; at++ {
		for length := int8(1); length <= m.batch; length++ {
			t := s
			w := &t.workers[n]
			m.stretch(w, t.owners, at, length, 0)
			w.phase = delivering
			yield(happened("worker %d reads %d of the audience from %d on, and will move to %d", n, length, at, w.to.at), t)
			for owner := int8(1); owner <= m.owners && s.misses > 0; owner++ {
				if !w.stretch.has(owner) {
					continue
				}
				t := t
				t.misses--
				t.workers[n] = s.workers[n]
				m.stretch(&t.workers[n], t.owners, at, length, owner)
				t.workers[n].phase = delivering
				yield(happened("worker %d reads %d of the audience from %d on, and cannot reach %d", n, length, at, owner), t)
			}
		}
	}
}

// stretch computes a batch, as internal/fanout does. It cannot reach the missed owner, if there is one.
func (m *scanning) stretch(w *worker, audience owners, at, length, missed int8) {
	recorded := w.recorded.real()
	joined := recorded.Join(position(at))
	if m.mutation == startInTask {
		if w.start == 0 {
			w.start = at + 1
		}
		joined.Start = position(w.start - 1)
	}
	var end int8
	toEnd := true
	for owner := at + 1; owner < 8; owner++ {
		if !audience.has(owner) {
			continue
		}
		if length == 0 {
			toEnd = false
			break
		}
		length--
		end = owner
		if joined.Ahead(position(owner)) {
			w.stretch |= 1 << owner
			if recorded.Ahead(position(owner)) {
				w.counts |= 1 << owner
			}
		}
	}
	if missed != 0 && m.mutation != missIsSkip {
		w.counts &^= 1 << missed
	}
	w.stretch &^= 1 << missed
	w.to = m.move(w.recorded, joined, position(end), toEnd, w.counts, missed != 0)
	if m.mutation == plainStrings && !toEnd && end >= number(joined.Start) {
		w.to.at, w.to.done = number(joined.Start), true
	}
}

// move computes the record after a batch.
func (m *scanning) move(recorded scan, joined progress.Scan, end message.UserID, toEnd bool, counts owners, missed bool) (to scan) {
	missed = missed && m.mutation != arcForgotten && m.mutation != missIsSkip
	counted := recorded
	moved := joined.Advance(end, toEnd, progress.Counts{Delivered: int64(counts.len())})
	if missed {
		moved, counted.countedSince = joined.Miss(end, toEnd), 0
	}
	switch {
	case missed && m.mutation == othersCount && moved.Arc.Noted:
		moved.Delivered += int64(counts.len())
		counted = counted.count(counts)
	case missed && m.mutation == sinceKept && moved.Arc.Noted:
		moved.Arc.Since, counted.countedSince = joined.Arc.Since, recorded.countedSince
	case missed && m.mutation == arcReplaced && moved.Arc.Noted:
		moved.Arc.From = joined.At
	case missed:
	case recorded.noted:
		counted.twice = counted.twice || counted.countedSince&counts != 0
		counted.countedSince |= counts
	default:
		counted = counted.count(counts)
	}
	if (recorded.noted || missed) && !moved.Arc.Noted { // it turns, to go over the arc
		counted = counted.count(counted.countedSince)
		counted.countedSince = 0
	}
	to = modelOf(moved)
	to.counted, to.countedSince, to.twice = counted.counted, counted.countedSince, counted.twice
	return to
}

// count returns the scan with owners whom the record counts.
func (s scan) count(who owners) scan {
	s.twice = s.twice || s.counted&who != 0
	s.counted |= who
	return s
}

// advance records the position of the scan. If another worker was first, its record stays.
func (m *scanning) advance(s *fanOut, w *worker) {
	same := s.scan.real().Same(w.recorded.real())
	switch m.mutation {
	case plainRecord, emitFirst:
		same = true
	case startInTask:
		same = s.scan.joined == w.recorded.joined && s.scan.at == w.recorded.at && s.scan.done == w.recorded.done
	default:
	}
	if same {
		s.undone = s.undone || s.scan.done && !w.to.done
		s.scan = w.to
	}
	*w = worker{phase: emitting, task: w.task, carried: w.carried, start: w.start}
	if s.scan.done || m.mutation == emitFirst {
		*w = worker{phase: removing, task: w.task, carried: w.carried}
	}
}

// emit puts a continuation into the queue, in a place that no worker refers to.
func (m *scanning) emit(s *fanOut, start int8) {
	for i := range s.tasks {
		place := int8(i)
		known := s.tasks[i].waiting
		for _, w := range s.workers {
			known = known || w.phase != free && w.task == place
		}
		if !known {
			s.tasks[i] = task{waiting: true, start: start}
			return
		}
	}
	panic("the queue is too small for this instance")
}

// normal returns the one of all states that differ in nothing but the names of workers and the places of tasks: first the
// tasks that workers have, then the others.
func (m *scanning) normal(s fanOut) fanOut {
	if m.mutation != correct {
		return s // so that each worker keeps its name in a trace
	}
	if s.workers[0].weight() < s.workers[1].weight() {
		s.workers[0], s.workers[1] = s.workers[1], s.workers[0]
	}
	var placed [maxTasks]bool
	old := s.tasks
	s.tasks = [maxTasks]task{}
	n := int8(0)
	place := func(from int8) int8 {
		placed[from] = true
		s.tasks[n] = old[from]
		n++
		return n - 1
	}
	for i, w := range s.workers {
		switch {
		case w.phase == free:
		case placed[w.task]:
			s.workers[i].task = 0
		default:
			s.workers[i].task = place(w.task)
		}
	}
	for i := range old {
		if !placed[i] && old[i].waiting {
			place(int8(i))
		}
	}
	return s
}

// weight is a number that is different for workers that differ in more than their task.
func (w worker) weight() uint64 {
	w.task = 0
	return maphash.Comparable(weights, w)
}

var weights = maphash.MakeSeed()

func (m *scanning) wrong(s fanOut) string {
	switch {
	case s.undone:
		return "what was done is not done any more"
	case s.scan.twice && m.countsChecked():
		return "an owner is counted twice"
	case s.scan.done && s.owners&^s.handled != 0:
		return "it is done, and an owner was not handled"
	case !m.countsChecked():
	case s.scan.done && s.owners&^s.scan.counted != 0, s.scan.done && s.scan.delivered != s.scan.counted.len():
		return "it is done, and the count is not that of the owners"
	case !s.scan.done && m.atRest(s):
		return "nobody is at it, and it is not done"
	}
	return ""
}

// countsChecked is false where a mutation is to show more than a wrong count.
func (m *scanning) countsChecked() bool { return m.mutation != emitFirst && m.mutation != startInTask }

func (m *scanning) atRest(s fanOut) bool {
	for _, t := range s.tasks {
		if t.waiting {
			return false
		}
	}
	for _, w := range s.workers {
		if w.phase != free {
			return false
		}
	}
	return true
}

func (m *scanning) stuck(s fanOut) string {
	if !s.scan.done {
		return "it comes to no end"
	}
	return ""
}

func (m *scanning) show(s fanOut) string {
	var b strings.Builder
	switch {
	case s.scan.done:
		b.WriteString("done")
	case s.scan.joined:
		fmt.Fprintf(&b, "at %d from %d", s.scan.at, s.scan.start)
	default:
		b.WriteString("not joined")
	}
	if s.scan.noted {
		fmt.Fprintf(&b, ", arc from %d to %d and %d since", s.scan.from, s.scan.to, s.scan.since)
	}
	fmt.Fprintf(&b, ", counted %d; handled", s.scan.delivered)
	for owner := int8(1); owner <= m.owners; owner++ {
		if s.handled.has(owner) {
			fmt.Fprintf(&b, " %d", owner)
		}
	}
	return b.String()
}

func (o owners) len() int8 { return int8(bits.OnesCount8(uint8(o))) }

// position returns a position as internal/progress knows it.
func position(n int8) message.UserID {
	if n == 0 {
		return ""
	}
	return message.UserID("abcdefg"[n-1 : n])
}

func number(p message.UserID) int8 {
	if p == "" {
		return 0
	}
	return int8(p[0]-'a') + 1
}

func (s scan) real() progress.Scan {
	same := progress.Scan{Joined: s.joined, Done: s.done, Start: position(s.start), At: position(s.at), Delivered: int64(s.delivered)}
	if s.noted {
		same.Arc = progress.Arc{Noted: true, From: position(s.from), To: position(s.to), Since: progress.Counts{Delivered: int64(s.since)}}
	}
	return same
}

func modelOf(s progress.Scan) scan {
	return scan{
		joined: s.Joined, done: s.Done, start: number(s.Start), at: number(s.At), delivered: int8(s.Delivered),
		noted: s.Arc.Noted, from: number(s.Arc.From), to: number(s.Arc.To), since: int8(s.Arc.Since.Delivered),
	}
}
