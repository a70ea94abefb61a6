package publish

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/pkg/message"
)

// maxKeyBytes bounds an idempotency key. UUIDs and hashes fit; it need not hold more.
const maxKeyBytes = 255

// reserveConcurrency is how many keys of a call are reserved at the same time, so that they share the store's commits.
const reserveConcurrency = 64

// reserveAll reserves the idempotency keys of attempts, and returns those whose messages are still to be stored.
func (s *Service) reserveAll(ctx context.Context, attempts []*attempt) []*attempt {
	var group errgroup.Group
	group.SetLimit(reserveConcurrency)
	for _, a := range attempts {
		if a.requested != "" {
			group.Go(func() error {
				a.stored, a.result.Err = s.reserve(ctx, a)
				return nil
			})
		}
	}
	_ = group.Wait() // each result has its own error
	return slices.DeleteFunc(attempts, func(a *attempt) bool { return a.stored || a.result.Err != nil })
}

// reserve finds out under which id a request with an idempotency key is, or is going to be, stored. It tells whether
// it is stored already.
func (s *Service) reserve(ctx context.Context, a *attempt) (stored bool, err error) {
	if len(a.requested) > maxKeyBytes {
		return false, &message.InvalidError{Field: "Idempotency-Key", Reason: "is longer than 255 bytes"}
	}
	now := s.opts.Now()
	m := a.result.Message
	wanted := message.Key{From: m.From, Key: a.requested, ID: m.ID, Digest: m.Digest(), Expires: now.Add(s.opts.KeyTTL)}
	a.key, err = s.keys.Reserve(ctx, wanted, now)
	if err != nil {
		return false, err
	}
	if a.key.Digest != wanted.Digest {
		return false, message.ErrKeyReused
	}
	return s.find(ctx, a)
}

// find looks whether the message that the attempt's key is reserved for is stored. If it is not, the one who reserved
// the key has crashed or is still at it; in either case the same message may be stored under the same id by
// whoever comes, unless that id is so old by now that the message would be void.
func (s *Service) find(ctx context.Context, a *attempt) (stored bool, err error) {
	m := &a.result.Message
	if m.ID == a.key.ID {
		return false, nil
	}
	m.ID = a.key.ID
	switch got, err := s.messages.Get(ctx, m.Ref()); {
	case errors.Is(err, message.ErrNotFound):
		if s.opts.Now().Sub(m.Sent()) < s.opts.Slack {
			return false, nil
		}
	case err != nil:
		return false, err
	case !got.Void(s.opts.Slack):
		return true, nil
	}
	id, err := s.ids.Next()
	if err != nil {
		return false, err
	}
	if err := s.rekey(ctx, a, id); err != nil {
		return false, err
	}
	// Somebody else may have been first to replace the reservation, and may have stored the message since.
	switch got, err := s.messages.Get(ctx, m.Ref()); {
	case errors.Is(err, message.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	default:
		return !got.Void(s.opts.Slack), nil
	}
}

// rekey replaces the id that the attempt's key reserves by a new one, or adopts what somebody else has replaced it by.
func (s *Service) rekey(ctx context.Context, a *attempt, id message.ID) error {
	switch err := s.keys.Replace(ctx, a.key, id); {
	case errors.Is(err, message.ErrKeyChanged):
		held, err := s.keys.Reserve(ctx, a.key, s.opts.Now())
		if err != nil {
			return err
		}
		a.key = held
	case err != nil:
		return err
	default:
		a.key.ID = id
	}
	a.result.Message.ID = a.key.ID
	return nil
}
