package rehydrate

import (
	"context"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// reapPage is how many rehydrations one reading takes over. It is added to the number of those that wait here already.
const reapPage = 256

// reap takes over abandoned rehydrations every Options.ReapEvery until intake ends.
func (s *Service) reap(intake, work context.Context) {
	tick := time.NewTicker(s.opts.ReapEvery)
	defer tick.Stop()
	now := s.opts.Now()
	if s.opts.Alone {
		now = farFuture // every lease belongs to an earlier process, which has ended
	}
	for {
		err := s.Reap(work, now)
		s.panics.Record(err, func(line *zerolog.Event) *zerolog.Event { return line })
		if err != nil && work.Err() == nil {
			s.opts.Logger.Error().Err(err).Msg("looking for abandoned rehydrations failed: it is tried again")
		}
		s.warnIfLate()
		select {
		case <-intake.Done():
			return
		case <-tick.C:
		}
		now = s.opts.Now()
	}
}

// dead returns which leases are dead now.
func (s *Service) dead() userstate.Dead { return s.opts.Rules().Dead(s.opts.Now()) }

// farFuture is later than the end of every lease.
var farFuture = time.UnixMilli(1 << 47).UTC()

// Reap takes over rehydrations whose lease is dead at the given time, as many as the queue has room for. It leaves out a user on
// whom the code panics. Any other panic is an error.
func (s *Service) Reap(ctx context.Context, now time.Time) (err error) {
	defer panics.Catch(&err)
	due, err := s.stores.Users.Due(ctx, s.opts.Rules().Dead(now), s.Load().Waiting+reapPage)
	if err != nil {
		return err
	}
	for _, st := range due {
		if len(s.waiting) == cap(s.waiting) {
			return nil
		}
		switch err := s.takeOver(ctx, st); {
		case panics.Is(err):
			s.recordPanic(err, st.User)
		case err != nil:
			return err
		}
	}
	return nil
}

// takeOver takes over a rehydration whose lease has ended. It does nothing if this process already has the job, or if another process
// was faster.
func (s *Service) takeOver(ctx context.Context, dead userstate.State) (err error) {
	defer panics.Catch(&err)
	now := s.opts.Now()
	ours := strings.HasPrefix(dead.Lease.Token, s.self+"/") && !s.dead().Holds(dead.Lease) // it may not be in the queue yet
	if ours || s.job(dead.User) != nil {
		return nil
	}
	lease := userstate.Lease{Token: s.token(), Until: now.Add(s.opts.Lease)}
	after, err := s.step(ctx, dead, lazy, func(st userstate.State) (userstate.State, error) {
		if st.Lease.Token != dead.Lease.Token {
			return st, nil
		}
		next, _ := st.TakeOver(lease)
		return next, nil
	})
	if err != nil {
		return err
	}
	if s.enqueue(ctx, after, lease.Token) {
		s.opts.Logger.Info().Str("user", string(dead.User)).Time("due_since", after.Lease.Since).
			Msg("taking over a rehydration: its worker made no progress")
	}
	return nil
}

// warnIfLate logs a warning if a rehydration has been due for longer than a lease.
func (s *Service) warnIfLate() {
	load := s.Load()
	if load.Oldest.IsZero() {
		return
	}
	if age := s.opts.Now().Sub(load.Oldest); age > s.opts.Lease {
		s.opts.Logger.Warn().Dur("oldest", age).Int("waiting", load.Waiting).Int("running", load.Running).
			Msg("rehydrations have waited too long: more workers or processes would help")
	}
}
