package bucket

import (
	"context"
	"fmt"
	"slices"

	"github.com/fanmail/fanmail/pkg/message"
)

// maxRefused bounds how many pushes of one Append may be refused. Each that is means that another writer has added
// something to that inbox, or that the store did not answer clearly.
const maxRefused = 64

// Append is what is to be in one owner's inbox.
type Append struct {
	Owner message.UserID
	// Hint is where the owner's head was seen.
	Hint Hint
	// Entries are ascending by id, each id once.
	Entries []Entry
}

// Appended is what became of an Append. Without an Err, each of the entries is in the inbox exactly once.
type Appended struct {
	// New counts the entries that this call is known to have appended; the others were there before.
	New int
	// Head is a hint that is at least as far as the one that was given: where to go on.
	Head Hint
	// Err is why the append can never succeed (ErrTooLarge) or was given up (ErrContended), or nil.
	Err error
}

// Appender appends messages to inboxes, each exactly once, however often, by whomever and in whatever order
// they are handed to it. The package comment tells how, and why it is right. It is safe for concurrent use.
type Appender struct {
	store Store
	hints Hints
}

// NewAppender returns an Appender on a store that raises hints as heads are seen to move.
func NewAppender(store Store, hints Hints) *Appender { return &Appender{store: store, hints: hints} }

// Append makes sure that every entry is in its owner's inbox, and returns the results in the order of appends.
// No two may be for the same owner. The entries survive a crash once Append has returned. After an error
// (of the store, or of ctx) nothing is known of any of them, and it is right to call Append again.
//
// The steady state costs one call of Store.Push for all owners together.
func (a *Appender) Append(ctx context.Context, appends []Append) ([]Appended, error) {
	results, err := a.AppendLazily(ctx, appends)
	if err != nil {
		return nil, err
	}
	if err := a.store.Persist(ctx); err != nil {
		return nil, fmt.Errorf("persist: %w", err)
	}
	return results, nil
}

// AppendLazily is Append, but for the crash: entries may be lost in one, together with every write to the same database that
// began after AppendLazily had returned. It is for callers that go on to record durably what they have appended, and
// append again what is not recorded: their record makes both durable at once.
func (a *Appender) AppendLazily(ctx context.Context, appends []Append) ([]Appended, error) {
	results := make([]Appended, len(appends))
	work := make([]*pending, 0, len(appends))
	for i := range appends {
		results[i].Head = appends[i].Hint
		if len(appends[i].Entries) > 0 {
			work = append(work, newPending(&appends[i], &results[i]))
		}
	}
	var raised []Head
	for len(work) > 0 {
		if err := a.look(ctx, work); err != nil {
			return nil, err
		}
		if err := a.push(ctx, work); err != nil {
			return nil, err
		}
		work = slices.DeleteFunc(work, func(p *pending) bool {
			if !p.finished() {
				return false
			}
			p.result.Head = p.hint
			if p.moved {
				raised = append(raised, Head{Owner: p.owner, Hint: p.hint})
			}
			return true
		})
	}
	if len(raised) > 0 {
		if err := a.hints.RaiseHeads(ctx, raised); err != nil {
			return nil, fmt.Errorf("raise heads: %w", err)
		}
	}
	return results, nil
}

// look takes a look at the inboxes whose next push is not known, and plans their pushes.
func (a *Appender) look(ctx context.Context, work []*pending) error {
	var refs []Ref
	var lookers []*pending
	for _, p := range work {
		if p.next == nil {
			refs = append(refs, Ref{Owner: p.owner, Sequence: p.hint.Sequence})
			lookers = append(lookers, p)
		}
	}
	if len(refs) == 0 {
		return nil
	}
	heads, err := a.store.Heads(ctx, refs)
	if err != nil {
		return fmt.Errorf("look at heads: %w", err)
	}
	for i, p := range lookers {
		head := heads[i]
		if len(head.IDs) == 0 {
			p.planFirst()
			continue
		}
		p.saw(head)
		p.drop(head.IDs)
		if err := a.lookBelow(ctx, p, head); err != nil {
			return err
		}
		p.planOnto(head.Sequence, Extent{Slots: len(head.IDs), Last: head.Last})
	}
	return nil
}

// lookBelow drops those entries that a bucket below the head holds. The head was read before: so all of these
// are full, and what they hold does not change any more.
func (a *Appender) lookBelow(ctx context.Context, p *pending, head Outline) error {
	const stride = 8 // buckets a query: a late message is rarely older than a few buckets
	floor, sequence := head.Floor, head.Sequence
	for len(p.entries) > 0 && sequence > 0 && !floor.Less(p.entries[0].ID) {
		low := sequence - min(sequence, stride)
		below, err := a.store.Range(ctx, p.owner, low, sequence-1, stride)
		if err != nil {
			return fmt.Errorf("look below bucket %d of %s: %w", sequence, p.owner, err)
		}
		if len(below) != int(sequence-low) {
			return fmt.Errorf("inbox of %s: %d of the buckets %d to %d are missing", p.owner, int(sequence-low)-len(below), low, sequence-1)
		}
		for _, b := range below {
			p.drop(b.Outline().IDs)
			floor, sequence = b.Floor, b.Sequence
			if len(p.entries) == 0 || floor.Less(p.entries[0].ID) {
				return nil
			}
		}
	}
	return nil
}

// push carries out the pushes that are planned, and plans what follows from their outcomes.
func (a *Appender) push(ctx context.Context, work []*pending) error {
	pushes := make([]Push, 0, len(work))
	pushers := make([]*pending, 0, len(work))
	for _, p := range work {
		if p.next != nil && len(p.entries) > 0 {
			pushes = append(pushes, *p.next)
			pushers = append(pushers, p)
		}
	}
	if len(pushes) == 0 {
		return nil
	}
	outcomes, err := a.store.Push(ctx, pushes)
	if err != nil {
		return fmt.Errorf("push: %w", err)
	}
	for i, p := range pushers {
		switch {
		case outcomes[i].Err != nil:
			p.result.Err = outcomes[i].Err
		case outcomes[i].Applied:
			p.pushed()
		default:
			p.refused(outcomes[i].Seen)
		}
	}
	return nil
}
