package bucket

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/message"
)

// maxRefused bounds how many pushes of one Append the store may refuse. Each refusal means that another writer has appended to
// the inbox, or that the store did not say whether the push was applied.
const maxRefused = 64

// Append names entries that have to be in one owner's inbox.
type Append struct {
	Owner message.UserID
	// Hint is a hint for the owner's head. It may be behind the head.
	Hint Hint
	// Entries are ascending by id. The Appender appends each as Entry.For says. One that occurs twice is appended once. A tombstone is the only entry of its Append.
	Entries []Entry
}

// Appended is the result of an Append. If Err is nil, each of the ids is in the inbox exactly once, as an entry or as a tombstone.
type Appended struct {
	// New counts the entries that this call is known to have appended. The inbox held the others before.
	New int
	// Head is the hint for the next Append to this inbox. It is never behind the hint that the caller passed.
	Head Hint
	// Err wraps ErrTooLarge or ErrNotAlone if the append can never succeed, ErrContended if the Appender gave up, and
	// message.ErrCorrupt if the inbox is damaged. Otherwise it is nil.
	Err error
}

// Appender appends messages to inboxes, each exactly once. Callers may repeat an append, in any process and in any order. The
// package comment explains the protocol. An Appender is safe for concurrent use.
type Appender struct {
	store  Store
	hints  Hints
	opened func(message.UserID) // nil if no caller asks for it
	// declared and load are those of WithDeclarations.
	declared func() attribute.Set
	load     func(context.Context) error
}

// NewAppender returns an Appender on a store. It raises a hint when it sees that a head is further than the hint said.
func NewAppender(store Store, hints Hints) *Appender {
	return &Appender{
		store: store, hints: hints,
		declared: func() attribute.Set { return attribute.Set{} }, load: func(context.Context) error { return nil },
	}
}

// WithOpened returns an Appender like a, which calls opened when it has created a bucket above bucket 0, with the owner. So a caller learns
// that an inbox has grown. A call may be missing after an error. There is one too many if another writer has created the bucket since the
// hint was right. Opened is called by many goroutines, and must not block.
func (a *Appender) WithOpened(opened func(owner message.UserID)) *Appender {
	with := *a
	with.opened = opened
	return &with
}

// WithDeclarations returns an Appender like a, for a store with an Index. Declared returns the declarations that this process knows, and load makes
// it know at least those that were durable when load was called. The Appender calls load if a bucket has a Decl above what declared says.
// Appenders with different knowledge can share a store.
func (a *Appender) WithDeclarations(declared func() attribute.Set, load func(context.Context) error) *Appender {
	with := *a
	with.declared, with.load = declared, load
	return &with
}

// Append makes sure that every entry is in its owner's inbox, and returns the results in the order of appends. No two appends
// may have the same owner. It fails if the store fails or ctx ends; a damaged inbox fails only its own result. After an error any entry may be appended or not, and the
// caller may call Append again. It is idempotent. After Append has returned without an error, the entries survive a crash.
//
// It usually costs one call of Store.Push for all owners together.
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

// AppendLazily is Append without durability: a crash may lose entries. Such a crash also loses every write to the same database
// that began after AppendLazily had returned. Use it if a durable record of the append follows, and the caller repeats every
// append that has no record. The record then makes both durable with one sync.
func (a *Appender) AppendLazily(ctx context.Context, appends []Append) ([]Appended, error) {
	results := make([]Appended, len(appends))
	work := make([]*pending, 0, len(appends))
	known := &knowledge{declared: a.declared()}
	for i := range appends {
		if err := a.learn(ctx, known, appends[i].Hint.Decl); err != nil && !errors.Is(err, message.ErrCorrupt) { // then a look says what is damaged
			return nil, err
		}
	}
	all := make([]pending, len(appends))
	for i := range appends {
		results[i].Head = appends[i].Hint
		if len(appends[i].Entries) > 0 {
			all[i].begin(&appends[i], &results[i], a.store.Size(), known)
			work = append(work, &all[i])
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

// look reads the inboxes for which no push is planned, and plans their pushes.
func (a *Appender) look(ctx context.Context, work []*pending) error {
	var lookers []*pending
	for _, p := range work {
		if p.next == nil {
			lookers = append(lookers, p)
		}
	}
	return apart(lookers, func(some []*pending) error { return a.lookTogether(ctx, some) })
}

// lookTogether is look for inboxes whose heads it reads by one call.
func (a *Appender) lookTogether(ctx context.Context, lookers []*pending) error {
	hints := make([]Head, len(lookers))
	for i, p := range lookers {
		hints[i] = Head{Owner: p.owner, Hint: p.hint}
	}
	heads, err := a.store.Heads(ctx, hints)
	if err != nil {
		return fmt.Errorf("look at heads: %w", err)
	}
	for i, p := range lookers {
		head := heads[i]
		if head.Slots == 0 {
			p.planFirst()
			continue
		}
		p.saw(head.Outline)
		p.drop(head)
		if err := a.lookBelow(ctx, p, head); err != nil {
			if errors.Is(err, message.ErrCorrupt) {
				p.result.Err = err
				continue
			}
			return err
		}
		p.planOnto(head.Outline)
	}
	return nil
}

// damageable is the work on one inbox, which keeps the error if the inbox is damaged.
type damageable interface{ damaged(err error) }

// apart calls do with all of work. If do fails because of a damaged record, apart calls it with each half, until only the owners with
// damaged records are left. It gives the error to these.
func apart[W damageable](work []W, do func([]W) error) error {
	if len(work) == 0 {
		return nil
	}
	err := do(work)
	if !errors.Is(err, message.ErrCorrupt) {
		return err
	}
	if len(work) == 1 {
		work[0].damaged(err)
		return nil
	}
	half := len(work) / 2
	if err := apart(work[:half], do); err != nil {
		return err
	}
	return apart(work[half:], do)
}

// lookBelow learns the declarations of the head, and drops the entries that a bucket below the head holds. The head was read before, so all these buckets are full and do
// not change any more, but that they may be emptied. All that the buckets below a stub held counts as found: it is at or below the last of the
// stub.
func (a *Appender) lookBelow(ctx context.Context, p *pending, head Bucket) error {
	const stride = 8 // buckets a query: a late message is rarely older than a few buckets
	if err := a.learn(ctx, p.known, head.Decl); err != nil {
		return err
	}
	floor, sequence := head.Floor, head.Sequence
	for !head.Stub && len(p.entries) > 0 && sequence > 0 && !floor.Less(p.entries[0].ID) {
		low := sequence - min(sequence, stride)
		below, err := ReadSection(ctx, a.store, Section{Owner: p.owner, Low: low, High: sequence - 1}, NoFields)
		if err != nil {
			return fmt.Errorf("look below bucket %d of %s: %w", sequence, p.owner, err)
		}
		for _, b := range below {
			if b.Sequence+1 < sequence {
				break
			}
			p.drop(b)
			floor, sequence = b.Floor, b.Sequence
			if b.Stub || len(p.entries) == 0 || floor.Less(p.entries[0].ID) {
				return nil
			}
		}
		if sequence > low {
			return lost(p.owner, sequence-1)
		}
	}
	return nil
}

// push carries out the planned pushes, and plans the next step from their outcomes.
func (a *Appender) push(ctx context.Context, work []*pending) error {
	pushers := make([]*pending, 0, len(work))
	for _, p := range work {
		if p.next != nil && len(p.entries) > 0 {
			pushers = append(pushers, p)
		}
	}
	// A push that is repeated after damage elsewhere may have been applied before. Then the store refuses it, and the Appender looks.
	return apart(pushers, func(pushers []*pending) error {
		pushes := make([]Push, len(pushers))
		for i, p := range pushers {
			pushes[i] = *p.next
			pushes[i].Facets = p.known.facets(p.next)
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
				opened := p.next.Create
				p.pushed()
				if opened && a.opened != nil {
					a.opened(p.owner)
				}
			default:
				p.refused(outcomes[i].Seen)
			}
		}
		return nil
	})
}
