package main

// concluding models how a message ends. A router delivers it directly, or plans it for workers; both may happen, and each writes an ending of its
// own, of which the first stays. Then the plan is removed, and later the message. Routers, workers, collectors and operators stall between any two
// steps, and crash. An audience has two recipients, each in a partition of its own, so a scan takes one step.
type concluding struct {
	mutation mutation

	repeats  int8 // how often an event or a task is repeated
	losses   int8 // how often one is lost
	crashes  int8
	powers   int8 // how often all lose their power, and the store what is not on its disk
	failures int8 // how often a recipient cannot be reached
	deaths   int8 // how many tasks become dead letters
	twins    bool // each has two
	sweeps   int8
	removals int8 // how many times the message may be removed
}

// concluded is a state of concluding.
type concluded struct {
	stored, unfinished, final bool
	counts                    results // what the message says, once final
	first                     results // what it said first

	// decided are the results that some pass had for each recipient. A recipient who is delivered to has the message from then on.
	decided [2]decisions

	// unsynced are the copies that are not on the disk yet: the ending, or a progress record, takes them there with it.
	unsynced [2]bool

	plan  bool
	scans results

	events  int8
	tasks   [2]int8
	letters [2]int8

	routers    [2]routing
	worker     scanningTask
	collectors [2]collecting
	operator   operating

	repeats, losses, crashes, powers, failures, deaths, sweeps, removals int8 // left
}

// results are how far the scans are, or a direct pass is.
type results [2]scanResult

type scanResult int8

const (
	scanOpen scanResult = iota
	scanDead
	scanDelivered
	scanSkipped
	scanGivenUp
	scanFailed // of a direct pass only
)

func (r scanResult) ended() bool { return r >= scanDelivered && r <= scanGivenUp }

func (r results) ended() bool { return r[0].ended() && r[1].ended() }

// decisions has a bit for each scanResult.
type decisions uint8

func (d decisions) with(r scanResult) decisions { return d | 1<<r }

func (d decisions) has(r scanResult) bool { return d&(1<<r) != 0 }

// routing is a router with an event.
type routing struct {
	phase routerPhase
	pass  results // of a direct delivery
}

type routerPhase uint8

const (
	routerFree routerPhase = iota
	routerClasses
	routerDelivers
	routerConcludes
	routerPlans
	routerEmits
	routerEndsPlan
	routerRemoves
)

// scanningTask is a worker with a task.
type scanningTask struct {
	phase     workerPhase
	partition int8
	scans     results // when all have ended
}

type workerPhase uint8

const (
	workerFree workerPhase = iota
	workerReads
	workerDelivers
	workerLooks
	workerConcludes
	workerRemoves
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
	operatorTells
)

func (m *concluding) initial() []concluded {
	return []concluded{{
		stored: true, unfinished: true, events: 1,
		repeats: m.repeats, losses: m.losses, crashes: m.crashes, powers: m.powers,
		failures: m.failures, deaths: m.deaths, sweeps: m.sweeps, removals: m.removals,
	}}
}

func (m *concluding) next(s concluded, yield func(event, concluded)) {
	m.bus(s, yield)
	for i := range s.routers {
		m.route(s, int8(i), yield)
	}
	m.work(s, yield)
	for i := range s.collectors {
		m.collect(s, int8(i), yield)
	}
	m.operate(s, yield)
	m.sweep(s, yield)
	m.losePower(s, yield)
	if s.removals > 0 && s.stored && (s.final || m.mutation == removedUnconcluded && s.plan && s.scans.ended()) {
		t := s
		t.removals--
		t.stored, t.unfinished = false, false
		yield(happened("the message is removed"), t)
	}
}

// bus repeats events and tasks, and loses them.
func (m *concluding) bus(s concluded, yield func(event, concluded)) {
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
	if s.losses == 0 {
		return
	}
	if s.events > 0 {
		t := s
		t.losses--
		t.events--
		yield(happened("the event is lost"), t)
	}
	for p := range s.tasks {
		if t := s; s.tasks[p] > 0 {
			t.losses--
			t.tasks[p]--
			yield(happened("a task of partition %d is lost", int8(p)), t)
		}
	}
}

// end writes an ending, of which the first stays.
func (m *concluding) end(s *concluded, counts results) {
	if !s.stored || s.final && m.mutation != concludedAgain {
		return
	}
	if !s.final {
		s.first = counts
	}
	s.final, s.counts, s.unfinished = true, counts, false
	if m.mutation != endingOnDiskFirst {
		s.unsynced = [2]bool{}
	}
}

func (s *concluded) removePlan() { s.plan, s.scans = false, results{} }

// route is a step of a router.
func (m *concluding) route(s concluded, n int8, yield func(event, concluded)) {
	r := s.routers[n]
	if r.phase == routerFree {
		if s.events == 0 || n > 0 && s.routers[0].phase == routerFree {
			return
		}
		s.events--
		if s.stored && !s.final {
			s.routers[n].phase = routerClasses
		}
		yield(happened("router %d takes the event, and reads the message", n), s)
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
	case routerClasses: // by the edges, which may change between two events
		t := s
		t.routers[n].phase = routerDelivers
		if m.mutation == endingBeforeDelivery {
			m.end(&t, results{scanDelivered, scanDelivered})
		}
		yield(happened("router %d finds a small audience", n), t)
		s.routers[n].phase = routerPlans
		yield(happened("router %d finds a large audience", n), s)
	case routerDelivers:
		m.deliverDirectly(s, n, yield)
	case routerConcludes:
		m.end(&s, r.pass)
		s.routers[n] = routing{}
		yield(happened("router %d writes the ending", n), s)
	default:
		m.routePlan(s, n, yield)
	}
}

// deliverDirectly handles the next recipient of a direct pass, also after a failure. The pass writes the ending if it has handled all, and hands over
// otherwise.
func (m *concluding) deliverDirectly(s concluded, n int8, yield func(event, concluded)) {
	p := int8(0)
	if s.routers[n].pass[0] != scanOpen {
		p = 1
	}
	for _, to := range []scanResult{scanDelivered, scanSkipped, scanFailed} {
		t := s
		r := &t.routers[n]
		known := t.decided[p].has(scanDelivered)
		if r.pass[p] = to; to == scanFailed {
			if t.failures == 0 {
				continue
			}
			t.failures--
			if m.mutation == failureIsSkip {
				r.pass[p] = scanSkipped
			}
		} else {
			t.unsynced[p] = t.unsynced[p] || to == scanDelivered && !known && m.powers > 0
			t.decided[p] = t.decided[p].with(to)
		}
		if m.mutation == onlyNewCount && to == scanDelivered && known {
			r.pass[p] = scanDead // is not counted
		}
		if p == 1 {
			r.phase = routerConcludes
			if failed := r.pass[0] == scanFailed || r.pass[1] == scanFailed; failed && m.mutation != endingAlthoughFailed {
				*r = routing{phase: routerPlans}
			}
		}
		yield(happened("router %d has result %d for recipient %d", n, int8(to), p), t)
	}
}

// routePlan is a step of a router with a large message: it plans, and emits tasks or ends what is done.
func (m *concluding) routePlan(s concluded, n int8, yield func(event, concluded)) {
	switch s.routers[n].phase {
	case routerPlans:
		if !s.plan {
			s.plan, s.scans = true, results{}
		}
		s.routers[n] = routing{phase: routerEmits, pass: s.scans}
		if s.scans.ended() {
			s.routers[n].phase = routerEndsPlan
		}
		yield(happened("router %d plans", n), s)
	case routerEmits:
		for p, scan := range s.routers[n].pass {
			if scan == scanOpen {
				s.tasks[p]++
			}
		}
		s.routers[n] = routing{}
		yield(happened("router %d emits tasks", n), s)
	case routerEndsPlan:
		m.end(&s, s.routers[n].pass)
		s.routers[n].phase = routerRemoves
		yield(happened("router %d ends the plan", n), s)
	case routerRemoves:
		s.removePlan()
		s.routers[n] = routing{}
		yield(happened("router %d removes the plan", n), s)
	default:
	}
}

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
		case !s.plan: // the task is late
			s.worker = scanningTask{}
		case s.scans[w.partition] == scanOpen:
			s.worker.phase = workerDelivers
		default:
			s.worker.phase = workerLooks
		}
		yield(happened("the worker reads the scan"), s)
	case workerDelivers:
		m.record(s, yield)
	case workerLooks:
		s.worker = scanningTask{}
		if s.plan && s.scans.ended() || m.mutation == concludedEarly && s.plan {
			s.worker = scanningTask{phase: workerConcludes, partition: w.partition, scans: s.scans}
		}
		yield(happened("the worker looks whether all scans have ended"), s)
	case workerConcludes:
		m.end(&s, w.scans)
		s.worker.phase = workerRemoves
		yield(happened("the worker writes the ending"), s)
	case workerRemoves:
		s.removePlan()
		s.worker = scanningTask{}
		yield(happened("the worker removes the plan"), s)
	default:
	}
}

// record delivers to the recipient of a partition, or not, and records that. A worker whose message is gone makes a dead letter.
func (m *concluding) record(s concluded, yield func(event, concluded)) {
	p := s.worker.partition
	for _, to := range []scanResult{scanDelivered, scanSkipped, scanDead} {
		t := s
		switch {
		case to != scanDead && !t.stored, to == scanDead && t.stored && t.deaths == 0:
			continue
		case to == scanDead:
			if t.letters[p]++; t.stored {
				t.deaths--
			}
			if m.twins {
				t.letters[p]++
			}
		default:
			t.decided[p] = t.decided[p].with(to)
			t.unsynced = [2]bool{} // they share a log with the record
		}
		t.worker.phase = workerLooks
		switch {
		case t.plan && t.scans[p] == scanOpen:
			t.scans[p] = to
		case !t.plan:
			t.tasks[p]++ // the continuation
		}
		yield(happened("the worker records partition %d as %d", p, int8(to)), t)
	}
}
