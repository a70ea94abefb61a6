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
	// onto is the bucket that next pushes onto, as it was seen, if next fills that bucket exactly: then its
	// contents are known once the push is applied, since it applies only if nobody else took a slot.
	onto *Outline
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
	p.plan(Outline{}, Push{Sequence: 0, Guard: true})
}

// planOnto plans a push of as many entries as fit, oldest first, onto the head that was seen or, if it was
// full, onto the bucket after it. None of the entries is in the head or below it.
func (p *pending) planOnto(head Outline) {
	if head.Full() {
		p.plan(Outline{Sequence: head.Sequence + 1, Floor: head.Last, Last: head.Last},
			Push{Sequence: head.Sequence + 1, Create: true, Floor: head.Last})
		return
	}
	p.plan(head, Push{Sequence: head.Sequence})
}

func (p *pending) plan(onto Outline, push Push) {
	if len(p.entries) == 0 {
		return
	}
	room := Capacity - len(onto.IDs)
	push.Owner = p.owner
	push.Entries = p.entries[:min(room, len(p.entries))]
	p.next, p.onto = &push, nil
	if len(push.Entries) == room {
		p.onto = &onto
	}
}

// refused takes note that next was refused, or may have been: the inbox has to be looked at again.
func (p *pending) refused() {
	p.next = nil
	p.refusals++
	if p.refusals == maxRefused {
		p.result.Err = fmt.Errorf("append to %s: %w: %d pushes were refused", p.owner, ErrContended, p.refusals)
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
	if len(p.entries) == 0 || p.onto == nil {
		return
	}
	// The bucket that was seen is full now, and holds what was seen and what was pushed: the rest can go on
	// without another look.
	full := *p.onto
	full.IDs = slices.Clone(full.IDs)
	for _, e := range done.Entries {
		full.IDs = append(full.IDs, e.ID)
		if full.Last.Less(e.ID) {
			full.Last = e.ID
		}
	}
	p.planOnto(full)
}
