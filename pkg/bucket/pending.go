package bucket

import (
	"fmt"
	"slices"

	"github.com/fanmail/fanmail/pkg/message"
)

// pending is an Append under way.
type pending struct {
	owner   message.UserID
	entries []Entry // what is neither pushed nor found yet, ascending
	result  *Appended

	hint  Hint // the highest bucket known to exist
	moved bool // hint is ahead of the one that was given

	// next is the push to try, or nil if the inbox has to be looked at first.
	next *Push
	// filled is the extent of the bucket that next pushes onto once that is applied, if next fills it exactly: it is
	// applied only if nobody else has taken a slot since the bucket was seen. Otherwise it is zero.
	filled Extent
	// refusals counts the pushes that were not known to be applied.
	refusals int
}

func newPending(a *Append, result *Appended) *pending {
	p := &pending{owner: a.Owner, entries: a.Entries, result: result, hint: a.Hint}
	if len(p.entries) <= Capacity && p.hint.Floor.Less(p.entries[0].ID) {
		p.next = &Push{Owner: p.owner, Sequence: p.hint.Sequence, Entries: p.entries, Guard: true}
	}
	return p
}

func (p *pending) finished() bool { return len(p.entries) == 0 || p.result.Err != nil }

// saw notes that a bucket exists.
func (p *pending) saw(o Outline) {
	if o.Sequence > p.hint.Sequence {
		p.hint, p.moved = Hint{Sequence: o.Sequence, Floor: o.Floor}, true
	}
}

// drop removes the entries whose ids are among those found in the inbox.
func (p *pending) drop(found []message.ID) {
	missing := func(e Entry) bool { return !slices.Contains(found, e.ID) }
	if !slices.ContainsFunc(p.entries, func(e Entry) bool { return !missing(e) }) {
		return
	}
	kept := make([]Entry, 0, len(p.entries)) // a new slice: the caller owns the one that was handed in
	for _, e := range p.entries {
		if missing(e) {
			kept = append(kept, e)
		}
	}
	p.entries = kept
}

// planFirst plans the push that starts an inbox, none of whose buckets was found at or above the hint.
func (p *pending) planFirst() {
	if p.hint.Sequence > 0 {
		p.hint = Hint{} // ahead of the head, which never happens to a sound store: look again from bucket 0
		return
	}
	p.plan(Push{Sequence: 0, Guard: true}, Extent{})
}

// planOnto plans a push of as many entries as fit, oldest first, onto a bucket that was seen or, if it was full, onto the
// one after it. None of the entries is in that bucket or below it, and no bucket is above it unless it was full.
func (p *pending) planOnto(sequence uint32, seen Extent) {
	if seen.Slots >= Capacity {
		p.plan(Push{Sequence: sequence + 1, Create: true, Floor: seen.Last}, Extent{Last: seen.Last})
		return
	}
	p.plan(Push{Sequence: sequence}, seen)
}

func (p *pending) plan(push Push, onto Extent) {
	if len(p.entries) == 0 {
		return
	}
	room := Capacity - onto.Slots
	push.Owner = p.owner
	push.Entries = p.entries[:min(room, len(p.entries))]
	p.next, p.filled = &push, Extent{}
	if newest := push.Entries[len(push.Entries)-1].ID; len(push.Entries) == room {
		p.filled = Extent{Slots: Capacity, Last: onto.Last}
		if p.filled.Last.Less(newest) {
			p.filled.Last = newest
		}
	}
}

// refused takes note that next was refused, or may have been. The inbox has to be looked at again, unless it is known what
// the bucket held then, and that its last is below every entry: then none of them is in it or in an earlier one. That is
// used once, which spares a look wherever a bucket is full, and not to feel the way from a hint that is far behind.
func (p *pending) refused(seen Extent) {
	sequence := p.next.Sequence
	p.next = nil
	p.refusals++
	switch {
	case p.refusals == maxRefused:
		p.result.Err = fmt.Errorf("append to %s: %w: %d pushes were refused", p.owner, ErrContended, p.refusals)
	case p.refusals == 1 && seen.Slots > 0 && seen.Last.Less(p.entries[0].ID):
		p.planOnto(sequence, seen)
	}
}

// pushed takes note that next was applied.
func (p *pending) pushed() {
	done := p.next
	p.result.New += len(done.Entries)
	p.entries = p.entries[len(done.Entries):]
	p.next = nil
	if done.Create {
		p.saw(Outline{Sequence: done.Sequence, Floor: done.Floor})
	}
	if p.filled.Slots > 0 {
		p.planOnto(done.Sequence, p.filled) // the rest can go on without another look
	}
}
