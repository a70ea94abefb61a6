package publish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/identities"
	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
)

// canonical returns the identities of a draft in canonical form. A *message.InvalidError names the place in to.
func (s *Service) canonical(d message.Draft) ([]identity.Identity, error) {
	if len(d.ToIdentities) == 0 {
		return nil, nil
	}
	ids := make([]identity.Identity, len(d.ToIdentities))
	for i, given := range d.ToIdentities {
		var err error
		if ids[i], err = s.opts.Identities.Identity(given.Kind, given.Value); err != nil {
			if invalid, ok := errors.AsType[*message.InvalidError](err); ok {
				err = &message.InvalidError{Field: fieldOf(d, i), Reason: "names an identity whose " + invalid.Error()}
			}
			return nil, err
		}
	}
	return ids, nil
}

// keys returns the stored names of identities.
func keys(ids []identity.Identity) []string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = id.Key()
	}
	return names
}

// fieldOf returns the name of the i-th identity of a draft: in to, identities come after the users.
func fieldOf(d message.Draft, i int) string { return "to[" + strconv.Itoa(len(d.To)+i) + "]" }

// resolveFresh resolves the attempts whose keys are new: it checks their topics and attributes, and finds the users of their identities. It
// runs before any key is reserved, so a refused request reserves no key. The client can send it again with another topic, identity or
// attribute. resolveFresh returns the attempts without an error.
func (s *Service) resolveFresh(ctx context.Context, attempts []*attempt) []*attempt {
	reserved := make([]bool, len(attempts))
	var group errgroup.Group
	group.SetLimit(reserveConcurrency)
	for i, a := range attempts {
		if a.request.Key != "" && a.conditional() {
			group.Go(func() error {
				a.result.Err = panics.Do(func() (err error) {
					_, reserved[i], err = s.keys.Find(ctx, a.result.Message.From, a.request.reservation(), s.opts.Now())
					return err
				})
				return nil
			})
		}
	}
	_ = group.Wait() // each result has its own error
	var fresh []*attempt
	for i, a := range attempts {
		if !reserved[i] && a.result.Err == nil {
			fresh = append(fresh, a)
		}
	}
	s.resolveNow(ctx, fresh)
	return slices.DeleteFunc(attempts, func(a *attempt) bool { return a.result.Err != nil })
}

// conditional reports whether identities, topics or attributes decide about the attempt. A new message can then be refused, or go to other
// users than before. A repeated one still has its receipt.
func (a *attempt) conditional() bool {
	return len(a.identities)+len(a.result.Message.Topics) > 0 || a.refused != nil
}

// resolveNow checks the attributes and topics of attempts, and finds the users of their identities.
func (s *Service) resolveNow(ctx context.Context, attempts []*attempt) {
	allowed := make([]*attempt, 0, len(attempts))
	for _, a := range attempts {
		a.resolved = true
		if a.result.Err = a.refused; a.refused == nil {
			allowed = append(allowed, a)
		}
	}
	s.address(ctx, s.checkTopics(ctx, allowed))
}

// resolve resolves the attempts that resolveFresh has left. If an earlier request has reserved the key, and the message of that request is
// stored, the attempt gets this message. A later change of an identity or a topic has no effect on it. resolve returns the attempts without
// an error.
func (s *Service) resolve(ctx context.Context, attempts []*attempt) []*attempt {
	adopted := s.adopt(ctx, attempts)
	s.resolveNow(ctx, slices.DeleteFunc(slices.Clone(attempts), func(a *attempt) bool { return a.resolved || adopted[a] || a.result.Err != nil }))
	return slices.DeleteFunc(attempts, func(a *attempt) bool { return a.result.Err != nil })
}

// adopt gives each attempt the stored message of an earlier request with the same key. It returns the attempts that got one.
func (s *Service) adopt(ctx context.Context, attempts []*attempt) map[*attempt]bool {
	adopted := make(map[*attempt]bool)
	var repeated []*attempt
	var refs []message.Ref
	for _, a := range attempts {
		if a.repeated && a.conditional() {
			repeated, refs = append(repeated, a), append(refs, a.result.Message.Ref())
		}
	}
	if len(refs) == 0 {
		return adopted
	}
	found, err := s.messages.GetMany(ctx, refs)
	for i, a := range repeated {
		failure := err
		if failure == nil {
			failure = found[i].Err
		}
		switch {
		case failure == nil:
			a.result.Message, adopted[a] = found[i].Stored.Message, true
		case !errors.Is(failure, message.ErrNotFound):
			a.result.Err = fmt.Errorf("publish: %w", failure)
		}
	}
	return adopted
}

// address adds to the messages of attempts the users who have their identities now.
func (s *Service) address(ctx context.Context, attempts []*attempt) {
	owners, err := s.lookup(ctx, attempts)
	for _, a := range attempts {
		switch {
		case len(a.identities) == 0:
		case err != nil:
			a.result.Err = fmt.Errorf("publish: %w", err)
		default:
			a.result.Err = a.address(owners)
		}
	}
}

// lookup returns the owners of the identities of attempts, as far as the attempts may address them.
func (s *Service) lookup(ctx context.Context, attempts []*attempt) (map[identity.Identity]identities.Owner, error) {
	owners := make(map[identity.Identity]identities.Owner)
	var ids []identity.Identity
	for _, a := range attempts {
		for _, id := range a.identities {
			if a.mayAddress(id) {
				ids = append(ids, id)
			}
		}
	}
	if len(ids) == 0 {
		return owners, nil
	}
	found, err := s.opts.Identities.Lookup(ctx, ids)
	for i, owner := range found {
		owners[ids[i]] = owner
	}
	return owners, err
}

// address adds to the message the users who have its identities. To a client that may not address a kind, no user has an identity of it.
func (a *attempt) address(owners map[identity.Identity]identities.Owner) error {
	m := &a.result.Message
	to := slices.Clone(m.To)
	for i, id := range a.identities {
		owner := owners[id]
		switch {
		case !a.mayAddress(id), errors.Is(owner.Err, identity.ErrNotFound):
			return &message.InvalidError{Field: fieldOf(a.request.Draft, i), Reason: "is " + id.String() + " that no user has"}
		case owner.Err != nil:
			return fmt.Errorf("publish: %w", owner.Err)
		}
		to = append(to, owner.User)
	}
	slices.Sort(to)
	m.To = slices.Compact(to)
	return nil
}

func (a *attempt) mayAddress(id identity.Identity) bool {
	return a.request.MayAddress != nil && a.request.MayAddress(string(id.Kind))
}
