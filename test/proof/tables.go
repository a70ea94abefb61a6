package main

import (
	"fmt"
	"slices"
)

// ingesting models how the embedded store writes large pushes: as tables that become durable past the log. An owner's bucket has slots, and a message
// takes the next free one.
//
// A small push appends a record to the log, in one step under the owner's lock. The record is visible at once, and durable when the log is synced
// up to it. A large push takes its owners, so that no other push writes to them, and ingests a table. It may leave out any owners, who get records.
type ingesting struct {
	mutation mutation
	steps    []string // of a large push

	large []tablePush // repeated until they are recorded as done
	small []tablePush // to one owner each, repeated until they are acknowledged

	crashes, failures, checkpoints int8
}

type tablePush struct {
	message int8
	owners  []int8
}

// ingestable is a state of ingesting.
type ingestable struct {
	disk    tableImage     // the tables, and the log as far as it is synced
	log     [8]tableRecord // the rest of it
	records int8           // in log

	checkpoint bool
	saved      tableImage // the tables when the checkpoint began, and the log as far as it is synced now

	tails  [3]int8 // of owners, if remembered: the number of slots, and 1
	taken  [3]int8 // the large push that has the owner, and 1
	locked [3]bool // a small push waits, and has the lock of the owner
	large  [2]tablePusher
	small  [2]int8 // the phases of small pushes: they begin, are pushed, are acknowledged

	crashes, failures, checkpoints int8 // left
}

// tableImage is a store that is opened again.
type tableImage struct {
	buckets [3][5]int8 // messages in the slots of owners
	done    [2]bool    // the large push has a progress record
}

// tableRecord is an entry in a slot of an owner; without a message, the progress record of a large push.
type tableRecord struct{ of, slot, message int8 }

// tablePusher is a worker with a large push.
type tablePusher struct {
	at    int8 // in its steps
	over  bool
	until int8    // how many records its sync waits for
	slots [3]int8 // of the owners in its table, and 1
	left  [3]bool // owners who are not in its table
}

// The steps of a large push, as formats that describe them.
const (
	tableTake    = "large push %d takes its owners"
	tableSync    = "large push %d begins a sync"
	tableRead    = "large push %d reads its owners, and leaves out those of %d"
	tableAwait   = "large push %d has awaited its sync"
	tableIngest  = "large push %d ingests its table"
	tableAppend  = "large push %d appends to the log for an owner without a table"
	tableRelease = "large push %d releases its owners"
	tableRecords = "large push %d records that it is done"
)

func tableSteps() []string {
	return []string{tableTake, tableSync, tableRead, tableAwait, tableIngest, tableAppend, tableRelease, tableRecords}
}

func (m *ingesting) initial() []ingestable {
	return []ingestable{{crashes: m.crashes, failures: m.failures, checkpoints: m.checkpoints}}
}

func (m *ingesting) next(s ingestable, yield func(event, ingestable)) {
	for i := range m.large {
		m.push(s, int8(i), yield)
	}
	for i := range m.small {
		m.write(s, int8(i), yield)
	}
	if t := s; s.records > 0 {
		t.disk.put(s.log[0])
		if s.checkpoint {
			t.saved.put(s.log[0])
		}
		copy(t.log[:], s.log[1:])
		t.records--
		t.log[t.records] = tableRecord{}
		for i := range t.large {
			t.large[i].until = max(t.large[i].until-1, 0)
		}
		yield(happened("the log is synced up to its next record"), t)
	}
	switch t := s; {
	case s.checkpoint:
		t.checkpoint, t.saved = false, tableImage{}
		yield(happened("the checkpoint ends"), t)
	case s.checkpoints > 0 && (m.mutation == tableInCheckpoint || !slices.ContainsFunc(s.large[:], m.mayIngest)):
		t.checkpoint, t.saved, t.checkpoints = true, s.disk, s.checkpoints-1
		yield(happened("a checkpoint begins"), t)
	}
	for kept := int8(0); s.crashes > 0 && kept <= s.records; kept++ {
		t := ingestable{disk: s.disk, crashes: s.crashes - 1, failures: s.failures, checkpoints: s.checkpoints}
		for _, r := range s.log[:kept] {
			t.disk.put(r)
		}
		for i := range t.large {
			t.large[i].over = t.disk.done[i]
		}
		for i, phase := range s.small {
			t.small[i] = phase / 2 * 2
		}
		yield(happened("a crash leaves %d of the records that were not synced", kept), t)
	}
}

// mayIngest reports whether a large push has taken its owners, and has not ingested yet.
func (m *ingesting) mayIngest(p tablePusher) bool {
	return p.at > 0 && slices.Contains(m.steps[p.at:], tableIngest)
}

// push is a step of a large push.
func (m *ingesting) push(s ingestable, i int8, yield func(event, ingestable)) {
	p, of := &s.large[i], m.large[i]
	if p.over {
		return
	}
	if t := s; p.at == 0 {
		t.large[i].at = int8(slices.Index(m.steps, tableAppend))
		for _, o := range of.owners {
			t.large[i].left[o] = true
		}
		yield(happened("large push %d will have no table", i), t)
	}
	step := m.steps[p.at]
	p.at++
	switch step {
	case tableTake:
		owners := of.owners
		if m.mutation == tableTakenSingly {
			owners = owners[p.at-1 : p.at]
		}
		for _, o := range owners {
			if s.taken[o] != 0 || s.checkpoint && m.mutation != tableInCheckpoint {
				return
			}
			s.taken[o] = i + 1
		}
	case tableSync:
		p.until = s.records
	case tableRead:
		for left := range int8(1) << len(of.owners) {
			t := s
			for k, o := range of.owners {
				slot, there := s.find(o, of.message)
				if t.large[i].left[o] = left>>k&1 == 1; !there && !t.large[i].left[o] {
					t.large[i].slots[o] = slot + 1
				}
			}
			yield(happened(step, i, left), t)
		}
		return
	case tableAwait:
		if p.until > 0 {
			return
		}
	case tableIngest:
		m.fail(s, i, yield)
		for o, slot := range p.slots {
			if slot > 0 {
				s.disk.put(tableRecord{int8(o), slot - 1, of.message})
			}
		}
		m.fail(s, i, yield)
	case tableAppend:
		if o := int8(slices.Index(p.left[:], true)); o >= 0 {
			if s.taken[o] != 0 && s.taken[o] != i+1 {
				return
			}
			s.append(o, of.message)
			if p.left[o] = false; slices.Contains(p.left[:], true) {
				p.at--
			}
		}
	case tableRelease:
		for _, o := range of.owners {
			if s.locked[o] {
				return
			}
			if s.taken[o] == i+1 {
				s.taken[o] = 0
			}
			if p.slots[o] > 0 {
				s.tails[o] = p.slots[o] + 1
			}
		}
	case tableRecords:
		s.log[s.records] = tableRecord{of: i}
		s.records++
	}
	if int(p.at) == len(m.steps) {
		*p = tablePusher{over: true}
	}
	yield(happened(step, i), s)
}

// fail lets a large push begin again after an error of its ingest, which may have been applied.
func (m *ingesting) fail(s ingestable, i int8, yield func(event, ingestable)) {
	if s.failures == 0 {
		return
	}
	s.failures--
	for _, o := range m.large[i].owners {
		s.taken[o] = 0
		switch slot := s.large[i].slots[o]; {
		case m.mutation == tableTailAhead && slot > 0:
			s.tails[o] = slot + 1
		case m.mutation != tableTailKept:
			s.tails[o] = 0
		}
	}
	s.large[i] = tablePusher{}
	yield(happened("large push %d gets an error from its ingest", i), s)
}

// write is a step of a small push.
func (m *ingesting) write(s ingestable, i int8, yield func(event, ingestable)) {
	phase, message, o := &s.small[i], m.small[i].message, m.small[i].owners[0]
	switch _, durable := s.disk.find(o, message); {
	case *phase == 0 && s.taken[o] == 0:
		s.append(o, message)
		*phase, s.locked[o] = 1, false
	case *phase == 0 && m.mutation == tableWaitsLocked && !s.locked[o]:
		s.locked[o] = true
	case *phase == 1 && durable:
		*phase = 2
	default:
		return
	}
	yield(happened("small push %d is in phase %d", i, *phase), s)
}

// append is a push by the log.
func (s *ingestable) append(owner, message int8) {
	if slot, there := s.find(owner, message); !there {
		s.log[s.records] = tableRecord{owner, slot, message}
		s.tails[owner] = slot + 2
		s.records++
	}
}

// find returns the next slot of an owner, from the remembered tail if there is one, and whether the owner has a message.
func (s *ingestable) find(owner, message int8) (slot int8, there bool) {
	visible := s.disk
	for _, r := range s.log[:s.records] {
		visible.put(r)
	}
	if slot, there = visible.find(owner, message); s.tails[owner] > 0 {
		slot = s.tails[owner] - 1
	}
	return slot, there
}

func (i *tableImage) find(owner, message int8) (slot int8, there bool) {
	for k, is := range i.buckets[owner] {
		if is != 0 {
			slot, there = int8(k)+1, there || is == message
		}
	}
	return slot, there
}

func (i *tableImage) put(r tableRecord) {
	switch slot := &i.buckets[r.of][r.slot]; {
	case r.message == 0:
		i.done[r.of] = true
	case *slot == 0:
		*slot = r.message
	case *slot != r.message:
		*slot = -1
	}
}

func (m *ingesting) wrong(s ingestable) string {
	for kept := int8(0); ; kept++ { // what a crash may leave
		what := m.check(&s.disk)
		for i, of := range m.small {
			if _, there := s.disk.find(of.owners[0], of.message); s.small[i] == 2 && !there {
				what = "an acknowledged message is lost"
			}
		}
		if s.checkpoint && what == "" {
			what = m.check(&s.saved)
		}
		if what != "" || kept == s.records {
			return what
		}
		s.disk.put(s.log[kept])
		s.saved.put(s.log[kept])
	}
}

func (m *ingesting) check(image *tableImage) string {
	for o, b := range image.buckets {
		n, _ := image.find(int8(o), 0)
		for k, is := range b[:n] {
			switch {
			case is == 0:
				return "a bucket has a hole"
			case is < 0:
				return "a slot is written twice"
			case slices.Contains(b[:k], is):
				return "a message is in an inbox twice"
			}
		}
	}
	for i, of := range m.large {
		for _, o := range of.owners {
			if _, there := image.find(o, of.message); image.done[i] && !there {
				return "a message that is recorded as done is lost"
			}
		}
	}
	return ""
}

func (m *ingesting) stuck(s ingestable) string {
	if slices.Contains(s.disk.done[:len(m.large)], false) || slices.ContainsFunc(s.small[:len(m.small)], func(phase int8) bool { return phase < 2 }) {
		return "a push does not end"
	}
	return ""
}

func (m *ingesting) show(s ingestable) string {
	return fmt.Sprintf("disk %v, log %v, checkpoint %v, tails %v, taken %v, large %+v, small %v",
		s.disk, s.log[:s.records], s.saved, s.tails, s.taken, s.large[:len(m.large)], s.small[:len(m.small)])
}

func tableInstances() []instance {
	table := func(name, covers string, m ingesting) instance {
		m.steps = tableSteps()
		return instance{name, covers, false, searchToTheEnd(&m)}
	}
	one, two := tablePush{1, []int8{0, 1}}, tablePush{2, []int8{2, 1}}
	small := []tablePush{{3, []int8{1}}}
	return []instance{
		table("table", "a large push to 2 owners, 2 small ones, one of them of the same message; 2 crashes, an error",
			ingesting{large: []tablePush{one}, small: []tablePush{{2, []int8{0}}, {1, []int8{1}}}, crashes: 2, failures: 1}),
		table("table-two", "2 large pushes with an owner in common, a small one to that owner; a crash, an error",
			ingesting{large: []tablePush{one, two}, small: small, crashes: 1, failures: 1}),
		table("table-again", "a large push twice at the same time, a small one; a crash, an error",
			ingesting{large: []tablePush{one, one}, small: small, crashes: 1, failures: 1}),
		table("table-checkpoint", "as table-two, a checkpoint instead of an error",
			ingesting{large: []tablePush{one, two}, small: small, crashes: 1, checkpoints: 1}),
	}
}

func tableShortcuts() []shortcut {
	var all []shortcut
	tables := func(is mutation, name string, m ingesting, steps ...string) {
		m.mutation, m.large, m.steps = is, append(m.large, tablePush{1, []int8{0, 1}}), steps
		all = append(all, shortcut{is, name, search(&m)})
	}
	right := tableSteps()
	end := right[4:]
	beside := ingesting{small: []tablePush{{2, []int8{0}}}}
	failing := ingesting{small: []tablePush{{2, []int8{0}}, {3, []int8{0}}}, failures: 1}
	tables(tableSyncedEarly, "begin the sync of a table before its owners are taken", beside,
		slices.Concat([]string{tableSync, tableTake, tableRead, tableAwait}, end)...)
	tables(tableReadEarly, "read the buckets of a table before its owners are taken", beside,
		slices.Concat([]string{tableRead, tableTake, tableSync, tableAwait}, end)...)
	tables(tableUntaken, "a table whose owners are not taken", beside, right[1:]...)
	tables(tableUnsynced, "a table without a sync of the log", beside, slices.Concat([]string{tableTake, tableRead}, end)...)
	tables(tableUnawaited, "ingest a table before its sync has ended", beside, slices.Concat([]string{tableTake, tableSync, tableRead}, end)...)
	tables(tableRecordedEarly, "record a table as done before the owners that it leaves out", ingesting{},
		slices.Insert(tableSteps(), 5, tableRecords)...)
	tables(tableTailAhead, "remember the tails of a table whose ingest has failed", failing, right...)
	tables(tableTailKept, "keep the tails of before a table whose ingest has failed", failing, right...)
	tables(tableInCheckpoint, "ingest a table during a checkpoint", ingesting{small: beside.small, checkpoints: 1}, right...)
	tables(tableTakenSingly, "take the owners of a table one after the other", ingesting{large: []tablePush{{2, []int8{1, 0}}}},
		slices.Insert(tableSteps(), 0, tableTake)...)
	tables(tableWaitsLocked, "wait for a table with the lock of an owner", beside, right...)
	return all
}
