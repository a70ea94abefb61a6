package main

// streamClient is what a client has.
type streamClient struct {
	first   bool // it has to connect, and the first look sends a frame
	owes    bool // it has to fetch a page
	has     messageStates
	tally   flagTally
	expired int8 // the greatest P of frames since a reset
	cursor  streamCursor
}

// take takes a frame.
func (m *streaming) take(s *streamed) {
	c, f := &s.client, s.look.frame
	s.look = streamReader{}
	c.first, c.cursor, c.tally = false, f.cursor, f.tally
	if f.reset {
		if c.has, c.owes, c.expired = f.states, false, f.cursor.expired; m.mutation != pageBeyondReset {
			s.page = streamReader{}
		}
		return
	}
	c.expired = max(c.expired, f.cursor.expired)
	named := f.states.there & (f.added | c.has.there)
	if m.mutation == knownStays {
		named &^= f.added & c.has.there
	}
	c.has.there |= named
	c.has.read = c.has.read&^named | f.states.read&named
	c.has.archived = c.has.archived&^named | f.states.archived&named
	c.drop(f.gone | upTo(c.expired))
	c.owes = c.owes || f.older && m.mutation != olderIgnored && (m.mutation != olderByHeld || c.has.there&^named != 0)
}

func (c *streamClient) drop(gone ids) {
	c.has = messageStates{c.has.there &^ gone, c.has.read &^ gone, c.has.archived &^ gone}
}

// takePage takes a page, unless it is older than the last frame. A client without a cursor takes that of the page, too.
func (m *streaming) takePage(s *streamed) {
	c, f := &s.client, s.page.frame
	s.page = streamReader{}
	is, known := f.cursor, c.cursor
	for _, n := range [...]struct {
		of        *int8
		unchecked mutation
	}{
		{&known.slots, pageSlotsUnchecked}, {&known.deleted, pageDeletedUnchecked}, {&known.flags, pageFlagsUnchecked}, {&known.marks, pageMarksUnchecked},
	} {
		if m.mutation == n.unchecked {
			*n.of = 0
		}
	}
	switch {
	case known.epoch == 0:
		c.cursor, c.tally, c.expired, s.look = is, f.tally, is.expired, streamReader{}
	case max(known.slots-is.slots, known.deleted-is.deleted, known.flags-is.flags, known.gaps-is.gaps, known.marks-is.marks) > 0:
		return
	}
	if m.mutation == pageCounts {
		c.tally = f.tally
	}
	if c.has, c.owes = f.states, false; m.mutation != expiredReturns {
		c.drop(upTo(c.expired))
	}
}
