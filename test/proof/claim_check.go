package main

import (
	"fmt"
	"slices"
)

// fresh returns a number that nothing has. Numbers are only compared with each other, so normal gives those that are left the least ones.
func (s *claimed) fresh() int8 {
	number := int8(0)
	s.numbers(func(n *int8) { number = max(number, *n) })
	return number + 1
}

// numbers visits each number of a state, in an order that depends only on what has it.
func (s *claimed) numbers(visit func(*int8)) {
	for i := range s.records {
		visit(&s.records[i].number)
	}
	for u := range s.lists {
		s.lists[u].numbers(visit)
	}
	for i := range s.hosts {
		h := &s.hosts[i]
		visit(&h.record.number)
		h.list.numbers(visit)
		for v := range h.seen {
			visit(&h.seen[v])
		}
	}
	visit(&s.late.record.number)
	s.late.from.numbers(visit)
	s.late.to.numbers(visit)
	visit(&s.again)
}

func (l *ownList) numbers(visit func(*int8)) {
	for i := range l {
		visit(&l[i].number)
	}
}

// normal forgets what a host does not use any more, and gives each number the place of its first occurrence.
func (m *claiming) normal(s claimed) claimed {
	for i := range s.hosts {
		h := &s.hosts[i]
		switch h.phase {
		case claimTidies, claimSettles, claimAdds, deleteDrops:
		default:
			h.list, h.checked, h.dead = ownList{}, 0, 0
		}
		switch h.phase {
		case claimantFree, claimReads, deleteReads:
			h.record = identityRecord{}
		case claimInserts:
			if m.mutation != numberReused && m.mutation != listedFirst {
				h.record = identityRecord{}
			}
		default:
			h.record.inForce = false
		}
	}
	if !slices.ContainsFunc(s.records[:], func(r identityRecord) bool { return r.number == s.again }) {
		s.again = 0
	}
	if s.late.does != claimantFree && s.late.does != claimInserts {
		s.late.answered, s.late.record.inForce = false, false
	}
	var names [64]int8
	next := int8(0)
	s.numbers(func(n *int8) {
		if *n == 0 {
			return
		}
		if names[*n] == 0 {
			next++
			names[*n] = next
		}
		*n = names[*n]
	})
	return s
}

func (m *claiming) wrong(s claimed) string {
	if s.fault != claimSound {
		return claimFaults[s.fault]
	}
	for v, r := range s.records {
		if r.inForce && r.number == s.again {
			return claimFaults[claimedAgain]
		}
		if r.inForce && !s.lists[r.user].has(r.number) {
			return fmt.Sprintf("value %d is in force for user %d, whose list does not have it", v, r.user)
		}
	}
	for u := range s.lists {
		if s.lists[u].len() > m.limit {
			return fmt.Sprintf("the list of user %d has more items than the limit", u)
		}
	}
	for i := range s.hosts {
		if s.hosts[i].phase != claimantFree {
			return ""
		}
	}
	return m.atRest(s)
}

// atRest lets a process finish or withdraw the claims that crashes have left, and remove dead items, where no request is under way. Then lists and
// records have to agree.
func (m *claiming) atRest(s claimed) string {
	for u := range s.lists {
		own := &s.lists[u]
		*own = own.without(own.where(func(i ownItem) bool { return s.records[i.value].number != i.number }))
	}
	for v := range s.records {
		r := &s.records[v]
		own := &s.lists[r.user]
		switch {
		case r.number == 0 || r.inForce:
		case own.has(r.number):
			r.inForce = true
		case own.len() < m.limit:
			own[own.len()] = ownItem{int8(v), r.number}
			r.inForce = true
		default:
			*r = identityRecord{}
		}
	}
	for v, r := range s.records {
		for u := range s.lists {
			items := s.lists[u].where(func(i ownItem) bool { return i.value == int8(v) }).len()
			if has := r.inForce && r.user == int8(u); (items == 1) != has || items > 1 {
				return fmt.Sprintf("at rest, the record of value %d and the list of user %d do not agree", v, u)
			}
		}
	}
	return ""
}

// stuck finds nothing: every state without a next step is at rest.
func (m *claiming) stuck(claimed) string { return "" }

func (m *claiming) show(s claimed) string {
	return fmt.Sprintf("records %v, lists %v, hosts %v", s.records[:m.values], s.lists, s.hosts[:m.hosts])
}

func claimInstances() []instance {
	return []instance{
		{
			"claim", "a value, 2 users with a list of 1; 3 claims, 2 deletions, a crash, 2 hosts", false,
			searchToTheEnd(&claiming{limit: 1, values: 1, hosts: 2, claims: 3, deletes: 2, crashes: 1}),
		},
		{
			"claim-2", "2 values, 2 users with a list of 1; 3 claims, a deletion, a crash, 2 hosts", false,
			searchToTheEnd(&claiming{limit: 1, values: 2, hosts: 2, claims: 3, deletes: 1, crashes: 1}),
		},
		{
			"claim-late", "as claim, a late write", false,
			searchToTheEnd(&claiming{limit: 1, values: 1, hosts: 2, claims: 3, deletes: 2, crashes: 1, lates: 1}),
		},
		{
			"claim-3-long", "2 values, 2 users with a list of 1; 3 claims, a deletion, a crash, 3 hosts", true,
			search(&claiming{limit: 1, values: 2, hosts: 3, claims: 3, deletes: 1, crashes: 1}),
		},
		{
			"claim-2-late-long", "as claim-2, a late write", true,
			searchToTheEnd(&claiming{limit: 1, values: 2, hosts: 2, claims: 3, deletes: 1, crashes: 1, lates: 1}),
		},
		{
			"claim-again-long", "a value, 2 users with a list of 2; 4 claims, 3 deletions, a crash, 3 hosts", true,
			search(&claiming{limit: 2, values: 1, hosts: 3, claims: 4, deletes: 3, crashes: 1}),
		},
	}
}

func claimShortcuts() []shortcut {
	var all []shortcut
	claims := func(is mutation, name string, m claiming) {
		m.mutation = is
		all = append(all, shortcut{is, name, search(&m)})
	}
	one := claiming{limit: 1, values: 1, hosts: 2, claims: 3, deletes: 2, crashes: 1}
	two := claiming{limit: 1, values: 2, hosts: 2, claims: 3, deletes: 1, crashes: 1}
	three := claiming{limit: 2, values: 1, hosts: 3, claims: 3, deletes: 1, crashes: 1}
	claims(inForceAtOnce, "insert an identity that is in force at once, and list it afterwards", one)
	claims(listedFirst, "list an identity, and insert it afterwards", two)
	claims(confirmedUnlisted, "put another claim in force without a look at the list", one)
	claims(confirmedByUser, "put in force what the user has, whatever its number", three)
	claims(itemTrusted, "take an item for the identity", one)
	claims(trustedEarly, "refuse a claim because of one that is not in force", one)
	claims(limitInForce, "count only identities in force against the limit", two)
	claims(unconfirmedDead, "remove an item whose record is not in force", two)
	claims(recordsReadFirst, "read the records, and then the list whose items are removed", two)
	claims(listUncompared, "set a list without comparing it", two)
	claims(withdrawnInForce, "withdraw a claim although another process has put it in force", two)
	claims(itemFirst, "remove the item, and then the record", one)
	claims(itemByValue, "remove an item by its value", one)
	claims(numberUncompared, "remove a record without comparing its number", one)
	claims(unsettled, "leave an item whose claim is not finished in a full list", two)
	late := one
	late.lates = 1
	claims(insertedLate, "remove a record, and insert another whatever was there", late)
	claims(numberReused, "insert a record again under its number", three)
	return all
}
