package bucket

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fanmail/fanmail/pkg/message"
)

// pending is an unfinished Append.
type pending struct {
	owner   message.UserID
	entries []Entry // neither pushed nor found yet, ascending
	result  *Appended

	capacity int // of the buckets that this Append creates
	known    *knowledge

	hint  Hint // the highest bucket known to exist
	moved bool // hint is ahead of the hint that the caller passed

	// next is the planned push, or nil if look has to read the inbox first.
	next *Push
	// filled is the extent of the bucket after next is applied, if next fills the bucket exactly. Such a push is applied only
	// if no other writer has taken a slot since the look, so the extent is known. Otherwise filled is zero.
	filled Extent
	// refusals counts the pushes that were refused or may not have been applied.
	refusals int
}

func (p *pending) damaged(err error) { p.result.Err = err }

// newPending plans a push onto the bucket of the hint. If the hint does not say its capacity, or the bucket does not exist, the push names
// that of new buckets. A bucket with another one refuses it. The push names the Decl of the hint. A user without a hint mostly has
// no bucket 0, or an old one without a Decl. So bucket 0 may be created without a Decl although declarations are known.
func newPending(a *Append, result *Appended, capacity int, known *knowledge) *pending {
	p := &pending{owner: a.Owner, entries: a.Entries, result: result, capacity: capacity, known: known, hint: a.Hint}
	if named := p.named(); len(p.entries) <= named && p.hint.Floor.Less(p.entries[0].ID) && known.reaches(p.hint.Decl) {
		p.next = &Push{Owner: p.owner, Sequence: p.hint.Sequence, Cap: named, Decl: p.hint.Decl, Entries: p.entries, Guard: true}
	}
	return p
}

func (p *pending) finished() bool { return len(p.entries) == 0 || p.result.Err != nil }

// saw raises the hint to a bucket that exists. If a push onto the hint would name another capacity or Decl than that bucket has, the hint gets
// those of the bucket.
func (p *pending) saw(o Outline) {
	if o.Sequence > p.hint.Sequence {
		p.hint, p.moved = Hint{Sequence: o.Sequence, Decl: o.Decl, Floor: o.Floor}, true
	}
	if o.Sequence == p.hint.Sequence && o.Cap != p.named() {
		p.hint.Cap, p.moved = o.Cap, true
	}
	if o.Sequence == p.hint.Sequence && o.Decl != p.hint.Decl {
		p.hint.Decl, p.moved = o.Decl, true
	}
}

// named is the capacity that a push onto the hint names.
func (p *pending) named() int { return cmp.Or(p.hint.Cap, p.capacity) }

// drop removes the entries that a bucket holds.
func (p *pending) drop(o Outline) {
	missing := func(e Entry) bool { return !o.Holds(e.ID) }
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

// planFirst plans the push that creates bucket 0. The look has found no bucket at or above the hint.
func (p *pending) planFirst() {
	if p.hint.Sequence > 0 {
		p.hint = Hint{} // ahead of the head, which never happens to a sound store: look again from bucket 0
		return
	}
	p.plan(Push{Sequence: 0, Guard: true}, Extent{Cap: p.capacity, Decl: p.known.declared.Greatest()})
}

// planOnto plans a push onto a bucket that was seen or, if that was full, onto the next one: as many entries as fit, oldest first.
// None of the entries is in that bucket or below it. A bucket above it exists only if it was full. The next bucket begins where the full one
// ends, whatever capacity this Appender believes in. It gets all declarations that this process knows: at least those of the full one.
func (p *pending) planOnto(sequence uint32, seen Extent) {
	if seen.Slots >= seen.Cap {
		next := Extent{Last: seen.Last, Cap: p.capacity, Base: seen.Base + int64(seen.Cap)}
		next.Decl = p.known.declared.Greatest()
		p.plan(Push{Sequence: sequence + 1, Create: true, Floor: seen.Last, Base: next.Base}, next)
		return
	}
	p.plan(Push{Sequence: sequence}, seen)
}

func (p *pending) plan(push Push, onto Extent) {
	if len(p.entries) == 0 {
		return
	}
	room := onto.Cap - onto.Slots
	push.Owner, push.Cap = p.owner, onto.Cap
	push.Decl = onto.Decl
	push.Entries = p.entries[:min(room, len(p.entries))]
	p.next, p.filled = &push, Extent{}
	if newest := push.Entries[len(push.Entries)-1].ID; len(push.Entries) == room {
		p.filled = onto
		p.filled.Slots = onto.Cap
		if p.filled.Last.Less(newest) {
			p.filled.Last = newest
		}
	}
}

// refused handles that next was refused, or may have been. The Appender then has to look at the inbox again, with one exception.
// If the store returned the extent of the bucket, and its last is below every entry, no entry is in it or in an earlier bucket.
// Then refused plans the next push without a look. It does so once for each Append: that saves a look when the bucket is
// full, and a hint that is far behind needs a look anyway.
func (p *pending) refused(seen Extent) {
	sequence := p.next.Sequence
	p.next = nil
	p.refusals++
	if sequence == p.hint.Sequence && seen.Cap > 0 {
		if seen.Cap != p.named() {
			p.hint.Cap = seen.Cap // for the caller; the store of hints may do without
		}
		p.hint.Decl = seen.Decl
	}
	switch {
	case p.refusals == maxRefused:
		p.result.Err = fmt.Errorf("append to %s: %w: %d pushes were refused", p.owner, ErrContended, p.refusals)
	case p.refusals == 1 && p.known.reaches(seen.Decl) && seen.Slots > 0 && seen.Last.Less(p.entries[0].ID):
		p.planOnto(sequence, seen)
	}
}

// pushed handles that next was applied.
func (p *pending) pushed() {
	done := p.next
	p.result.New += len(done.Entries)
	p.entries = p.entries[len(done.Entries):]
	p.next = nil
	if done.Create || done.Sequence == 0 && done.Decl > 0 {
		p.saw(Outline{Sequence: done.Sequence, Cap: done.Cap, Decl: done.Decl, Floor: done.Floor})
	}
	if p.filled.Slots > 0 {
		p.planOnto(done.Sequence, p.filled) // the rest can go on without another look
	}
}
