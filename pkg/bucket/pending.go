package bucket

import (
	"fmt"
	"slices"

	"github.com/fanmail/fanmail/pkg/message"
)

// pending is an unfinished Append.
type pending struct {
	owner   message.UserID
	entries []Entry // neither pushed nor found yet, ascending
	result  *Appended

	size  int // of the store's buckets
	known *knowledge

	hint  Hint // the highest bucket known to exist
	moved bool // hint is ahead of the hint that the caller passed

	// next is the planned push, which is push, or nil if look has to read the inbox first.
	next *Push
	push Push
	// filled is the bucket after next is applied, if next fills it exactly. Such a push is applied only if no other writer has taken
	// a slot since the look, so the bucket is known. Otherwise filled is zero.
	filled Outline
	// refusals counts the pushes that were refused or may not have been applied.
	refusals int
}

func (p *pending) damaged(err error) { p.result.Err = err }

// begin plans a push onto the bucket of the hint. The push names the Decl of the hint. A user without a hint mostly has no bucket 0, or
// an old one without a Decl. So bucket 0 may be created without a Decl although declarations are known.
func (p *pending) begin(a *Append, result *Appended, size Size, known *knowledge) {
	entries := a.Entries
	if repeats(entries) {
		same := func(x, y Entry) bool { return x.ID == y.ID }
		entries = slices.CompactFunc(slices.Clone(entries), same) // the caller owns what was handed in
	}
	unnamed := func(e Entry) bool { return len(e.To) > 0 && e.For(a.Owner).To == nil }
	if slices.ContainsFunc(entries, unnamed) {
		entries = slices.Clone(entries)
		for i, e := range entries {
			entries[i] = e.For(a.Owner)
		}
	}
	*p = pending{owner: a.Owner, entries: entries, result: result, size: int(size), known: known, hint: a.Hint}
	if len(p.entries) <= p.size && p.hint.Floor.Less(p.entries[0].ID) && known.reaches(p.hint.Decl) {
		p.push = Push{Owner: p.owner, Sequence: p.hint.Sequence, Decl: p.hint.Decl, Entries: p.entries, Guard: true}
		p.next = &p.push
	}
}

// repeats reports whether an entry occurs twice.
func repeats(entries []Entry) bool {
	for i := 1; i < len(entries); i++ {
		if entries[i].ID == entries[i-1].ID {
			return true
		}
	}
	return false
}

func (p *pending) finished() bool { return len(p.entries) == 0 || p.result.Err != nil }

// saw raises the hint to a bucket that exists. A hint to this bucket with another Decl gets that of the bucket.
func (p *pending) saw(o Outline) {
	if o.Sequence > p.hint.Sequence || o.Sequence == p.hint.Sequence && o.Decl != p.hint.Decl {
		p.hint, p.moved = Hint{Sequence: o.Sequence, Decl: o.Decl, Floor: o.Floor}, true
	}
}

// drop removes the entries that a bucket holds.
func (p *pending) drop(b Bucket) {
	missing := func(e Entry) bool { return !b.Holds(e.ID) }
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
	p.plan(Push{Guard: true}, Outline{Decl: p.known.declared.Greatest()})
}

// planOnto plans a push of as many entries as fit, oldest first. It goes onto a bucket that was seen or, if that was full, onto the next one.
// None of the entries is in that bucket or below it. A bucket above it exists only if it was full. The next bucket gets all declarations
// that this process knows: at least those of the full one.
func (p *pending) planOnto(seen Outline) {
	if seen.Slots < p.size {
		p.plan(Push{}, seen)
		return
	}
	next := Outline{Sequence: seen.Sequence + 1, Floor: seen.Last, Last: seen.Last, Decl: p.known.declared.Greatest()}
	p.plan(Push{Create: true, Floor: seen.Last}, next)
}

func (p *pending) plan(push Push, onto Outline) {
	if len(p.entries) == 0 {
		return
	}
	room := p.size - onto.Slots
	push.Owner, push.Sequence, push.Decl = p.owner, onto.Sequence, onto.Decl
	push.Entries = p.entries[:min(room, len(p.entries))]
	p.push, p.filled = push, Outline{}
	p.next = &p.push
	if len(push.Entries) == room {
		p.filled = onto
		p.filled.Slots = p.size
		p.filled.Last = greater(onto.Last, push.Entries[room-1].ID)
	}
}

// refused handles that next was refused, or may have been. The Appender then has to look at the inbox again, with one exception. If the
// store returned the bucket, and its last is below every entry, no entry is in it or in an earlier bucket. Then refused plans the next push
// without a look. It does so once for each Append, which saves a look when the bucket is full. A hint that is far behind needs a look
// anyway.
func (p *pending) refused(seen Outline) {
	sequence := p.next.Sequence
	p.next = nil
	p.refusals++
	if sequence == p.hint.Sequence && seen.Slots > 0 {
		p.hint.Decl = seen.Decl
	}
	switch {
	case p.refusals == maxRefused:
		p.result.Err = fmt.Errorf("append to %s: %w: %d pushes were refused", p.owner, ErrContended, p.refusals)
	case p.refusals == 1 && p.known.reaches(seen.Decl) && seen.Slots > 0 && seen.Last.Less(p.entries[0].ID):
		p.planOnto(seen)
	}
}

// pushed handles that next was applied.
func (p *pending) pushed() {
	done := *p.next
	p.result.New += len(done.Entries)
	p.entries = p.entries[len(done.Entries):]
	p.next = nil
	if done.Create || done.Sequence == 0 && done.Decl > 0 {
		p.saw(Outline{Sequence: done.Sequence, Decl: done.Decl, Floor: done.Floor})
	}
	if p.filled.Slots > 0 {
		p.planOnto(p.filled) // the rest can go on without another look
	}
}
