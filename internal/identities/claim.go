package identities

import (
	"context"
	"errors"
	"slices"

	"github.com/fanmail/fanmail/internal/canonical"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
)

// Claim says that an identity is to be a user's.
type Claim struct {
	Identity identity.Identity
	User     message.UserID
}

// Claim gives users identities. It returns a result for each claim, nil if the user has the identity now. The error is identity.ErrTaken if
// another user has it, identity.ErrFull if the user has identity.MaxPerUser others, or a *message.InvalidError for the field user. An
// earlier claim has an identity before a later one. The user need not have been seen.
//
// Claims of different identities by different users share the calls of the store, up to identity.MaxLookup of them.
func (s *Service) Claim(ctx context.Context, claims []Claim) ([]error, error) {
	results := make([]error, len(claims))
	var lines []*line
	for i, c := range claims {
		if results[i] = c.User.Validate("user"); results[i] == nil {
			lines = append(lines, &line{index: i, claim: c})
		}
	}
	for _, wave := range waves(lines) {
		for some := range slices.Chunk(wave, identity.MaxLookup) {
			if err := s.claim(ctx, some); err != nil {
				return nil, err
			}
		}
	}
	for _, l := range lines {
		results[l.index] = l.result
	}
	return results, nil
}

// waves divides lines such that no two of a wave have the identity or the user in common, and those that have are in their order.
func waves(lines []*line) (waves [][]*line) {
	ofIdentity, ofUser := make(map[identity.Identity]int), make(map[message.UserID]int)
	for _, l := range lines {
		n := max(ofIdentity[l.claim.Identity], ofUser[l.claim.User])
		ofIdentity[l.claim.Identity], ofUser[l.claim.User] = n+1, n+1
		if n == len(waves) {
			waves = append(waves, nil)
		}
		waves[n] = append(waves[n], l)
	}
	return waves
}

// line is a claim under way.
type line struct {
	index int // in the claims
	claim Claim
	next  step

	record identity.Record // that the line has inserted or found, and finishes
	list   identity.List   // of the record's user
	dead   map[identity.Number]bool

	result error
}

// step is what a line does next.
type step int

const (
	toInsert step = iota
	toList
	toTidy
	toAdd
	toConfirm
	toWithdraw
	answered
)

// answer ends a line whose record is in force.
func (l *line) answer() {
	l.next = answered
	if l.record.User != l.claim.User {
		l.result = identity.ErrTaken
	}
}

// fail ends a line with an error.
func (l *line) fail(err error) { l.next, l.result = answered, err }

// claim carries out lines of different identities and users, each step together.
func (s *Service) claim(ctx context.Context, lines []*line) error {
	for {
		open := 0
		for _, do := range []struct {
			step step
			call func(context.Context, []*line) error
		}{
			{toInsert, s.insert}, {toList, s.readLists}, {toTidy, s.tidy}, {toAdd, s.add}, {toConfirm, s.confirm}, {toWithdraw, s.withdraw},
		} {
			var some []*line
			for _, l := range lines {
				if l.next == do.step {
					some = append(some, l)
				}
			}
			if len(some) == 0 {
				continue
			}
			open += len(some)
			if err := do.call(ctx, some); err != nil {
				return err
			}
		}
		if open == 0 {
			return nil
		}
	}
}

// insert inserts the records, or finds those that are there.
func (s *Service) insert(ctx context.Context, lines []*line) error {
	records := make([]identity.Record, len(lines))
	now := s.opts.Now()
	for i, l := range lines {
		records[i] = identity.Record{Identity: l.claim.Identity, User: l.claim.User, Form: canonical.Version(l.claim.Identity.Kind), Since: now}
	}
	looked, err := s.store.Insert(ctx, records)
	for i, found := range looked {
		l := lines[i]
		l.record = found.Record
		switch {
		case found.Err != nil:
			l.fail(found.Err)
		case !l.record.Exists(): // it was removed meanwhile: insert again
		case l.record.InForce:
			l.answer()
		default:
			l.next = toList
		}
	}
	return err
}

// readLists reads the lists of the records' users, and decides what they need.
func (s *Service) readLists(ctx context.Context, lines []*line) error {
	users := make([]message.UserID, len(lines))
	for i, l := range lines {
		users[i] = l.record.User
	}
	slices.Sort(users)
	users = slices.Compact(users)
	looked, err := s.store.Lists(ctx, users)
	lists := make(map[message.UserID]identity.LookedList, len(looked))
	for i, found := range looked {
		lists[users[i]] = found
	}
	if err != nil {
		return err
	}
	for _, l := range lines {
		found := lists[l.record.User]
		l.list, l.dead = found.List, nil
		switch {
		case found.Err != nil:
			l.fail(found.Err)
		case slices.ContainsFunc(l.list.Items, func(item identity.Item) bool { return item.Number == l.record.Number }):
			l.next = toConfirm
		case len(l.list.Items) < identity.MaxPerUser:
			l.next = toAdd
		default:
			l.next = toTidy
		}
	}
	return nil
}

// tidy looks for the dead items of full lists. It reads the records after the lists. An item whose record is not in force is not dead: its claim
// was cut short, or is under way, and tidy finishes it. So a list is full only of identities that the user sees and can delete.
func (s *Service) tidy(ctx context.Context, lines []*line) error {
	var ids []identity.Identity
	for _, l := range lines {
		for _, item := range l.list.Items {
			ids = append(ids, item.Identity)
		}
	}
	looked, err := s.records(ctx, ids)
	if err == nil {
		err = s.finishItems(ctx, lines, looked)
	}
	if err != nil {
		return err
	}
	for _, l := range lines {
		l.dead = make(map[identity.Number]bool)
		for _, item := range l.list.Items {
			if found := looked[item.Identity]; found.Err == nil && found.Record.Number != item.Number {
				l.dead[item.Number] = true
			}
		}
		if l.next = toAdd; len(l.dead) == 0 {
			l.next = toWithdraw
		}
	}
	return nil
}

// finishItems puts the records of items in force whose claims are not finished, and corrects what was looked up.
func (s *Service) finishItems(ctx context.Context, lines []*line, looked map[identity.Identity]identity.Looked) error {
	var open []identity.Record
	for _, l := range lines {
		for _, item := range l.list.Items {
			found := looked[item.Identity]
			if r := found.Record; found.Err == nil && r.Number == item.Number && !r.InForce {
				open = append(open, r)
				r.InForce = true
				looked[item.Identity] = identity.Looked{Record: r}
			}
		}
	}
	for some := range slices.Chunk(open, identity.MaxLookup) {
		confirmed, err := s.store.Confirm(ctx, some)
		if err != nil {
			return err
		}
		for i, c := range confirmed {
			looked[some[i].Identity] = c
		}
	}
	return nil
}

// add adds items to lists in place of dead ones. Of several lines for one list, one adds and the others read it again.
func (s *Service) add(ctx context.Context, lines []*line) error {
	var changes []identity.Change
	var adding []*line
	seen := make(map[message.UserID]bool)
	for _, l := range lines {
		l.next = toList
		if seen[l.list.User] {
			continue
		}
		seen[l.list.User] = true
		items := without(l.list.Items, func(item identity.Item) bool { return l.dead[item.Number] })
		items = append(items, identity.Item{Identity: l.record.Identity, Number: l.record.Number})
		changes, adding = append(changes, identity.Change{From: l.list, Items: items}), append(adding, l)
	}
	results, err := s.store.ReplaceLists(ctx, changes)
	for i, result := range results {
		switch {
		case result == nil:
			adding[i].next = toConfirm
		case !errors.Is(result, identity.ErrChanged):
			adding[i].fail(result)
		}
	}
	return err
}

// confirm puts the records in force whose items the lines have seen or added.
func (s *Service) confirm(ctx context.Context, lines []*line) error {
	records := make([]identity.Record, len(lines))
	for i, l := range lines {
		records[i] = l.record
	}
	looked, err := s.store.Confirm(ctx, records)
	for i, found := range looked {
		l := lines[i]
		switch {
		case found.Err != nil:
			l.fail(found.Err)
		case found.Record.Number != l.record.Number:
			l.next = toInsert
		default:
			l.answer()
		}
	}
	return err
}

// withdraw removes the records for which lists have no room, unless another process has put them in force.
func (s *Service) withdraw(ctx context.Context, lines []*line) error {
	for _, l := range lines {
		withdrawn, err := s.store.Withdraw(ctx, l.record)
		switch {
		case err != nil && !errors.Is(err, message.ErrCorrupt):
			return err
		case err != nil:
			l.fail(err)
		case withdrawn && l.record.User == l.claim.User:
			l.fail(identity.ErrFull)
		default:
			l.next = toInsert
		}
	}
	return nil
}
