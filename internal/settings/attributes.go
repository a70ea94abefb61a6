package settings

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/message"
)

// ErrNotDeclared says that an attribute is not declared.
var ErrNotDeclared = errors.New("the attribute is not declared")

// TypeError says that an attribute is declared with another type.
type TypeError struct{ Declared attribute.Declaration }

// Error names the type, and says what to do.
func (e *TypeError) Error() string {
	return fmt.Sprintf("the attribute %s is declared as %s: delete it first, or choose another name", e.Declared.Name, e.Declared.Type)
}

// Attributes returns the declared attributes, in the order of their names.
func (s *Service) Attributes(ctx context.Context) ([]attribute.Declaration, error) {
	if err := s.current.Load(ctx); err != nil {
		return nil, err
	}
	return s.current.Attributes().All(), nil
}

// Attribute returns a declared attribute, or ErrNotDeclared.
func (s *Service) Attribute(ctx context.Context, name string) (attribute.Declaration, error) {
	declared, err := s.Attributes(ctx)
	if err != nil {
		return attribute.Declaration{}, err
	}
	at := slices.IndexFunc(declared, func(d attribute.Declaration) bool { return d.Name == name })
	if at < 0 {
		return attribute.Declaration{}, fmt.Errorf("%s: %w", name, ErrNotDeclared)
	}
	return declared[at], nil
}

// Declare declares an attribute under the next number, and reports whether it was not declared before. It returns a *TypeError if the
// attribute is declared with another type. It returns a *message.InvalidError for a name or type that is not allowed, and if attribute.Max
// are declared. This process uses the declaration when Declare returns, all others within 5 s. Declare is idempotent.
func (s *Service) Declare(ctx context.Context, name string, t attribute.Type) (declared bool, err error) {
	if err := (attribute.Declaration{Name: name, Type: t}).Validate(); err != nil {
		return false, err
	}
	given := 0 // the number that an attempt has written; its answer may have been lost
	err = s.changeAttributes(ctx, func(r *Record) (changed bool, err error) {
		for _, d := range r.Declared {
			switch {
			case d.Name == name && d.Type == t:
				declared = d.Number == given
				return false, nil
			case d.Name == name:
				return false, &TypeError{Declared: d}
			}
		}
		if len(r.Declared) >= attribute.Max {
			return false, &message.InvalidError{Field: "name", Reason: fmt.Sprintf("is one too many: %d attributes are declared, so delete one first", attribute.Max)}
		}
		r.LastDeclared++
		declared, given = true, r.LastDeclared
		r.Declared = append(slices.Clone(r.Declared), attribute.Declaration{Name: name, Type: t, Number: r.LastDeclared})
		return true, nil
	})
	return declared && err == nil, err
}

// Undeclare removes the declaration of an attribute, and reports whether there was one. Its number is never given again. This process uses the change when
// Undeclare returns, all others within 5 s. Undeclare is idempotent.
func (s *Service) Undeclare(ctx context.Context, name string) (removed bool, err error) {
	err = s.changeAttributes(ctx, func(r *Record) (bool, error) {
		left := slices.DeleteFunc(slices.Clone(r.Declared), func(d attribute.Declaration) bool { return d.Name == name })
		changed := len(left) < len(r.Declared)
		removed = removed || changed
		r.Declared = left
		return changed, nil
	})
	return removed && err == nil, err
}

// changeAttributes replaces the record by what change makes of it, and uses it. It begins again if another process was first. If the answer of
// the server was lost, it finds its own change then.
func (s *Service) changeAttributes(ctx context.Context, change func(*Record) (bool, error)) error {
	for {
		record, err := s.current.store.Load(ctx)
		if err != nil {
			return err
		}
		next := record
		changed, err := change(&next)
		if err != nil {
			return err
		}
		if !changed {
			return s.current.adopt(record)
		}
		switch err := s.current.store.Replace(ctx, record, next); {
		case errors.Is(err, ErrChanged):
		case err != nil:
			return err
		default:
			return s.current.Load(ctx)
		}
	}
}
