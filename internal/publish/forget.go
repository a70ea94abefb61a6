package publish

import (
	"context"
	"time"
)

const (
	// forgetEvery is the time between removals of expired idempotency keys. An expired key has no effect, it only takes room.
	forgetEvery = time.Minute
	// forgetAtOnce is the largest number of keys that one deletion removes. It is small, so that publishers do not wait for a large deletion.
	forgetAtOnce = 1000
)

// ForgetKeys removes expired idempotency keys every minute until intake ends. It logs an error of the store and tries again.
func (s *Service) ForgetKeys(intake, work context.Context) {
	ticker := time.NewTicker(forgetEvery)
	defer ticker.Stop()
	for {
		select {
		case <-intake.Done():
			return
		case <-ticker.C:
		}
		for n := forgetAtOnce; n == forgetAtOnce && intake.Err() == nil; {
			var err error
			if n, err = s.keys.Forget(work, s.opts.Now(), forgetAtOnce); err != nil {
				s.opts.Logger.Error().Err(err).Msg("cannot remove expired idempotency keys: trying again in a minute")
			}
		}
	}
}
