package main

import "fmt"

// streamReader is a look of the server, or a request for a page: what it has read, and then what is on its way to the client.
type streamReader struct {
	step  int8 // how many pieces it has read
	view  streamView
	frame streamFrame
}

// arriving is the step of what is on its way.
const arriving = 100

// streamView is what was read of an inbox.
type streamView struct {
	flagView
	flags       flagNumbers
	gaps, marks int8
	visible     ids
}

// streamCursor says what a client knows. All but its last four are numbers that only rise.
type streamCursor struct {
	epoch, slots, deleted, flags, gaps, marks int8

	// A hash of these, in fact:
	expired    int8
	counted    ids
	rebuilding bool
	user       countedUser // with byMark
}

// streamFrame is what a client is sent. That of a page, and of a reset, has all that is there.
type streamFrame struct {
	reset  bool
	states messageStates // new ones, and those whose states may have changed
	added  ids           // the new ones
	gone   ids
	older  bool
	tally  flagTally
	cursor streamCursor
}

// read lets a reader read its next piece.
func (m *streaming) read(s *streamed, r *streamReader, p piece) {
	r.step++
	v := &r.view
	m.box.read(&s.inbox, &v.flagView, p)
	switch p {
	case pieceUser:
		v.gaps, v.marks = s.gaps, s.marks
	case pieceFlags:
		v.flags = s.flags
	case pieceHead:
	case pieceTombstones:
		if m.mutation == stubsUncounted {
			v.tombstones = v.dead.len()
		}
	case pieceEntries:
		v.visible = s.inbox.visible
	case pieceRevision:
		v.flags.last = s.flags.last
	}
}

func (m *streaming) readAtOnce(s *streamed, r *streamReader, order []piece) {
	for _, p := range order {
		m.read(s, r, p)
	}
}

// lookAtOnce looks at one moment, and reports whether there is a frame to send.
func (m *streaming) lookAtOnce(s *streamed) bool {
	m.readAtOnce(s, &s.look, m.look)
	m.send(s)
	return s.look.step == arriving
}

// serve yields the steps of a look: reading, and that a frame arrives.
func (m *streaming) serve(s streamed, yield func(event, streamed)) {
	if s.look.step == arriving {
		m.take(&s)
		yield(happened("the frame arrives"), s)
		return
	}
	step := s.look.step
	if m.read(&s, &s.look, m.look[step]); int(s.look.step) == len(m.look) {
		m.send(&s)
	}
	yield(happened("the server reads part %d", step), s)
}

// fetch yields the steps of a request for a page.
func (m *streaming) fetch(s streamed, yield func(event, streamed)) {
	step := s.page.step
	switch {
	case step == arriving:
		m.takePage(&s)
		yield(happened("the page arrives"), s)
		return
	case step > 0 || s.client.owes:
	case s.pages > 0:
		s.pages--
	default:
		return
	}
	if m.read(&s, &s.page, m.page[step]); int(s.page.step) == len(m.page) {
		m.sendPage(&s)
	}
	yield(happened("part %d of a page is read", step), s)
}

// cursor returns the cursor of what was read. Without a note that there are flags, they are not read.
func (m *streaming) cursor(v *streamView, epoch int8) streamCursor {
	c := streamCursor{
		epoch: epoch, slots: v.slots, deleted: v.tombstones, gaps: v.gaps, marks: v.marks,
		expired: v.user.expired, counted: v.user.counted, rebuilding: v.user.rebuilding,
	}
	if v.user.flagged {
		c.flags = v.flags.last
	}
	if m.byMark {
		c.user = v.user.countedUser
	}
	return c
}

// states derives the states of messages from what was read. A page also has what is visible in gaps, and what a rehydration has to append.
func (m *streaming) states(s *streamed, v *streamView, page bool) messageStates {
	at := s.inbox
	at.user, at.maps, at.visible, at.dead = v.user, v.maps, v.visible, v.buried&(1<<v.slots-1)|v.dead&^(1<<v.slots-1)
	for slot := range int8(maxSlots) {
		if slot >= v.slots && !v.dead.has(slot) {
			at.at[slot] = 0
		}
		if v.stubs.has(slot / m.box.capacity) {
			at.dead |= 1 << slot
		}
	}
	if page {
		at.user.counted |= v.visible & v.user.inGaps()
	}
	is := m.box.states(&at)
	if page && v.user.rebuilding {
		is.there |= m.box.missing(&at)
	}
	return is
}

// sendPage ends the reading of a page.
func (m *streaming) sendPage(s *streamed) { s.page = m.whole(s, &s.page.view) }

// whole returns all that was read, on its way.
func (m *streaming) whole(s *streamed, v *streamView) streamReader {
	return streamReader{step: arriving, frame: streamFrame{
		states: m.states(s, v, true), tally: m.box.derive(&s.inbox, v.flagView), cursor: m.cursor(v, s.epoch),
	}}
}

// send ends a look: with a frame if there is something new, or if it is the first look of a stream.
func (m *streaming) send(s *streamed) {
	v, known := s.look.view, s.client.cursor
	to := m.cursor(&v, s.epoch)
	if m.reset(known, to) {
		s.look = m.whole(s, &v)
		s.look.frame.reset = true
		return
	}
	most := min(to.slots, known.slots+m.most)
	if m.mutation != skippedByLimit {
		to.slots = most
	}
	compared := to
	if m.mutation == hashUncompared {
		compared.expired, compared.counted, compared.rebuilding = known.expired, known.counted, known.rebuilding
	}
	if m.mutation == marksUncompared {
		compared.marks = known.marks
	}
	if s.look = (streamReader{}); compared == known && !s.client.first {
		return
	}
	is := m.states(s, &v, false)
	named, older := m.changed(s, &v, known, is.there)
	f := streamFrame{older: older, tally: m.box.derive(&s.inbox, v.flagView), cursor: to}
	f.added = s.inbox.idsOf((1<<most-1)&^(1<<known.slots-1)) & is.there
	named |= f.added
	f.states = messageStates{named, is.read & named, is.archived & named}
	if to.deleted > known.deleted {
		gone := v.dead
		for ; gone.len() > m.tombstones; gone &= gone - 1 {
			f.older = f.older || m.mutation != goneCut
		}
		f.gone = s.inbox.idsOf(gone)
	}
	s.look = streamReader{step: arriving, frame: f}
}

// changed returns which messages in the newest buckets below a cursor may have changed their states, and reports whether others may have.
func (m *streaming) changed(s *streamed, v *streamView, known streamCursor, there ids) (newest ids, older bool) {
	marked := v.marks > known.marks && m.mutation != marksUncompared
	if m.byMark {
		marked = v.user.countedUser != known.user
	}
	older = v.flags.dropped > known.flags && m.mutation != droppedIgnored || v.flags.messages > known.flags && m.mutation != gapFlagsIgnored ||
		marked && v.user.gapsNow() > 0
	lowest := (known.slots-1)/m.box.capacity - m.newest + 1
	for b := int8(0); b*m.box.capacity < known.slots; b++ {
		in := there & s.inbox.idsOf((1<<m.box.capacity-1)<<(b*m.box.capacity)&(1<<known.slots-1))
		flagged := v.flags.at[b] > known.flags && m.mutation != flagsUnsent
		switch {
		case b >= lowest && (flagged || marked):
			newest |= in
		case b < lowest && (flagged && m.mutation != olderFlagsIgnored || marked && in != 0 && m.mutation != olderMarksIgnored):
			older = true
		}
	}
	return newest, older
}

// reset reports whether a client has to begin again.
func (m *streaming) reset(known, is streamCursor) bool {
	above := max(known.slots-is.slots, known.deleted-is.deleted, known.flags-is.flags, known.marks-is.marks) > 0
	return known.epoch != is.epoch || above || known.gaps != is.gaps && m.mutation != gapsUncompared
}

func (r streamReader) String() string {
	if f := r.frame; r.step == arriving {
		return fmt.Sprintf("arrives: reset %t, %v, added {%v}, gone {%v}, older %t, cursor %v", f.reset, f.states, f.added, f.gone, f.older, f.cursor)
	}
	return fmt.Sprintf("has read %d parts", r.step)
}

func (s messageStates) String() string {
	return fmt.Sprintf("{%v} read {%v} archived {%v}", s.there, s.read, s.archived)
}

func (c streamCursor) String() string {
	return fmt.Sprintf("%d/%v, P %d", c.epoch, []int8{c.slots, c.deleted, c.flags, c.gaps, c.marks}, c.expired)
}
