package main

// concluding models how the plan of a message ends: its final counts move into the message, the plan is removed, and later the message.
// Routers, workers, collectors and operators stall between any two steps, and crash. An audience has two partitions with a recipient each,
// so a scan takes one step.
type concluding struct {
	mutation mutation

	repeats  int8 // how often an event or a task is repeated
	crashes  int8
	deaths   int8 // how many tasks become dead letters
	twins    bool // each has two
	sweeps   int8
	removals int8 // how many times the message may be removed
	readers  int8
}

// concluded is a state of concluding.
type concluded struct {
	stored, unfinished, final bool
	counts                    results // what the message says, once final

	plan  bool
	late  bool // it was made after the message was final
	scans results

	events  int8
	tasks   [2]int8
	letters [2]int8

	routers    [2]routing
	worker     scanningTask
	collectors [2]collecting
	operator   operating
	reader     asking

	truth results // what the scans were when all had ended; open before
	wrong string

	repeats, crashes, deaths, sweeps, removals, readers int8 // left
}

// results are how far the scans are.
type results [2]scanResult

type scanResult int8

const (
	scanOpen scanResult = iota
	scanDead
	scanDelivered
	scanSkipped
	scanGivenUp
)

func (r scanResult) ended() bool { return r >= scanDelivered }

func (r results) ended() bool { return r[0].ended() && r[1].ended() }

// routing is a router with an event.
type routing struct {
	phase routerPhase
	final bool // what the message said when it was read first
	late  bool // the plan that it got was made after the message was final
	scans results
}

type routerPhase uint8

const (
	routerFree routerPhase = iota
	routerPlans
	routerChecks
	routerRemoves
	routerEmits
)

// scanningTask is a worker with a task.
type scanningTask struct {
	phase     workerPhase
	partition int8
}

type workerPhase uint8

const (
	workerFree workerPhase = iota
	workerReads
	workerDelivers
	workerWithoutPlan
)

// collecting is a collector with the plan that it has read.
type collecting struct {
	phase collectorPhase
	scans results
}

type collectorPhase uint8

const (
	collectorFree collectorPhase = iota
	collectorAsks
	collectorConcludes
	collectorRemoves
)

// operating is an operator with a dead letter.
type operating struct {
	phase     operatorPhase
	partition int8
}

type operatorPhase uint8

const (
	operatorFree operatorPhase = iota
	operatorEmits
	operatorDrops
	operatorGivesUp
)

// asking asks for the status of the message.
type asking struct {
	phase   readerPhase
	done    bool // it was done when the reader began
	planned bool
	scans   results
	final   bool
	counts  results
}

type readerPhase uint8

const (
	readerFree readerPhase = iota
	readerAsks
	readerAnswers
)

func (m *concluding) initial() []concluded {
	return []concluded{{
		stored: true, unfinished: true, events: 1,
		repeats: m.repeats, crashes: m.crashes, deaths: m.deaths, sweeps: m.sweeps, removals: m.removals, readers: m.readers,
	}}
}

func (m *concluding) next(s concluded, do func(event, concluded)) {
	yield := func(e event, t concluded) {
		if t.plan && !t.late && t.scans.ended() && !t.truth.ended() {
			t.truth = t.scans
		}
		do(e, t)
	}
	if s.repeats > 0 {
		t := s
		t.repeats--
		t.events++
		yield(happened("the event is repeated"), t)
		for p := range s.tasks {
			t := s
			t.repeats--
			t.tasks[p]++
			yield(happened("a task of partition %d is repeated", int8(p)), t)
		}
	}
	for i := range s.routers {
		m.route(s, int8(i), yield)
	}
	m.work(s, yield)
	for i := range s.collectors {
		m.collect(s, int8(i), yield)
	}
	m.operate(s, yield)
	m.read(s, yield)
	m.sweep(s, yield)
	if s.removals > 0 && s.stored && (s.final || m.mutation == removedUnconcluded && s.plan && s.scans.ended()) {
		t := s
		t.removals--
		t.stored, t.unfinished = false, false
		yield(happened("the message is removed"), t)
	}
}

// route is a step of a router: it reads the message, plans, asks whether the message is final, and emits tasks.
func (m *concluding) route(s concluded, n int8, yield func(event, concluded)) {
	r := s.routers[n]
	if r.phase == routerFree {
		if s.events == 0 || n > 0 && s.routers[0].phase == routerFree {
			return
		}
		s.events--
		if s.stored && (m.mutation != routerAsksFirst || !s.final) {
			s.routers[n] = routing{phase: routerPlans, final: s.final}
		}
		yield(happened("router %d reads the message", n), s)
		return
	}
	if s.crashes > 0 {
		t := s
		t.crashes--
		t.events++
		t.routers[n] = routing{}
		yield(happened("router %d crashes", n), t)
	}
	switch r.phase {
	case routerPlans:
		if !s.plan {
			s.plan, s.late, s.scans = true, s.final || !s.stored, results{}
		}
		s.routers[n].phase, s.routers[n].late, s.routers[n].scans = routerChecks, s.late, s.scans
		yield(happened("router %d plans", n), s)
	case routerChecks:
		asks := m.mutation != routerPlanAlone && m.mutation != routerAsksFirst
		switch {
		case asks && (s.final || !s.stored) && !r.scans.ended():
			s.routers[n].phase = routerRemoves
		case r.scans.ended():
			s.unfinished = false
			s.routers[n] = routing{}
		default:
			s.routers[n].phase = routerEmits
		}
		yield(happened("router %d asks whether the message is final", n), s)
	case routerRemoves:
		s.removePlan()
		s.unfinished = false
		s.routers[n] = routing{}
		yield(happened("router %d removes the plan", n), s)
	case routerEmits:
		for p, scan := range r.scans {
			if scan == scanOpen {
				s.tasks[p]++
				if r.late {
					s.wrong = "a message that was final is fanned out again"
				}
			}
		}
		s.routers[n] = routing{}
		yield(happened("router %d emits tasks", n), s)
	default:
	}
}

func (s *concluded) removePlan() { s.plan, s.late, s.scans = false, false, results{} }

// work is a step of the worker.
func (m *concluding) work(s concluded, yield func(event, concluded)) {
	w := s.worker
	if w.phase == workerFree {
		for p := range s.tasks {
			if t := s; s.tasks[p] > 0 {
				t.tasks[p]--
				t.worker = scanningTask{phase: workerReads, partition: int8(p)}
				yield(happened("the worker takes a task of partition %d", int8(p)), t)
			}
		}
		return
	}
	if s.crashes > 0 {
		t := s
		t.crashes--
		t.tasks[w.partition]++
		t.worker = scanningTask{}
		yield(happened("the worker crashes"), t)
	}
	switch w.phase {
	case workerReads:
		switch {
		case !s.plan:
			s.worker.phase = workerWithoutPlan
		case s.scans[w.partition] == scanOpen:
			s.worker.phase = workerDelivers
		default:
			s.worker = scanningTask{}
		}
		yield(happened("the worker reads the scan"), s)
	case workerWithoutPlan:
		if !s.final && s.stored {
			s.events++
		}
		s.worker = scanningTask{}
		yield(happened("the worker finds no plan"), s)
	case workerDelivers:
		for _, to := range []scanResult{scanDelivered, scanSkipped, scanDead} {
			t := s
			if to == scanDead {
				if t.deaths == 0 {
					continue
				}
				t.deaths--
				t.letters[w.partition]++
				if m.twins {
					t.letters[w.partition]++
				}
			}
			switch {
			case t.plan && t.scans[w.partition] == scanOpen:
				t.scans[w.partition] = to
				if t.scans.ended() {
					t.unfinished = false
				}
			case !t.plan:
				t.tasks[w.partition]++ // the continuation
			}
			t.worker = scanningTask{}
			yield(happened("the worker records partition %d as %d", w.partition, int8(to)), t)
		}
	default:
	}
}

// collect is a step of a collector: it reads the plan, asks for the message, moves the counts, and removes the plan.
func (m *concluding) collect(s concluded, n int8, yield func(event, concluded)) {
	c := s.collectors[n]
	early := m.mutation == concludedEarly
	if c.phase == collectorFree {
		if s.plan && (early || s.scans.ended() || s.final || !s.stored) && (n == 0 || s.collectors[0].phase != collectorFree) {
			s.collectors[n] = collecting{phase: collectorAsks, scans: s.scans}
			yield(happened("collector %d reads the plan", n), s)
		}
		return
	}
	if s.crashes > 0 {
		t := s
		t.crashes--
		t.collectors[n] = collecting{}
		yield(happened("collector %d crashes", n), t)
	}
	switch c.phase {
	case collectorAsks:
		switch {
		case !s.stored, s.final && m.mutation != concludedAgain:
			s.collectors[n].phase = collectorRemoves
		case !early && !c.scans.ended():
			s.collectors[n] = collecting{}
		case m.mutation == planRemovedFirst:
			s.collectors[n].phase = collectorRemoves
		default:
			s.collectors[n].phase = collectorConcludes
		}
		yield(happened("collector %d asks for the message", n), s)
	case collectorConcludes:
		if s.stored && (!s.final || m.mutation == concludedAgain) {
			s.final, s.counts, s.unfinished = true, c.scans, false
		}
		s.collectors[n].phase = collectorRemoves
		if m.mutation == planRemovedFirst {
			s.collectors[n] = collecting{}
		}
		yield(happened("collector %d moves the counts into the message", n), s)
	case collectorRemoves:
		s.removePlan()
		s.collectors[n] = collecting{}
		if m.mutation == planRemovedFirst {
			s.collectors[n] = collecting{phase: collectorConcludes, scans: c.scans}
		}
		yield(happened("collector %d removes the plan", n), s)
	default:
	}
}

// operate is a step of an operator, who redrives dead letters and drops them. A message whose dead letter expires is dropped in the same way.
func (m *concluding) operate(s concluded, yield func(event, concluded)) {
	o := s.operator
	p := o.partition
	if o.phase == operatorFree {
		for p := range s.letters {
			if s.letters[p] == 0 {
				continue
			}
			t := s
			revives := s.scans[p] == scanDead || m.mutation == givenUpRevived && s.scans[p] == scanGivenUp
			if revives {
				t.scans[p] = scanOpen
			}
			if s.scans[p] != scanGivenUp || revives { // otherwise it is refused
				t.operator = operating{phase: operatorEmits, partition: int8(p)}
				yield(happened("the operator redrives partition %d: it is revived", int8(p)), t)
			}
			t = s
			t.operator = operating{phase: operatorGivesUp, partition: int8(p)}
			if m.mutation == letterDroppedFirst {
				t.letters[p]--
			}
			yield(happened("the operator drops the letter of partition %d", int8(p)), t)
		}
		return
	}
	if s.crashes > 0 {
		t := s
		t.crashes--
		t.operator = operating{}
		yield(happened("the operator's process crashes"), t)
	}
	switch o.phase {
	case operatorEmits:
		s.tasks[p]++
		s.operator.phase = operatorDrops
		yield(happened("the task of partition %d is emitted", p), s)
	case operatorGivesUp:
		if s.plan && s.scans[p] == scanDead {
			s.scans[p] = scanGivenUp
		}
		s.operator.phase = operatorDrops
		if m.mutation == letterDroppedFirst {
			s.operator = operating{}
		}
		yield(happened("partition %d is given up, if it is dead", p), s)
	case operatorDrops:
		s.letters[p]--
		s.operator = operating{}
		yield(happened("the letter of partition %d is removed", p), s)
	default:
	}
}

// read is a step of a reader of the status: it reads the plan, and then the message.
func (m *concluding) read(s concluded, yield func(event, concluded)) {
	r := &s.reader
	if r.phase == readerFree {
		if s.readers > 0 {
			s.readers--
			*r = asking{phase: readerAsks, done: s.truth.ended()}
			m.see(&s, m.mutation == messageReadFirst)
			yield(happened("a reader reads the first record"), s)
		}
		return
	}
	if r.phase == readerAsks {
		if m.see(&s, m.mutation != messageReadFirst); !s.stored {
			s.reader = asking{}
		}
		r.phase = readerAnswers
		if !s.stored {
			*r = asking{}
		}
		yield(happened("the reader reads the second record"), s)
		return
	}
	says := r.scans
	if r.final {
		says = r.counts
	}
	switch ended := (r.final || r.planned) && says.ended(); {
	case r.done && !ended:
		s.wrong = "a message that was done is not done any more"
	case ended && says != s.truth:
		s.wrong = "the status has other counts than the scans had"
	}
	*r = asking{}
	yield(happened("the reader answers"), s)
}

// see reads the message or the plan.
func (m *concluding) see(s *concluded, message bool) {
	if message {
		s.reader.final, s.reader.counts = s.final, s.counts
		return
	}
	s.reader.planned, s.reader.scans = s.plan, s.scans
}

// sweep looks at the message as the resumer does: as often as it likes while nothing is queued or under way, and otherwise a
// few times.
func (m *concluding) sweep(s concluded, yield func(event, concluded)) {
	queued := s.events > 0 || s.tasks != [2]int8{} || s.routers != [2]routing{} || s.worker != scanningTask{} || s.operator != operating{}
	open := !s.plan || s.scans[0] == scanOpen || s.scans[1] == scanOpen
	if !s.unfinished || !open && !s.scans.ended() || queued && s.sweeps == 0 {
		return
	}
	if queued {
		s.sweeps--
	}
	if s.plan && s.scans.ended() {
		s.unfinished = false
	} else {
		s.events++
	}
	yield(happened("the resumer looks at the message"), s)
}
