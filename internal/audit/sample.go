package audit

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/fanmail/fanmail/pkg/message"
)

// usersPage is how many user states are read at a time.
const usersPage = 1000

// walk calls do with one user after the other, until do returns an error.
type walk func(ctx context.Context, do func(message.UserID) error) error

// choose returns a walk over the users that a request selects, and their number.
func (s *Service) choose(ctx context.Context, request Request, count *int64) (walk, error) {
	switch {
	case request.User != "":
		*count = 1
		return these(request.User), nil
	case request.Sample > 0:
		sample, err := s.sample(ctx, request.Sample)
		*count = int64(len(sample))
		return these(sample...), err
	default:
		return s.allUsers, s.allUsers(ctx, func(message.UserID) error { *count++; return nil })
	}
}

func these(users ...message.UserID) walk {
	return func(_ context.Context, do func(message.UserID) error) error {
		for _, user := range users {
			if err := do(user); err != nil {
				return err
			}
		}
		return nil
	}
}

// allUsers walks over all users who were seen, partition by partition.
func (s *Service) allUsers(ctx context.Context, do func(message.UserID) error) error {
	for p := range s.opts.Partitions {
		for after := message.UserID(""); ; {
			users, err := s.stores.Users.List(ctx, p, after, usersPage)
			if err != nil {
				return fmt.Errorf("users of partition %d: %w", p, err)
			}
			for _, l := range users {
				if l.Err == nil && !l.State.Known() { // such a record has only a retention
					continue
				}
				if err := do(l.State.User); err != nil {
					return err
				}
			}
			if len(users) < usersPage {
				break
			}
			after = users[len(users)-1].State.User
		}
	}
	return nil
}

// sample returns n of all users, or all if there are fewer. Each set of n is as likely as any other (reservoir sampling,
// algorithm R of Vitter, 1985). It reads each user once, and keeps only the sample in memory.
func (s *Service) sample(ctx context.Context, n int) ([]message.UserID, error) {
	var seed [32]byte
	if _, err := io.ReadFull(s.opts.Random, seed[:]); err != nil {
		return nil, fmt.Errorf("seed of the sample: %w", err)
	}
	random := rand.New(rand.NewChaCha8(seed)) //nolint:gosec // seeded by what is random; nothing is kept secret by it
	var sample []message.UserID
	seen := 0
	err := s.allUsers(ctx, func(user message.UserID) error {
		if seen++; len(sample) < n {
			sample = append(sample, user)
		} else if i := random.IntN(seen); i < n {
			sample[i] = user
		}
		return nil
	})
	return sample, err
}
