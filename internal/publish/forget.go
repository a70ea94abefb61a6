package publish

import (
	"context"
	"time"
)

const (
	// forgetEvery is the time between removals of expired idempotency keys. Expired keys only take room.
	forgetEvery = time.Minute
	// forgetAtOnce is how many keys one deletion removes. It is small, so that publishers do not wait for a large deletion.
	forgetAtOnce = 1000
)

// ForgetKeys removes idempotency keys as they expire, until intake ends.
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
				s.opts.Logger.Error().Err(err).Msg("removing expired idempotency keys failed: it is tried again")
			}
		}
	}
}
