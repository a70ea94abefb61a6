package deadletter

import (
	"context"
	"errors"

	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// expirePage is how many letters Expire reads at a time.
const expirePage = 100

// Expire drops the dead letters of tasks and published events whose message has expired for every user: its id is at or below the low-water
// mark. It drops those of damaged users when all that they missed lies below it. It returns how many. It does nothing if the mark is zero.
// All other letters stay, because they stand for no message that has expired.
//
// It also leaves a letter whose scan is open. The scan was redriven by another letter, or the worker that filed this one has still to mark it
// as dead. A later call finds it dead or done. So each scan that is dead keeps a letter.
//
// Expire returns ErrBus or an error of the store. It is idempotent, and may run in several processes.
func (s *Service) Expire(ctx context.Context, lowWater message.ID) (expired int, err error) {
	if lowWater.IsZero() {
		return 0, nil
	}
	for after := uint64(0); ; {
		page, err := s.List(ctx, after, expirePage)
		if err != nil {
			return expired, err
		}
		for _, filed := range page {
			after = filed.ID
			gone, err := s.expire(ctx, filed, lowWater)
			if err != nil {
				return expired, err
			}
			if gone {
				expired++
			}
		}
		if len(page) < expirePage {
			return expired, nil
		}
	}
}

// expire drops a letter if its message has expired, and reports whether it did.
func (s *Service) expire(ctx context.Context, filed event.Filed, lowWater message.ID) (bool, error) {
	if filed.Reason == event.ReasonDamaged {
		d, err := event.DecodeDamaged(filed.Payload)
		if err != nil || d.Until.After(lowWater.Time()) {
			return false, nil //nolint:nilerr // it names no time
		}
		if err := s.Bus.Drop(ctx, filed.ID); err != nil {
			return false, ofBus(err)
		}
		s.log(filed).Str("user", string(d.User)).Time("since", d.Since).Msg("dead letter has expired with all that a damaged user missed")
		return true, nil
	}
	task, err := event.DecodeTask(filed.Payload)
	isTask := err == nil
	ref := task.Ref()
	if !isTask {
		published, err := event.DecodePublished(filed.Payload)
		if err != nil {
			return false, nil //nolint:nilerr // it names no message
		}
		ref = published.Ref()
	}
	if lowWater.Less(ref.ID) {
		return false, nil
	}
	if isTask {
		open, err := s.giveUp(ctx, task)
		switch {
		case errors.Is(err, message.ErrCorrupt):
			s.opts.Logger.Warn().Err(err).Uint64("dead_letter_id", filed.ID).Str("subject", filed.Subject).Stringer("message_id", ref.ID).
				Msg("a dead letter cannot expire: the record of its fan-out is damaged")
			return false, nil
		case err != nil || open:
			return false, err
		}
	}
	if err := s.Bus.Drop(ctx, filed.ID); err != nil {
		return false, ofBus(err)
	}
	s.log(filed).Stringer("message_id", ref.ID).Str("from", string(ref.From)).Msg("dead letter has expired with its message")
	return true, nil
}
