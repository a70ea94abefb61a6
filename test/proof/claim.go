package main

// claiming models how an identity becomes a user's: a record of the value, and an item in the user's own list, which has a limit. The two cannot
// change together.
//
// A claim (1) inserts a record of the value if there is none. The record has a new number, and is not in force. (2) It adds an item with the
// number to the list of the record's user, by compare-and-swap, if there is room. (3) It puts the record with this number in force. A process
// that finds a record that is not in force does the second and the third step for it, for any user. So claims of a value do not hinder each
// other.
//
// A deletion removes the record, if it still has the number, and then the item. An item is dead if its record does not have its number. A claim
// that finds a list full removes dead items, and puts those in force whose claims are not finished. If none is dead, it removes its record, unless
// that is in force.
//
// So a number is inserted once, before its item. This makes an item that was found dead stay dead, and a record that was put in force have an item.
type claiming struct {
	mutation mutation

	limit   int8 // items in a list
	values  int8
	hosts   int
	claims  int8
	deletes int8
	crashes int8
	lates   int8 // writes that come late (claim_late.go)
}

const (
	claimUsers = 2
	anyone     = int8(claimUsers) // whose identity a deletion removes
	maxOwn     = 3                // items that a list can have in this model
)

// claimed is a state of claiming.
type claimed struct {
	records [2]identityRecord // by value
	lists   [claimUsers]ownList
	hosts   [3]claimant
	fault   claimFault
	late    lateClaim
	again   int8 // the number of a record that was inserted late, after its claim was answered

	claims, deletes, crashes, lates int8 // left
}

// identityRecord is the record of a value. Without a number it is not there.
type identityRecord struct {
	user    int8
	number  int8
	inForce bool
}

// ownList is a user's own list. The items come first.
type ownList [maxOwn]ownItem

// ownItem is an item of a list. Without a number it is not there.
type ownItem struct{ value, number int8 }

// claimant is a host with a request.
type claimant struct {
	phase       claimPhase
	user, value int8           // of the request
	record      identityRecord // as it was read or inserted
	list        ownList        // of the record's user, as it was read
	checked     int8           // items of the list whose records were read
	dead        ids            // those of them that are dead
	seen        [2]int8        // numbers of records that a shortcut has read before the list
}

type claimPhase uint8

const (
	claimantFree claimPhase = iota
	claimInserts
	claimReads
	claimLists
	claimTidies
	claimSettles
	claimAdds
	claimConfirms
	claimWithdraws
	deleteReads
	deleteRemoves
	deleteLists
	deleteDrops
)

// claimFault is what a step has done wrong.
type claimFault uint8

const (
	claimSound claimFault = iota
	wrong204
	wrong409
	wrong422
	undone
	notTheirs
	claimedAgain
)

var claimFaults = [...]string{
	wrong204:  "a claim is answered with 204, and the identity is not the user's",
	wrong409:  "a claim is answered with 409, and the identity is not another user's",
	wrong422:  "a claim is answered with 422 because of an identity that is not in force",
	undone:    "an identity in force is removed without a deletion",
	notTheirs: "a deletion for a user removes the identity of another",

	claimedAgain: "an identity is claimed again after the claim was answered",
}

func (l *ownList) len() int8 {
	n := int8(0)
	for n < maxOwn && l[n].number != 0 {
		n++
	}
	return n
}

func (l *ownList) has(number int8) bool {
	return l.where(func(i ownItem) bool { return i.number == number }) != 0
}

// without returns the list without some of its items, by their places.
func (l *ownList) without(places ids) ownList {
	var kept ownList
	n := 0
	for i, item := range l {
		if item.number != 0 && !places.has(int8(i)) {
			kept[n] = item
			n++
		}
	}
	return kept
}

// where returns the places of the items that match.
func (l *ownList) where(matches func(ownItem) bool) (places ids) {
	for i, item := range l {
		if item.number != 0 && matches(item) {
			places |= 1 << i
		}
	}
	return places
}

func (m *claiming) initial() []claimed {
	return []claimed{{claims: m.claims, deletes: m.deletes, crashes: m.crashes, lates: m.lates}}
}

func (m *claiming) next(s claimed, yield func(event, claimed)) {
	idle := false
	for i := range m.hosts {
		n := int8(i)
		if s.hosts[i].phase == claimantFree {
			if !idle { // the others that are free are like this one
				m.begin(s, n, yield)
			}
			idle = true
			continue
		}
		if s.crashes > 0 {
			t := s
			t.crashes--
			t.hosts[i] = claimant{}
			if t.late.does != claimantFree && t.late.host == n {
				t.late.host = noHost
			}
			yield(happened("host %d crashes", n), m.normal(t))
		}
		m.send(s, n, yield)
		t := s
		e := m.step(&t, n)
		m.after(&s, &t, n)
		yield(e, m.normal(t))
	}
	m.arrive(s, yield)
}

// begin lets a request begin.
func (m *claiming) begin(s claimed, n int8, yield func(event, claimed)) {
	for value := range m.values {
		for user := range anyone + 1 {
			if t := s; s.claims > 0 && user != anyone {
				t.claims--
				t.hosts[n] = claimant{phase: claimInserts, user: user, value: value}
				if m.mutation == listedFirst {
					t.hosts[n].phase, t.hosts[n].record = claimLists, identityRecord{user: user, number: s.fresh()}
				}
				yield(happened("host %d begins to claim value %d for user %d", n, value, user), m.normal(t))
			}
			if t := s; s.deletes > 0 {
				t.deletes--
				t.hosts[n] = claimant{phase: deleteReads, user: user, value: value}
				yield(happened("host %d begins to delete value %d, of user %d (2: of any)", n, value, user), m.normal(t))
			}
		}
	}
}

// step does the next step of a request.
func (m *claiming) step(s *claimed, n int8) event {
	h := &s.hosts[n]
	value, record := h.value, &s.records[h.value]
	switch h.phase {
	case claimInserts:
		if record.number != 0 {
			h.phase = claimReads
			return happened("host %d finds a record of value %d", n, value)
		}
		number := s.fresh()
		if m.mutation == numberReused && h.record.number != 0 && h.record.user == h.user {
			number = h.record.number
		}
		if m.mutation == listedFirst {
			number = h.record.number
		}
		*record = identityRecord{h.user, number, m.mutation == inForceAtOnce || m.mutation == listedFirst}
		h.phase, h.record = claimLists, *record
		if m.mutation == listedFirst {
			*h = claimant{}
		}
		return happened("host %d inserts number %d of value %d for user %d", n, record.number, record.user)
	case claimReads:
		switch {
		case record.number == 0:
			h.phase = claimInserts
		case record.inForce || m.mutation == trustedEarly && record.user != h.user:
			m.answer(s, h)
		default:
			h.phase, h.record = claimLists, *record
			if m.mutation == confirmedUnlisted {
				h.phase = claimConfirms
			}
		}
		return happened("host %d reads number %d of value %d, of user %d", n, record.number, value, record.user)
	case claimLists, claimTidies, claimSettles, claimAdds:
		return m.list(s, n)
	case claimConfirms:
		same := record.number == h.record.number
		if m.mutation == confirmedByUser {
			same = record.number != 0 && record.user == h.record.user
		}
		if !same {
			h.phase = claimInserts
			return happened("host %d does not find number %d", n, h.record.number)
		}
		record.inForce = true
		m.answer(s, h)
		return happened("host %d puts number %d in force", n, record.number)
	case claimWithdraws:
		withdrawn := *record
		switch {
		case record.number == h.record.number && record.inForce && m.mutation != withdrawnInForce:
			h.phase = claimReads
		default:
			if record.number == h.record.number {
				*record = identityRecord{}
			}
			if h.record.user == h.user {
				*h = claimant{} // 422
			} else {
				h.phase = claimInserts
			}
		}
		if withdrawn.inForce && record.number == 0 {
			s.fault = undone
		}
		return happened("host %d finds the list full, and removes number %d unless it is in force", n, withdrawn.number)
	default:
		return m.remove(s, n)
	}
}

// answer ends a claim of a value with a record in force.
func (m *claiming) answer(s *claimed, h *claimant) {
	record := s.records[h.value]
	switch {
	case !record.inForce && record.user != h.user:
		s.fault = wrong409
	case !record.inForce:
		s.fault = wrong204
	default:
	}
	*h = claimant{}
}

// list does the steps of a claim that concern the list of the record's user.
func (m *claiming) list(s *claimed, n int8) event {
	h := &s.hosts[n]
	user := h.record.user
	switch h.phase {
	case claimLists:
		h.list, h.checked, h.dead = s.lists[user], 0, 0
		switch {
		case m.mutation == itemTrusted && h.user == user && h.list.where(func(i ownItem) bool { return i.value == h.value }) != 0:
			m.answer(s, h)
		case h.list.has(h.record.number):
			h.phase = claimConfirms
		case h.list.len() < m.limit, m.mutation == limitInForce && m.inForce(s, &h.list) < m.limit:
			h.phase = claimAdds
		case m.mutation == recordsReadFirst && h.seen != [2]int8{}:
			h.dead = h.list.where(func(i ownItem) bool { return h.seen[i.value] != i.number })
			if h.phase, h.seen = claimAdds, [2]int8{}; h.dead == 0 {
				h.phase = claimWithdraws
			}
		default:
			h.phase = claimTidies
		}
		return happened("host %d reads the list of user %d", n, user)
	case claimTidies:
		if m.mutation == recordsReadFirst {
			h.phase, h.seen = claimLists, [2]int8{s.records[0].number, s.records[1].number}
			return happened("host %d reads the records, with numbers %d and %d", n, h.seen[0], h.seen[1])
		}
		item := h.list[h.checked]
		record := s.records[item.value]
		switch {
		case record.number != item.number || m.mutation == unconfirmedDead && !record.inForce:
			h.dead |= 1 << h.checked
		case !record.inForce && m.mutation != unsettled:
			h.phase = claimSettles
			return happened("host %d reads the record of item %d, which is not in force", n, item.number)
		default:
		}
		m.checked(s, h)
		return happened("host %d reads the record of item %d, which has number %d", n, item.number, record.number)
	case claimSettles:
		item := h.list[h.checked]
		record := &s.records[item.value]
		if record.number == item.number {
			record.inForce = true
		} else {
			h.dead |= 1 << h.checked
		}
		h.phase = claimTidies
		m.checked(s, h)
		return happened("host %d puts item %d in force", n, item.number)
	default:
		own := &s.lists[user]
		if *own != h.list && m.mutation != listUncompared {
			h.phase = claimLists
			return happened("host %d is refused by the list of user %d", n, user)
		}
		*own = h.list.without(h.dead)
		own[own.len()] = ownItem{h.value, h.record.number}
		if h.phase = claimConfirms; m.mutation == listedFirst {
			h.phase = claimInserts
		}
		return happened("host %d adds number %d to the list of user %d, and removes dead items (set %d)", n, h.record.number, user, int8(h.dead))
	}
}

// checked continues with the next item of a full list.
func (m *claiming) checked(s *claimed, h *claimant) {
	if h.checked++; h.checked < h.list.len() {
		return
	}
	if h.phase = claimAdds; h.dead != 0 {
		return
	}
	h.phase = claimWithdraws
	for _, item := range h.list {
		if record := s.records[item.value]; item.number != 0 && record.number == item.number && !record.inForce {
			s.fault = wrong422
		}
	}
}

// inForce counts the items whose records are in force.
func (m *claiming) inForce(s *claimed, l *ownList) int8 {
	return l.where(func(i ownItem) bool {
		return s.records[i.value] == (identityRecord{s.records[i.value].user, i.number, true})
	}).len()
}

// remove does the steps of a deletion.
func (m *claiming) remove(s *claimed, n int8) event {
	h := &s.hosts[n]
	value, record := h.value, &s.records[h.value]
	switch h.phase {
	case deleteReads:
		h.record = *record
		switch {
		case record.number == 0 || h.user != anyone && record.user != h.user:
			*h = claimant{}
		case m.mutation == itemFirst:
			h.phase = deleteLists
		default:
			h.phase = deleteRemoves
		}
		return happened("host %d reads number %d of value %d, of user %d", n, record.number, value, record.user)
	case deleteRemoves:
		h.phase = deleteLists
		switch {
		case m.mutation == itemFirst && record.number == h.record.number:
			*record, *h = identityRecord{}, claimant{}
		case m.mutation == itemFirst:
			*h = claimant{}
		case record.number == h.record.number || m.mutation == numberUncompared:
			if h.user != anyone && record.number != 0 && record.user != h.user {
				s.fault = notTheirs
			}
			*record = identityRecord{}
		default:
			*h = claimant{}
		}
		return happened("host %d removes the record", n)
	case deleteLists:
		h.list = s.lists[h.record.user]
		h.dead = h.list.where(func(i ownItem) bool {
			return i.number == h.record.number || m.mutation == itemByValue && i.value == h.value
		})
		if h.phase = deleteDrops; h.dead == 0 {
			*h = claimant{}
		}
		return happened("host %d reads the list, to remove the item", n)
	default:
		own := &s.lists[h.record.user]
		if *own != h.list && m.mutation != listUncompared {
			h.phase = deleteLists
			return happened("host %d is refused by the list", n)
		}
		*own = h.list.without(h.dead)
		if m.mutation == itemFirst {
			h.phase = deleteRemoves
		} else {
			*h = claimant{}
		}
		return happened("host %d removes the item", n)
	}
}
