package buckettest

import (
	"context"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// Op is one operation that passes through a Seam.
type Op struct {
	// Method is the name of the method, such as "Push".
	Method string
	// Pushes are the arguments of Push.
	Pushes []bucket.Push
	// Outcomes are the results of Push. The After hook may overwrite them.
	Outcomes []bucket.Outcome
	// Field is an argument of Range.
	Field bucket.Field
	// Heads are the arguments of Heads and RaiseHeads.
	Heads []bucket.Head
}

// Seam is a store, with hints, that calls a hook before and after every operation. A hook that blocks stalls the caller. If Before
// returns an error, the operation fails without an effect. If After returns an error, the operation has taken effect, and only its
// reply is lost.
type Seam struct {
	Store bucket.Store
	Hints bucket.Hints
	// Before is called before every operation; nil does nothing.
	Before func(ctx context.Context, op *Op) error
	// After is called after every operation that succeeded; nil does nothing.
	After func(ctx context.Context, op *Op) error
}

// through runs an operation between the hooks.
func through[T any](ctx context.Context, s *Seam, op *Op, do func() (T, error)) (T, error) {
	var none T
	if s.Before != nil {
		if err := s.Before(ctx, op); err != nil {
			return none, err
		}
	}
	result, err := do()
	if err != nil {
		return none, err
	}
	if s.After != nil {
		if err := s.After(ctx, op); err != nil {
			return none, err
		}
	}
	return result, nil
}

// Push implements bucket.Store.
func (s *Seam) Push(ctx context.Context, pushes []bucket.Push) ([]bucket.Outcome, error) {
	op := &Op{Method: "Push", Pushes: pushes}
	return through(ctx, s, op, func() (_ []bucket.Outcome, err error) {
		op.Outcomes, err = s.Store.Push(ctx, pushes)
		return op.Outcomes, err
	})
}

// Persist implements bucket.Store.
func (s *Seam) Persist(ctx context.Context) error {
	_, err := through(ctx, s, &Op{Method: "Persist"}, func() (struct{}, error) {
		return struct{}{}, s.Store.Persist(ctx)
	})
	return err
}

// Size implements bucket.Store.
func (s *Seam) Size() bucket.Size { return s.Store.Size() }

// Heads implements bucket.Store.
func (s *Seam) Heads(ctx context.Context, hints []bucket.Head) ([]bucket.Bucket, error) {
	return through(ctx, s, &Op{Method: "Heads", Heads: hints}, func() ([]bucket.Bucket, error) {
		return s.Store.Heads(ctx, hints)
	})
}

// Range implements bucket.Store.
func (s *Seam) Range(ctx context.Context, sections []bucket.Section, field bucket.Field) ([][]bucket.Bucket, error) {
	return through(ctx, s, &Op{Method: "Range", Field: field}, func() ([][]bucket.Bucket, error) {
		return s.Store.Range(ctx, sections, field)
	})
}

// Delete implements bucket.Store.
func (s *Seam) Delete(ctx context.Context, owner message.UserID, sequence uint32, id message.ID) error {
	_, err := through(ctx, s, &Op{Method: "Delete"}, func() (struct{}, error) {
		return struct{}{}, s.Store.Delete(ctx, owner, sequence, id)
	})
	return err
}

// Blank implements bucket.Store.
func (s *Seam) Blank(ctx context.Context, owner message.UserID, sequence uint32, slot int, id message.ID) error {
	_, err := through(ctx, s, &Op{Method: "Blank"}, func() (struct{}, error) {
		return struct{}{}, s.Store.Blank(ctx, owner, sequence, slot, id)
	})
	return err
}

// Newest implements bucket.Store.
func (s *Seam) Newest(
	ctx context.Context, owner message.UserID, low uint32, limit int, from uint32,
) (buckets []bucket.Bucket, d bucket.Deletions, err error) {
	buckets, err = through(ctx, s, &Op{Method: "Newest"}, func() (found []bucket.Bucket, err error) {
		found, d, err = s.Store.Newest(ctx, owner, low, limit, from)
		return found, err
	})
	return buckets, d, err
}

// Empty implements bucket.Store.
func (s *Seam) Empty(ctx context.Context, owner message.UserID, low, high uint32, purged message.ID) (bucket.Emptied, error) {
	return through(ctx, s, &Op{Method: "Empty"}, func() (bucket.Emptied, error) {
		return s.Store.Empty(ctx, owner, low, high, purged)
	})
}

// Deletions implements bucket.Store.
func (s *Seam) Deletions(ctx context.Context, from []bucket.Head) ([]bucket.Deletions, error) {
	return through(ctx, s, &Op{Method: "Deletions"}, func() ([]bucket.Deletions, error) {
		return s.Store.Deletions(ctx, from)
	})
}

// RaiseHeads implements bucket.Hints.
func (s *Seam) RaiseHeads(ctx context.Context, heads []bucket.Head) error {
	_, err := through(ctx, s, &Op{Method: "RaiseHeads", Heads: heads}, func() (struct{}, error) {
		return struct{}{}, s.Hints.RaiseHeads(ctx, heads)
	})
	return err
}
