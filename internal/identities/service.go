package identities

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fanmail/fanmail/internal/canonical"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
)

// Options configures a Service. Now is required.
type Options struct {
	// Further are the kinds beside those that always exist.
	Further []identity.Kind
	Now     func() time.Time
}

// Service gives users identities, and finds users by them. It is safe for concurrent use, in any number of processes.
//
// The errors of all methods but Identity wrap message.ErrUnavailable if the store cannot be reached, and message.ErrCorrupt if a record is
// damaged. After such an error of a method that changes something, the change may have happened. Every method that changes something is
// idempotent, and a crash loses nothing that it has answered.
type Service struct {
	store identity.Store
	forms canonical.Forms
	opts  Options
}

// New returns a service on a store.
func New(store identity.Store, opts Options) *Service {
	return &Service{store: store, forms: canonical.New(opts.Further), opts: opts}
}

// Identity returns the identity of a kind and a value in any form. It returns a *message.InvalidError for the field kind or value. Its reason
// has neither, because errors end in logs.
func (s *Service) Identity(kind, value string) (identity.Identity, error) {
	return s.forms.Identity(kind, value)
}

// Owner is the user who has an identity, or identity.ErrNotFound, or an error that concerns only this identity.
type Owner struct {
	User message.UserID
	Err  error
}

// Get returns the user who has an identity, or identity.ErrNotFound.
func (s *Service) Get(ctx context.Context, id identity.Identity) (message.UserID, error) {
	owners, err := s.Lookup(ctx, []identity.Identity{id})
	if err != nil {
		return "", err
	}
	return owners[0].User, owners[0].Err
}

// Lookup returns the users who have some identities, in their order. It calls the store once for each identity.MaxLookup different ones.
func (s *Service) Lookup(ctx context.Context, ids []identity.Identity) ([]Owner, error) {
	looked, err := s.records(ctx, ids)
	if err != nil {
		return nil, err
	}
	owners := make([]Owner, len(ids))
	for i, id := range ids {
		switch found := looked[id]; {
		case found.Err != nil:
			owners[i].Err = found.Err
		case !found.Record.InForce:
			owners[i].Err = identity.ErrNotFound
		default:
			owners[i].User = found.Record.User
		}
	}
	return owners, nil
}

// records returns the records of identities.
func (s *Service) records(ctx context.Context, ids []identity.Identity) (map[identity.Identity]identity.Looked, error) {
	found := make(map[identity.Identity]identity.Looked, len(ids))
	var different []identity.Identity
	for _, id := range ids {
		if _, seen := found[id]; !seen {
			found[id] = identity.Looked{}
			different = append(different, id)
		}
	}
	for some := range slices.Chunk(different, identity.MaxLookup) {
		looked, err := s.store.Lookup(ctx, some)
		if err != nil {
			return nil, err
		}
		for i, l := range looked {
			found[some[i]] = l
		}
	}
	return found, nil
}

// List returns the identities of a user, in the order in which they were claimed. It reads the records after the list, so that it leaves out
// whatever has gone meanwhile.
func (s *Service) List(ctx context.Context, user message.UserID) ([]identity.Identity, error) {
	list, err := s.list(ctx, user)
	if err != nil {
		return nil, err
	}
	ids := make([]identity.Identity, len(list.Items))
	for i, item := range list.Items {
		ids[i] = item.Identity
	}
	looked, err := s.records(ctx, ids)
	if err != nil {
		return nil, err
	}
	var theirs []identity.Identity
	for _, item := range list.Items {
		found := looked[item.Identity]
		if found.Err != nil {
			return nil, fmt.Errorf("identities of %s: %w", user, found.Err)
		}
		if found.Record.InForce && found.Record.Number == item.Number {
			theirs = append(theirs, item.Identity)
		}
	}
	return theirs, nil
}

// list returns the list of a user.
func (s *Service) list(ctx context.Context, user message.UserID) (identity.List, error) {
	lists, err := s.store.Lists(ctx, []message.UserID{user})
	if err != nil {
		return identity.List{}, err
	}
	return lists[0].List, lists[0].Err
}

// Delete takes an identity away from a user, or from any user if user is "". If another user has it, or no user, Delete does nothing.
func (s *Service) Delete(ctx context.Context, id identity.Identity, user message.UserID) error {
	looked, err := s.store.Lookup(ctx, []identity.Identity{id})
	if err != nil {
		return err
	}
	r := looked[0].Record
	switch {
	case looked[0].Err != nil:
		return looked[0].Err
	case !r.Exists(), user != "" && user != r.User:
		return s.store.Remove(ctx, identity.Record{Identity: id}) // makes durable what was found
	}
	if err := s.store.Remove(ctx, r); err != nil {
		return err
	}
	return s.drop(ctx, r)
}

// drop removes the item of a record that was removed. The number is never used again, so the item is dead for good.
func (s *Service) drop(ctx context.Context, r identity.Record) error {
	for {
		list, err := s.list(ctx, r.User)
		if err != nil {
			return err
		}
		left := without(list.Items, func(item identity.Item) bool { return item.Number == r.Number })
		if len(left) == len(list.Items) {
			return nil
		}
		results, err := s.store.ReplaceLists(ctx, []identity.Change{{From: list, Items: left}})
		if err == nil {
			err = results[0]
		}
		if err != identity.ErrChanged { //nolint:errorlint // the store returns it as it is
			return err
		}
	}
}

// without returns the items that do not match.
func without(items []identity.Item, matches func(identity.Item) bool) []identity.Item {
	return slices.DeleteFunc(slices.Clone(items), matches)
}
