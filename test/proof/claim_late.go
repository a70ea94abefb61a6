package main

// Late writes of claims and deletions (see close_late.go). An insert has a number of its own for each attempt. The document of a record that was
// removed stays, and an insert names what it replaces. So an insert that comes late does nothing if the record was written since. A list that was
// removed leaves nothing: an insert of a list that comes late adds a dead item.

// lateClaim is a write that has not come to its server yet. One that does nothing is none.
type lateClaim struct {
	does     claimPhase
	host     int8 // that sent it, or noHost if that has crashed
	answered bool // the host has answered the claim since

	value    int8
	record   identityRecord // to insert, or the number to look for
	user     int8
	from, to ownList
}

// after forgets a late write whose record or list a step has written, and notes an answer.
func (m *claiming) after(was, now *claimed, n int8) {
	late := &now.late
	if late.does == claimantFree {
		return
	}
	late.answered = late.answered || late.host == n && now.hosts[n].phase == claimantFree
	forgotten := false
	switch late.does {
	case claimInserts:
		forgotten = now.records[late.value] != was.records[late.value] && m.mutation != insertedLate
	case claimAdds, deleteDrops:
		forgotten = now.lists[late.user] != was.lists[late.user] && late.from.len() > 0
	default:
	}
	if forgotten {
		*late = lateClaim{}
	}
}

// send lets the next write of a host be late, and the host tries again.
func (m *claiming) send(s claimed, n int8, yield func(event, claimed)) {
	h := s.hosts[n]
	if s.lates == 0 || s.late.does != claimantFree {
		return
	}
	w := lateClaim{does: h.phase, host: n, value: h.value, record: h.record}
	switch h.phase {
	case claimInserts:
		if s.records[h.value].number != 0 {
			return
		}
		w.record = identityRecord{user: h.user, number: s.fresh()}
	case claimAdds, deleteDrops:
		w.user, w.from, w.to = h.record.user, h.list, h.list.without(h.dead)
		if h.phase == claimAdds {
			w.to[w.to.len()] = ownItem{h.value, h.record.number}
		}
	case claimConfirms, claimWithdraws, deleteRemoves:
	default:
		return
	}
	s.lates--
	s.late = w
	yield(happened("host %d writes, and the write is late", n), m.normal(s))
}

// arrive lets the late write come to its server.
func (m *claiming) arrive(s claimed, yield func(event, claimed)) {
	w := s.late
	if w.does == claimantFree {
		return
	}
	s.late = lateClaim{}
	record := &s.records[w.value]
	switch {
	case w.does == claimInserts && record.number == 0:
		if *record = w.record; w.answered {
			s.again = w.record.number
		}
	case (w.does == claimAdds || w.does == deleteDrops) && s.lists[w.user] == w.from:
		s.lists[w.user] = w.to
	case w.does == claimConfirms && record.number == w.record.number:
		record.inForce = true
	case w.does == claimWithdraws && record.number == w.record.number && !record.inForce, w.does == deleteRemoves && record.number == w.record.number:
		*record = identityRecord{}
	default:
		return
	}
	yield(happened("the write of host %d comes late", w.host), m.normal(s))
}
