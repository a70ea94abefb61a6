package main

import "fmt"

// tallying models how processes count what they do, and what is left of the counts of processes that have ended: internal/settings. It has no
// clock: any row may be taken at any time, and forgotten, so pauses of any length and clocks that differ are in it. A report may come late, but
// no report that makes a row comes after a day, when that row is forgotten.
type tallying struct {
	mutation mutation

	work, kills int8
	lates       int // processes whose reports come late
	takers      int
	readers     bool
}

const tallyNames = 4 // at most: two processes, and each begins again

// tallied is a state of tallying.
type tallied struct {
	rows   tallyRows
	totals tallyTotals
	hosts  [2]tallyHost
	late   [2]tallyReport // reports on their way, which their hosts have given up
	takers [2]tallyLook
	reader tallyLook

	names int8 // that were given

	// The protocol does not know these:
	reached [tallyNames]int8 // the greatest number that a row had
	lost    int8             // work that no row may have
	done    int8
	twice   bool

	work, kills int8 // left
}

type tallyRows [tallyNames]struct {
	there bool
	n     int8
}

// tallyTotals is the record. It needs no revision here: its base only rises, and so does what is taken of a name, until that moves into the base.
type tallyTotals struct {
	base  int8
	taken [tallyNames]int8 // 0 is absent
}

// tallyHost is a process. Its counts begin again under a new name: from base.
type tallyHost struct {
	name         int8
	begun        bool // its name has a row, or had one
	count        int8
	base         int8
	tried, acked int8 // the last count that was sent, and answered
}

type tallyReport struct {
	there   bool
	name, n int8
}

// tallyLook has read the record and then the rows.
type tallyLook struct {
	phase  tallyPhase
	totals tallyTotals
	rows   tallyRows
}

type tallyPhase uint8

const (
	tallyIdle tallyPhase = iota
	tallyFirst
	tallyBoth
)

func (m *tallying) initial() []tallied {
	return []tallied{{hosts: [2]tallyHost{{name: 0}, {name: 1}}, names: 2, work: m.work, kills: m.kills}}
}

func (m *tallying) next(s tallied, give func(event, tallied)) {
	yield := func(e event, t tallied) {
		if a, b := &t.takers[0], &t.takers[1]; m.mutation == correct && a.rank() < b.rank() { // their order means nothing
			*a, *b = *b, *a
		}
		give(e, t)
	}
	for i := range s.hosts {
		m.host(s, int8(i), yield)
	}
	for i := range m.takers {
		m.look(s, &s.takers[i], func(t *tallied) *tallyLook { return &t.takers[i] }, yield)
		m.take(s, int8(i), yield)
	}
	if m.readers {
		m.look(s, &s.reader, func(t *tallied) *tallyLook { return &t.reader }, yield)
		if r := s.reader; r.phase == tallyBoth {
			s.twice = m.sum(&r.totals, &r.rows) > s.reported()
			s.reader = tallyLook{}
			yield(happened("a reader shows %d", m.sum(&r.totals, &r.rows)), s)
		}
	}
}

// sum is the total that a reader shows.
func (m *tallying) sum(t *tallyTotals, rows *tallyRows) int8 {
	sum := t.base
	for i, r := range rows {
		if m.mutation == tallyAdds {
			sum += t.taken[i] + r.n
			continue
		}
		sum += max(t.taken[i], r.n)
	}
	return sum
}

// reported is what all rows had.
func (s *tallied) reported() (sum int8) {
	for _, n := range s.reached {
		sum += n
	}
	return sum
}

// host is a step of a process.
func (m *tallying) host(s tallied, i int8, yield func(event, tallied)) {
	h := &s.hosts[i]
	if t := s; h.begun && s.work > 0 {
		t.work--
		t.done++
		t.hosts[i].count++
		yield(happened("process %d works", i), t)
	}
	n := h.count - h.base
	if !h.begun {
		n = 0
	}
	if t := s; int(i) < m.lates && !s.late[i].there && (n > h.tried-h.base || !h.begun) {
		t.late[i] = tallyReport{true, h.name, n}
		t.hosts[i].tried = h.base + n
		yield(happened("process %d sends the report of %d as %d, and gets no answer", i, n, h.name), t)
	}
	if t := s; n != s.rows[h.name].n || !s.rows[h.name].there {
		to := &t.hosts[i]
		if m.arrive(&t, h.name, n) {
			to.begun, to.tried, to.acked = true, h.base+n, h.base+n
		} else if m.rename(&t, i) {
			return
		}
		yield(happened("process %d reports %d as %d", i, n, h.name), t)
	}
	if t := s; s.late[i].there {
		m.arrive(&t, s.late[i].name, s.late[i].n)
		t.late[i] = tallyReport{}
		yield(happened("a late report of %d as %d arrives", s.late[i].n, s.late[i].name), t)
	}
	if s.kills > 0 && s.names < tallyNames {
		s.kills--
		s.lost += h.count - h.base - s.reached[h.name] // a late report may take some of that back
		s.hosts[i] = tallyHost{name: s.names}
		s.names++
		yield(happened("process %d is killed, and begins again as %d", i, s.names-1), s)
	}
}

// arrive carries out a report, and reports whether there is a row then. Only a report without counts makes one.
func (m *tallying) arrive(s *tallied, name, n int8) bool {
	r := &s.rows[name]
	switch {
	case !r.there && n > 0 && m.mutation != tallyRevived:
		return false
	case r.there && m.mutation != tallyLowered:
		n = max(n, r.n)
	}
	r.there, r.n = true, n
	if more := n - s.reached[name]; more > 0 {
		s.reached[name] = n
		for _, h := range s.hosts {
			if h.name == name {
				return true
			}
		}
		s.lost -= more // it was killed
	}
	return true
}

// rename lets a process whose row was forgotten begin under a new name. It reports whether there is none left.
func (m *tallying) rename(s *tallied, i int8) bool {
	h := &s.hosts[i]
	if s.names == tallyNames {
		return true
	}
	from := h.tried
	if m.mutation == tallyFromAcked {
		from = h.acked
	}
	s.lost += h.tried - h.base - s.reached[h.name]
	*h = tallyHost{name: s.names, count: h.count, base: from, tried: from, acked: from}
	s.names++
	return false
}

// look reads the record, and then the rows.
func (m *tallying) look(s tallied, l *tallyLook, of func(*tallied) *tallyLook, yield func(event, tallied)) {
	first := l.phase == tallyIdle
	switch {
	case l.phase == tallyBoth:
		return
	case first != (m.mutation == tallyRowsFirst):
		of(&s).totals = s.totals
	default:
		of(&s).rows = s.rows
	}
	of(&s).phase++
	yield(happened("a process reads the totals, and then the rows"), s)
}

// rank is a number that is different for many looks that differ.
func (l *tallyLook) rank() (n int) {
	n = int(l.phase)<<3 | int(l.totals.base)
	for i, r := range l.rows {
		n = (n<<3|int(l.totals.taken[i]))<<3 | int(r.n)
		if r.there {
			n |= 4
		}
	}
	return n
}

// take lets a taker change the record if it is as it was read, or remove a row, or give up.
func (m *tallying) take(s tallied, i int8, yield func(event, tallied)) {
	l := s.takers[i]
	if l.phase != tallyBoth {
		return
	}
	t := s
	t.takers[i] = tallyLook{}
	yield(happened("taker %d ends", i), t)
	for name := range int8(tallyNames) {
		row, was := l.rows[name], l.totals.taken[name]
		to := l.totals
		switch {
		case row.there && row.n > was && m.mutation == tallyNameless:
			to.base += row.n
		case row.there && row.n > was:
			to.taken[name] = row.n
		case was > 0 && (!row.there || m.mutation == tallyFoldedEarly):
			to.base += was
			to.taken[name] = 0
		}
		if t := s; to != l.totals && (s.totals == l.totals || m.mutation == tallyUncompared) {
			t.totals = to
			t.takers[i].totals = to
			yield(happened("taker %d takes %d, or folds it", i, name), t)
		}
		covered := was >= row.n || m.mutation == tallyUntaken
		if t := s; row.there && covered && !s.making(name) && (s.rows[name] == row || m.mutation == tallyRemoved && s.rows[name].there) {
			t.rows[name].there, t.rows[name].n = false, 0
			yield(happened("taker %d forgets the row of %d", i, name), t)
		}
	}
}

// making reports whether a report is on its way that makes a row.
func (s *tallied) making(name int8) bool {
	return s.late[0] == (tallyReport{true, name, 0}) || s.late[1] == (tallyReport{true, name, 0})
}

func (m *tallying) wrong(s tallied) string {
	now, reported, pending := m.sum(&s.totals, &s.rows), s.reported(), int8(0)
	for _, h := range s.hosts {
		pending += h.count - h.base - s.reached[h.name]
	}
	switch {
	case s.twice || now > reported:
		return "the total counts work twice"
	case now < reported:
		return "the total lacks what was reported"
	case reported+s.lost+pending > s.done:
		return "work is counted under two names"
	case reported+s.lost+pending < s.done:
		return "work is lost, and no process was killed"
	}
	return ""
}

func (m *tallying) stuck(tallied) string { return "" }

func (m *tallying) show(s tallied) string {
	return fmt.Sprintf("done %d, rows %v, totals %+v, processes %+v, late %v, lost %d", s.done, s.rows, s.totals, s.hosts, s.late, s.lost)
}

func tallyInstances() []instance {
	return []instance{
		{
			"tally", "2 processes, 2 units of work, a kill; 2 takers", false,
			search(&tallying{work: 2, kills: 1, takers: 2}),
		},
		{
			"tally-late", "2 processes, 3 units of work, a kill, and reports of one that come late; a taker", false,
			search(&tallying{work: 3, kills: 1, lates: 1, takers: 1}),
		},
		{
			"tally-reader", "2 processes, 2 units of work, a kill; a taker and a reader", false,
			search(&tallying{work: 2, kills: 1, takers: 1, readers: true}),
		},
	}
}

func tallyShortcuts() []shortcut {
	var all []shortcut
	tallies := func(is mutation, name string) {
		all = append(all, shortcut{is, name, search(&tallying{mutation: is, work: 2, kills: 1, lates: 1, takers: 2, readers: is == tallyRowsFirst})})
	}
	tallies(tallyNameless, "take the counts of a row without its name")
	tallies(tallyFoldedEarly, "forget the name of a row that is still there")
	tallies(tallyAdds, "add what was taken to what the row has")
	tallies(tallyUncompared, "take a row without comparing the totals")
	tallies(tallyRowsFirst, "read the rows before the totals")
	tallies(tallyRevived, "let a report with counts make its row again")
	tallies(tallyUntaken, "forget a row that was not taken")
	tallies(tallyRemoved, "forget a row that has changed since it was read")
	tallies(tallyFromAcked, "begin a new name from the last report that was answered")
	tallies(tallyLowered, "let a late report replace a later one")
	return all
}
