package rehydrate

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/pkg/message"
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

// suspect returns which leases are dead at the given time, or end later than a process with a right clock and the same settings would
// set them.
func (s *Service) suspect(now time.Time) userstate.Dead {
	return userstate.Dead{Before: now, After: now.Add(s.opts.Lease + s.opts.Rules().ClockTolerance)}
}

// farFuture is later than the end of every lease.
var farFuture = time.UnixMilli(1 << 47).UTC()

// Reap takes over rehydrations whose lease is dead at the given time or stuck, as many as the queue has room for. It leaves out a user
// on whom the code panics, and a user whose record is damaged. Any other panic is an error.
func (s *Service) Reap(ctx context.Context, now time.Time) (err error) {
	defer panics.Catch(&err)
	// Users with damaged records stay in front, so they must not take the places of others.
	found, err := s.stores.Users.Due(ctx, s.suspect(now), s.Load().Waiting+int(s.damaged.Load())+reapPage)
	if err != nil {
		return err
	}
	for _, st := range s.abandoned(s.sound(found), s.opts.Rules().Dead(now)) {
		if len(s.waiting) == cap(s.waiting) {
			return nil
		}
		switch err := s.takeOver(ctx, st); {
		case panics.Is(err):
			s.recordPanic(err, st.User)
		case err != nil && !errors.Is(err, message.ErrCorrupt): // damaged since Due: the next reading leaves it out
			return err
		}
	}
	return nil
}

// sound returns the states of the users whose record is not damaged, and counts the others. It logs one of those when there are more than
// before.
func (s *Service) sound(found []userstate.Looked) []userstate.State {
	states := make([]userstate.State, 0, len(found))
	var damaged int64
	var last userstate.Looked
	for _, l := range found {
		if l.Err == nil {
			states = append(states, l.State)
			continue
		}
		damaged++
		last = l
	}
	if before := s.damaged.Swap(damaged); damaged > before {
		s.opts.Logger.Error().Err(last.Err).Str("user", string(last.State.User)).Int64("damaged", damaged).
			Msg("the record of a user is damaged: their rehydration waits until it is restored or removed")
	}
	return states
}

// watched is a lease that ends late, and for how long Reap has found it unchanged.
type watched struct {
	lease     userstate.Lease
	unchanged time.Duration
}

// abandoned returns the found rehydrations whose lease is dead or stuck. A lease that ends late is stuck if its holder has not renewed it
// for Options.Lease. Calls of Reap measure this time, because a clock may be set.
func (s *Service) abandoned(found []userstate.State, dead userstate.Dead) (abandoned []userstate.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.late
	s.late = make(map[message.UserID]watched)
	for _, st := range found {
		if dead.Holds(st.Lease) {
			abandoned = append(abandoned, st)
			continue
		}
		w := before[st.User]
		if w.lease.Token == st.Lease.Token && w.lease.Until.Equal(st.Lease.Until) {
			w.unchanged += s.opts.ReapEvery
		} else {
			w = watched{lease: st.Lease}
		}
		if w.unchanged > s.opts.Lease {
			abandoned = append(abandoned, st)
		}
		s.late[st.User] = w
	}
	return abandoned
}

// takeOver takes over an abandoned rehydration. It does nothing if this process already has the job, or if another process
// was faster.
func (s *Service) takeOver(ctx context.Context, dead userstate.State) (err error) {
	defer panics.Catch(&err)
	now := s.opts.Now()
	ours := strings.HasPrefix(dead.Lease.Token, s.self+"/") && !s.suspect(now).Holds(dead.Lease) // it may not be in the queue yet
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
		s.opts.Logger.Warn().Stringer("oldest", age.Round(time.Millisecond)).Int("waiting", load.Waiting).Int("running", load.Running).
			Msg("rehydrations have waited too long: more workers or processes would help")
	}
}
