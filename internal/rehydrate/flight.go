package rehydrate

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// flight is a rehydration that waits in this process or is carried out by it.
type flight struct {
	user  message.UserID
	token string
	since time.Time
	// trace is that of the login which it is for, if one was recorded.
	trace event.Trace
	// landed is closed when this process has nothing more to do with it, for better or worse.
	landed chan struct{}
}

// flight returns a user's flight, or nil.
func (s *Service) flight(user message.UserID) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flights[user]
}

// lease returns a lease for whoever attends to a user who is in a state. Where that has the mark of a flight that is
// there, it is the flight's again. Any other mark gets a token of its own: a flight that has lost its lease must not find
// that it holds one for another rehydration.
func (s *Service) lease(st userstate.State, now time.Time) userstate.Lease {
	token := s.token()
	if f := s.flight(st.User); f != nil && st.Mark != nil && st.Lease.Token == f.token {
		token = f.token
	}
	return userstate.Lease{Token: token, Until: now.Add(s.opts.Lease), Since: now}
}

// token returns a token that nobody else has, and that this process knows for its own.
func (s *Service) token() string { return s.self + "/" + s.opts.Token() }

// attend puts a user whose rehydration is due into the queue, if the lease is held under this token, and tells whether they
// are in it. They are not where the queue is full: then the lease runs out, and the reaper tries again.
func (s *Service) attend(ctx context.Context, st userstate.State, token string) bool {
	if st.Lease.Token != token {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flights[st.User] != nil {
		return true
	}
	f := &flight{user: st.User, token: token, since: st.Lease.Since, trace: tracing.Of(ctx), landed: make(chan struct{})}
	select {
	case s.waiting <- f:
		s.flights[st.User] = f
		return true
	default:
		s.metrics.full.Inc()
		s.opts.Logger.Warn().Str("user", string(st.User)).Int("queue", s.opts.Queue).
			Msg("the queue of rehydrations is full: this one waits until there is room")
		return false
	}
}

// Run carries out what is waiting until intake ends, and hands back what is left then. work ends what is under way.
func (s *Service) Run(intake, work context.Context) {
	var workers sync.WaitGroup
	for range s.opts.Workers {
		workers.Go(func() {
			for {
				select {
				case <-intake.Done():
					return
				case f := <-s.waiting:
					s.fly(work, f)
				}
			}
		})
	}
	workers.Go(func() { s.reap(intake, work) })
	workers.Wait()
	s.handBack(work)
}

// Work carries out one rehydration that is waiting, and tells whether there was one. Run does so all the time.
func (s *Service) Work(ctx context.Context) bool {
	select {
	case f := <-s.waiting:
		s.fly(ctx, f)
		return true
	default:
		return false
	}
}

// traced carries out an attempt at a flight, in the trace of the login that it is for.
func (s *Service) traced(ctx context.Context, f *flight) (err error) {
	ctx, span := s.opts.Tracer.Start(tracing.Within(ctx, f.trace), "rehydrate")
	defer func() { span.Done(err) }()
	if span.IsRecording() {
		span.SetAttributes(tracing.User.String(string(f.user)))
	}
	return s.attempt(ctx, f)
}

// fly carries out a flight.
func (s *Service) fly(ctx context.Context, f *flight) {
	s.mu.Lock()
	s.running++
	s.mu.Unlock()
	err := s.traced(ctx, f)
	s.mu.Lock()
	s.running--
	s.mu.Unlock()
	switch {
	case err == nil:
		s.metrics.finished.Inc()
	case errors.Is(err, ErrLost):
		s.metrics.lost.Inc()
		s.opts.Logger.Info().Str("user", string(f.user)).Msg("rehydration was taken over by somebody else")
	default:
		s.metrics.failed.Inc()
		s.opts.Logger.Error().Err(err).Str("user", string(f.user)).Msg("rehydration failed, and will be tried again")
		s.release(context.WithoutCancel(ctx), f, s.opts.Now().Add(retryAfter))
	}
	s.land(f)
}

// land lets go of a flight.
func (s *Service) land(f *flight) {
	s.mu.Lock()
	delete(s.flights, f.user)
	s.mu.Unlock()
	close(f.landed)
}

// retryAfter is how long a rehydration that failed is left alone.
const retryAfter = time.Second

// release lets the lease of a flight end at the given time, so that it can be taken over then. If that fails, it runs out.
func (s *Service) release(ctx context.Context, f *flight, until time.Time) {
	st, err := s.state(ctx, f.user)
	if err == nil {
		_, err = s.step(ctx, st, lazy, func(st userstate.State) (userstate.State, error) {
			next, _ := st.Renew(f.token, until)
			return next, nil
		})
	}
	if err != nil {
		s.opts.Logger.Warn().Err(err).Str("user", string(f.user)).Dur("lease", s.opts.Lease).
			Msg("rehydration cannot be handed back: others take it over when its lease has run out")
	}
}

// handBack lets go of everything that waits.
func (s *Service) handBack(ctx context.Context) {
	for {
		select {
		case f := <-s.waiting:
			if ctx.Err() == nil {
				s.release(ctx, f, s.opts.Now().Add(-time.Millisecond))
			}
			s.land(f)
		default:
			return
		}
	}
}
