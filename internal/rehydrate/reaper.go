package rehydrate

import (
	"context"
	"strings"
	"time"

	"github.com/fanmail/fanmail/pkg/userstate"
)

// reapPage is how many rehydrations the reaper takes over at a time, besides those that are waiting here already.
const reapPage = 256

// reap takes over what nobody is at, now and then until intake ends.
func (s *Service) reap(intake, work context.Context) {
	tick := time.NewTicker(s.opts.ReapEvery)
	defer tick.Stop()
	dead := s.opts.Now()
	if s.opts.Alone {
		dead = forever // whoever holds a lease has died with the process before this one
	}
	for {
		if err := s.Reap(work, dead); err != nil && work.Err() == nil {
			s.opts.Logger.Error().Err(err).Msg("rehydrations that nobody is at cannot be looked for")
		}
		s.warn()
		select {
		case <-intake.Done():
			return
		case <-tick.C:
		}
		dead = s.opts.Now()
	}
}

// forever is after the end of every lease.
var forever = time.UnixMilli(1 << 47).UTC()

// Reap takes over rehydrations whose lease was dead at the given time, as many as there is room for.
func (s *Service) Reap(ctx context.Context, dead time.Time) error {
	due, err := s.stores.Users.Due(ctx, dead, s.Load().Waiting+reapPage)
	if err != nil {
		return err
	}
	for _, st := range due {
		if len(s.waiting) == cap(s.waiting) {
			return nil
		}
		if err := s.takeOver(ctx, st); err != nil {
			return err
		}
	}
	return nil
}

// takeOver takes over the rehydration of a user that is in a state with a dead lease, unless it waits here already or
// somebody was faster.
func (s *Service) takeOver(ctx context.Context, dead userstate.State) error {
	now := s.opts.Now()
	ours := strings.HasPrefix(dead.Lease.Token, s.self+"/") && dead.Lease.Until.After(now) // it may not have come to the queue yet
	if ours || s.flight(dead.User) != nil {
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
	if s.attend(ctx, after, lease.Token) {
		s.opts.Logger.Info().Str("user", string(dead.User)).Time("due_since", after.Lease.Since).
			Msg("rehydration is taken over: whoever was at it has made no progress")
	}
	return nil
}

// warn says that rehydrations wait for long.
func (s *Service) warn() {
	load := s.Load()
	if load.Oldest.IsZero() {
		return
	}
	if age := s.opts.Now().Sub(load.Oldest); age > s.opts.Lease {
		s.opts.Logger.Warn().Dur("oldest", age).Int("waiting", load.Waiting).Int("running", load.Running).
			Msg("rehydrations wait for long: more workers, or more processes, would help")
	}
}
