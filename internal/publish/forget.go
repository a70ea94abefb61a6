package publish

import (
	"context"
	"time"
)

const (
	// forgetEvery is how often expired idempotency keys are removed: they take up room and do nothing else.
	forgetEvery = time.Minute
	// forgetAtOnce is how many are removed at a time, so that publishers do not wait behind a large deletion.
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
