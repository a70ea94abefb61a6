package main

import "fmt"

// blocking models a block beside three follows between the same users. A follow that dies is repeated.
type blocking struct{ mutation mutation }

// blockable is a state of blocking.
type blockable struct {
	blocked, open bool
	block         int8    // how many of its two steps the block has done
	phases        [3]int8 // of the follows: they look, open a span, look again, end the edge, and are over
	later         [3]bool // the follow began after the block was over
	crashes       int8    // left
}

func (m blocking) initial() []blockable { return []blockable{{crashes: 2}} }

func (m blocking) next(s blockable, yield func(event, blockable)) {
	if t := s; s.block < 2 {
		if t.block++; (s.block == 0) != (m.mutation == endsFirst) {
			t.blocked = true
		} else {
			t.open = false
		}
		yield(happened("the block does step %d", t.block), t)
	}
	for i, phase := range s.phases {
		t := s
		if t.phases[i] = 0; s.crashes > 0 && phase > 0 && phase < 4 {
			t.crashes--
			yield(happened("follow %d dies", int8(i)), t)
		}
		t = s
		t.phases[i]++
		switch {
		case phase == 0:
			if t.later[i] = s.block == 2; s.blocked && m.mutation != looksAfter {
				t.phases[i] = 3
			}
		case phase == 1:
			t.open = true
		case phase == 2 && (!s.blocked || m.mutation == looksBefore):
			t.phases[i] = 4
		case phase == 3:
			t.open = false
		case phase == 4:
			continue
		}
		yield(happened("follow %d goes on to phase %d", int8(i), t.phases[i]), t)
	}
}

func (m blocking) wrong(s blockable) string {
	for i, phase := range s.phases {
		if s.later[i] && phase == 2 {
			return "a follow opens a span after the block"
		}
	}
	return ""
}

func (m blocking) stuck(s blockable) string {
	if s.open {
		return "a blocked user follows"
	}
	return ""
}

func (m blocking) show(s blockable) string { return fmt.Sprintf("%+v", s) }

func blockShortcuts() []shortcut {
	return []shortcut{
		{endsFirst, "end the edges, then record the block", search(blocking{endsFirst})},
		{looksBefore, "look for a block only before the span", search(blocking{looksBefore})},
		{looksAfter, "look for a block only after the span", search(blocking{looksAfter})},
	}
}
