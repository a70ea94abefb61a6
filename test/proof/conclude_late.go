package main

// losePower ends all processes at once. Copies that are not on the disk are lost; events and tasks that nobody acknowledged come again.
func (m *concluding) losePower(s concluded, yield func(event, concluded)) {
	if s.powers == 0 {
		return
	}
	s.powers--
	for i, r := range s.routers {
		if r.phase != routerFree {
			s.events++
		}
		s.routers[i] = routing{}
	}
	if s.worker.phase != workerFree {
		s.tasks[s.worker.partition]++
	}
	s.worker, s.collectors, s.operator = scanningTask{}, [2]collecting{}, operating{}
	for p, unsynced := range s.unsynced {
		if unsynced {
			s.decided[p] &^= decisions(0).with(scanDelivered)
		}
	}
	s.unsynced = [2]bool{}
	yield(happened("the power fails"), s)
}

// collect is a step of a collector: it reads the plan, asks for the message, moves the counts, and removes the plan.
func (m *concluding) collect(s concluded, n int8, yield func(event, concluded)) {
	c := s.collectors[n]
	if c.phase == collectorFree {
		over := s.final || !s.stored
		if s.plan && (s.scans.ended() || over && m.mutation != plansStay) && (n == 0 || s.collectors[0].phase != collectorFree) {
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
		case !c.scans.ended():
			s.collectors[n] = collecting{}
		default:
			s.collectors[n].phase = collectorConcludes
		}
		yield(happened("collector %d asks for the message", n), s)
	case collectorConcludes:
		m.end(&s, c.scans)
		s.collectors[n].phase = collectorRemoves
		yield(happened("collector %d moves the counts into the message", n), s)
	case collectorRemoves:
		s.removePlan()
		s.collectors[n] = collecting{}
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
			if s.scans[p] == scanDead {
				t.scans[p] = scanOpen
			}
			if s.scans[p] != scanGivenUp { // otherwise it is refused
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
			s.decided[p] = s.decided[p].with(scanGivenUp)
		}
		s.operator.phase = operatorTells
		yield(happened("partition %d is given up, if it is dead", p), s)
	case operatorTells:
		s.events++
		if s.operator.phase = operatorDrops; m.mutation == letterDroppedFirst {
			s.operator = operating{}
		}
		yield(happened("the event is emitted"), s)
	case operatorDrops:
		s.letters[p]--
		s.operator = operating{}
		yield(happened("the letter of partition %d is removed", p), s)
	default:
	}
}

// sweep looks at the message as the resumer does: as often as it likes while nothing is queued or under way, and otherwise a
// few times.
func (m *concluding) sweep(s concluded, yield func(event, concluded)) {
	queued := s.events > 0 || s.tasks != [2]int8{} || s.routers != [2]routing{} || s.worker != scanningTask{} || s.operator != operating{}
	moves := !s.plan || s.scans[0] == scanOpen || s.scans[1] == scanOpen || s.scans.ended()
	if !s.unfinished || !moves || queued && s.sweeps == 0 || !s.plan && m.mutation == sweepOfPlansOnly {
		return
	}
	if queued {
		s.sweeps--
	}
	s.events++
	yield(happened("the resumer emits the message"), s)
}
