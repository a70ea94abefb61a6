package main

import "fmt"

// lowWater models the low-water mark of the walk over all users, and the removal of canonical messages up to it.
//
// Each round has a target, which it records when it begins. At each user with a record it finds out whether anything of theirs at or below the
// target has not expired, and raises P to the target if so, or, where messages do not expire by age, finds that the target is not reached. A round
// that has found no such user makes its target the low-water mark. A message is removed whose scan was over before that round began.
//
// A first look writes the user's record before it reads the target of the round under way, and begins with P there. So either the
// round comes to the record, or the look has its target. Ids are times. No clock is read: a message may arrive with any id at any time.
type lowWater struct {
	mutation mutation

	messages int8
	byAge    bool // rounds raise P; otherwise only other processes do
	rounds   int8
	raises   int8 // of P by others
	damage   bool // the record of the user who is known may be unreadable for a round
}

// lowered is a state of lowWater.
type lowered struct {
	messages [4]lowMessage // the first one has the id 1
	users    [2]lowUser    // one has a record from the beginning
	round    lowRound
	rounds   int8 // that may still begin
	raises   int8
}

type lowMessage struct {
	is     lowStage
	closed int8 // the number of the last round that had begun when its scan was over
}

type lowStage uint8

const (
	unpublished lowStage = iota
	unscanned
	scanned
	gone
)

// lowUser is a user's record, and the inbox.
type lowUser struct {
	known    bool
	purged   int8
	horizon  int8
	held     ids // in buckets
	gap      bool
	after    int8 // the gap holds what was sent from here, excluded,
	before   int8 // until here, excluded
	look     lowLook
	from     int8 // where the mark begins
	target   int8 // that the look has read
	first    bool // the mark is that of a first look
	readOnce bool // a first look has read the target before it has written the record
}

// lowLook is how far a return is.
type lowLook uint8

const (
	away       lowLook = iota
	lookMarked         // the record has a mark
	aimed              // it knows the target
	raised             // P is raised
)

// lowRound is the record of the walk.
type lowRound struct {
	number   int8 // of rounds that have begun
	running  bool
	place    int8 // the user at whom it looks next
	target   int8
	unproven bool
	least    int8 // the greatest id that this round could have had for a target so far
	next     int8 // what the last round could have had
	low      int8 // the low-water mark
	proven   int8 // the number of the round that has set it
}

func (m *lowWater) initial() []lowered {
	var all []lowered
	for horizon := range m.messages {
		s := lowered{rounds: m.rounds, raises: m.raises}
		s.users[0] = lowUser{known: true, horizon: horizon}
		all = append(all, s)
	}
	return all
}

func (m *lowWater) next(s lowered, yield func(event, lowered)) {
	for id := int8(1); id <= m.messages; id++ {
		m.message(s, id, yield)
	}
	for u := range s.users {
		m.look(s, int8(u), yield)
		m.expire(s, int8(u), yield)
	}
	m.walk(s, yield)
}

// message lets a message arrive, be scanned, and be removed.
func (m *lowWater) message(s lowered, id int8, yield func(event, lowered)) {
	c := &s.messages[id-1]
	switch {
	case c.is == unpublished:
		c.is = unscanned
		yield(happened("message %d is stored", id), s)
		return
	case c.is == unscanned && m.mutation != removedUnscanned:
		for u := range s.users {
			if user := &s.users[u]; user.delivers(id) {
				user.held |= 1 << id
			}
		}
		*c = lowMessage{scanned, s.round.number}
		yield(happened("the scan of message %d is over", id), s)
		return
	case c.is == gone || id > s.round.low || c.closed >= s.round.proven && m.mutation != removedAtOnce:
		return
	}
	*c = lowMessage{is: gone}
	yield(happened("message %d is removed", id), s)
}

// delivers reports whether fan-out copies a message into the inbox.
func (u *lowUser) delivers(id int8) bool {
	return u.known && id <= u.horizon && (u.look == away || id <= u.from) && !u.inGap(id)
}

func (u *lowUser) inGap(id int8) bool { return u.gap && u.after < id && id < u.before }

// absent reports whether a message is not in a bucket, so that a page needs the canonical one.
func (u *lowUser) absent(id int8) bool {
	return u.inGap(id) || id > u.horizon || u.look != away && id > u.from && !u.held.has(id)
}

// look lets a user return.
func (m *lowWater) look(s lowered, n int8, yield func(event, lowered)) {
	u := &s.users[n]
	target := s.round.target
	if m.mutation == lowNotTarget {
		target = s.round.low
	}
	switch {
	case !u.known && m.mutation == targetBeforeRecord && !u.readOnce:
		u.readOnce, u.target = true, target
		yield(happened("the first look of user %d reads the target %d", n, u.target), s)
	case u.look == away && (!u.known || u.horizon < m.messages):
		u.look, u.from, u.first = lookMarked, u.horizon, !u.known
		u.known, u.horizon = true, m.messages
		yield(happened("user %d looks, and has a mark from %d", n, u.from), s)
	case u.look == lookMarked:
		if u.look = aimed; u.first && !u.readOnce {
			u.target = target
		}
		yield(happened("the rehydration of user %d knows the target %d", n, u.target), s)
	case u.look == aimed:
		u.look = raised
		if u.first && m.mutation != firstFromZero {
			u.purge(u.target)
		}
		yield(happened("user %d has P=%d", n, u.purged), s)
	case u.look == raised:
		m.rebuild(&s, u)
		yield(happened("the inbox of user %d is rebuilt, with a gap from %d to %d", n, u.after, u.before), s)
	}
}

// rebuild appends the newest of the missed messages, and leaves the rest to a gap.
func (m *lowWater) rebuild(s *lowered, u *lowUser) {
	after := max(u.from, u.purged)
	for id := m.messages; id > after; id-- {
		if is := s.messages[id-1].is; is == unscanned || is == scanned {
			u.held |= 1 << id
			u.gap, u.after, u.before = id-after > 1, after, id
			break
		}
	}
	u.look, u.from, u.target, u.first, u.readOnce = away, 0, 0, false, false
	u.tidy()
}

// purge raises P, and cuts the gap.
func (u *lowUser) purge(to int8) {
	u.purged = max(u.purged, to)
	u.held &^= upTo(u.purged)
	u.tidy()
}

func (u *lowUser) tidy() {
	if u.after = max(u.after, u.purged); !u.gap || u.before-u.after <= 1 {
		u.gap, u.after, u.before = false, 0, 0
	}
}

// expire raises P for another reason than age, such as a purge or that newer messages are many.
func (m *lowWater) expire(s lowered, n int8, yield func(event, lowered)) {
	if s.raises == 0 || !s.users[n].known {
		return
	}
	s.raises--
	for to := s.users[n].purged + 1; to <= m.messages; to++ {
		t := s
		t.users[n].purge(to)
		yield(happened("P of user %d becomes %d", n, to), t)
	}
}

// walk lets a round begin, look at the next user, or end.
func (m *lowWater) walk(s lowered, yield func(event, lowered)) {
	r := &s.round
	switch {
	case !r.running && s.rounds > 0:
		s.rounds--
		r.number++
		r.running, r.place, r.unproven, r.least = true, 0, false, m.messages
		if !m.byAge {
			r.target = max(r.target, r.next)
			yield(happened("a round begins with the target %d", r.target), s)
			return
		}
		for target := r.target; target <= m.messages; target++ {
			t := s
			t.round.target = target
			yield(happened("a round begins with the target %d", target), t)
		}
	case r.running && int(r.place) < len(s.users):
		m.keep(s, yield)
	case r.running:
		reached := r.target
		if m.mutation == provenAtOnce {
			reached, r.unproven = r.least, false
		}
		if !r.unproven && reached >= r.low {
			r.low, r.proven = reached, r.number
		}
		r.running, r.place, r.unproven, r.next, r.least = false, 0, false, r.least, 0
		yield(happened("the round ends, and the low-water mark is %d", r.low), s)
	}
}

// keep looks at one user.
func (m *lowWater) keep(s lowered, yield func(event, lowered)) {
	r, u, n := &s.round, &s.users[s.round.place], s.round.place
	r.place++
	if m.damage && n == 0 {
		t := s
		t.round.unproven, t.round.least = m.mutation != damagePassed, 0
		yield(happened("the record of user %d is damaged", n), t)
	}
	if !u.known {
		yield(happened("user %d has no record", n), s)
		return
	}
	has := m.unexpired(&s, u)
	if m.byAge && has <= r.target {
		u.purge(r.target)
		yield(happened("what user %d has up to %d expires", n, r.target), s)
		return
	}
	r.unproven = r.unproven || has <= r.target
	r.least = min(r.least, has-1)
	yield(happened("user %d has nothing up to %d", n, has-1), s)
}

// unexpired returns the least id that has not expired of a user, or that a gap may hold.
func (m *lowWater) unexpired(s *lowered, u *lowUser) int8 {
	least := m.messages + 1
	if u.held != 0 {
		least = u.held.least()
	}
	if u.gap && m.mutation != gapsPassed {
		least = min(least, u.after+1)
	}
	from := u.horizon
	if u.look != away && m.mutation != marksPassed {
		from = u.from
	}
	if m.mutation == horizonPassed {
		from = m.messages
	}
	for id := max(from, u.purged) + 1; id < least; id++ {
		if is := s.messages[id-1].is; is == unscanned || is == scanned {
			least = id
		}
	}
	return least
}

func (m *lowWater) wrong(s lowered) string {
	for n, u := range s.users {
		if !u.known || u.first && u.look != raised { // P is still to be raised
			continue
		}
		for id := u.purged + 1; id <= m.messages; id++ {
			if s.messages[id-1].is == gone && u.absent(id) {
				return fmt.Sprintf("message %d is gone, and has not expired for user %d", id, n)
			}
		}
	}
	return ""
}

// stuck finds nothing: every state without a next step is at rest.
func (m *lowWater) stuck(lowered) string { return "" }

func (m *lowWater) show(s lowered) string {
	return fmt.Sprintf("messages %v, users %+v, round %+v", s.messages[:m.messages], s.users, s.round)
}

func lowWaterInstances() []instance {
	return []instance{
		{
			"low-water-age", "the low-water mark where messages expire by age; 3 messages, 2 users, 2 rounds", false,
			search(&lowWater{messages: 3, byAge: true, rounds: 2, damage: true}),
		},
		{
			"low-water-newest", "the low-water mark where messages expire by number; 3 messages, 2 users, 2 rounds", false,
			search(&lowWater{messages: 3, rounds: 2, raises: 1}),
		},
		{
			"low-water-newest-long", "as low-water-newest, 3 rounds, and a damaged record", true,
			search(&lowWater{messages: 3, rounds: 3, raises: 2, damage: true}),
		},
	}
}

func lowWaterShortcuts() []shortcut {
	var all []shortcut
	lowers := func(is mutation, name string, m lowWater) {
		m.mutation = is
		all = append(all, shortcut{is, name, search(&m)})
	}
	age := lowWater{messages: 3, byAge: true, rounds: 2}
	newest := lowWater{messages: 3, rounds: 2, raises: 1}
	damaged := age
	damaged.damage = true
	lowers(lowNotTarget, "a first look begins at the low-water mark, whatever round is under way", age)
	lowers(targetBeforeRecord, "a first look reads the target, and then writes the record", age)
	lowers(firstFromZero, "a first look begins without a purge point", age)
	lowers(provenAtOnce, "a round proves what it has found itself", newest)
	lowers(damagePassed, "a round passes a damaged record", damaged)
	lowers(gapsPassed, "a round does not look at gaps", age)
	lowers(marksPassed, "a round does not look at what a mark leaves to a rehydration", age)
	lowers(horizonPassed, "a round does not look beyond the horizon", age)
	lowers(removedUnscanned, "remove a message whose scan is not over", age)
	lowers(removedAtOnce, "remove a message whose scan was over after the round began", age)
	return all
}
