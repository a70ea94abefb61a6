package rehydrate

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/startstop"
	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// job is a rehydration that waits or runs in this process.
type job struct {
	user  message.UserID
	token string
	since time.Time
	// trace is the trace of the login that caused the job, if it was recorded.
	trace event.Trace
	// done is closed when this process drops the job, finished or not.
	done chan struct{}
}

// job returns a user's job in this process, or nil.
func (s *Service) job(user message.UserID) *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs[user]
}

// lease returns a lease for the rehydration of a user with the state st. If st has the mark of this process's job, the lease keeps
// the job's token. Any other mark gets a new token, because a job that lost its lease must not hold the lease of another
// rehydration.
func (s *Service) lease(st userstate.State, now time.Time) userstate.Lease {
	token := s.token()
	if j := s.job(st.User); j != nil && st.Mark != nil && st.Lease.Token == j.token {
		token = j.token
	}
	until := now.Add(s.opts.Lease)
	if s.opts.Elsewhere {
		until = now
	}
	return userstate.Lease{Token: token, Until: until, Since: now}
}

// token returns a unique token, which this process recognizes by its prefix.
func (s *Service) token() string { return s.self + "/" + s.opts.Token() }

// enqueue puts a user's rehydration into the queue if its lease has the given token, and reports whether a job exists afterwards. If the
// queue is full there is none: the lease ends, and the reaper tries again. enqueue does not block.
func (s *Service) enqueue(ctx context.Context, st userstate.State, token string) bool {
	if st.Lease.Token != token || s.opts.Elsewhere {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs[st.User] != nil {
		return true
	}
	j := &job{user: st.User, token: token, since: st.Lease.Since, trace: tracing.Of(ctx), done: make(chan struct{})}
	select {
	case s.waiting <- j:
		s.jobs[st.User] = j
		return true
	default:
		s.metrics.full.Inc()
		s.opts.Logger.Warn().Str("user", string(st.User)).Int("queue", s.opts.Queue).
			Msg("the queue of rehydrations is full: this one waits until there is room")
		return false
	}
}

// Run processes waiting rehydrations and looks for abandoned ones until intake ends. Then it releases the jobs that still wait. The end
// of work cancels the jobs that run.
func (s *Service) Run(intake, work context.Context) {
	var workers sync.WaitGroup
	for range s.opts.Workers {
		workers.Go(func() { startstop.Keep(intake, work, s.panics, "rehydration worker", s.runWaiting) })
	}
	workers.Go(func() { startstop.Keep(intake, work, s.panics, "reaper", s.reap) })
	workers.Wait()
	s.handBack(work)
}

// runWaiting processes waiting rehydrations one after another, until intake ends.
func (s *Service) runWaiting(intake, work context.Context) {
	for {
		select {
		case <-intake.Done():
			return
		case j := <-s.waiting:
			s.run(work, j)
		}
	}
}

// Work processes one waiting rehydration, and reports whether there was one. It blocks until that rehydration has ended.
func (s *Service) Work(ctx context.Context) bool {
	select {
	case j := <-s.waiting:
		s.run(ctx, j)
		return true
	default:
		return false
	}
}

// traced makes one attempt at a job, in the trace of the login that caused it.
func (s *Service) traced(ctx context.Context, j *job) (err error) {
	ctx, span := s.opts.Tracer.Start(tracing.Within(ctx, j.trace), "rehydrate")
	defer func() { span.Done(err) }()
	defer panics.Catch(&err)
	if span.IsRecording() {
		span.SetAttributes(tracing.User.String(string(j.user)))
	}
	return s.attempt(ctx, j)
}

// run makes one attempt at a job, records the outcome, and drops the job. If the attempt failed, run releases the lease after
// retryAfter. A panic is a failed attempt.
func (s *Service) run(ctx context.Context, j *job) {
	defer s.drop(j)
	s.countRunning(1)
	err := s.traced(ctx, j)
	s.countRunning(-1)
	s.recordPanic(err, j.user)
	switch {
	case err == nil:
		s.metrics.finished.Inc()
	case errors.Is(err, ErrLost):
		s.metrics.lost.Inc()
		s.opts.Logger.Info().Str("user", string(j.user)).Msg("another worker has taken over the rehydration")
	default:
		s.metrics.failed.Inc()
		s.opts.Logger.Error().Err(err).Str("user", string(j.user)).Msg("rehydration failed, and will be tried again")
		s.release(context.WithoutCancel(ctx), j, s.opts.Now().Add(retryAfter))
	}
}

func (s *Service) countRunning(more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running += more
}

// drop removes a job and wakes the callers that wait for it.
func (s *Service) drop(j *job) {
	s.mu.Lock()
	delete(s.jobs, j.user)
	s.mu.Unlock()
	close(j.done)
}

// retryAfter is the pause before the next attempt at a failed rehydration.
const retryAfter = time.Second

// release moves the end of a job's lease to the given time, when another worker may take it over. If that fails, the lease ends by
// itself.
func (s *Service) release(ctx context.Context, j *job, until time.Time) {
	err := panics.Do(func() error {
		st, err := s.state(ctx, j.user)
		if err == nil {
			_, err = s.step(ctx, st, lazy, func(st userstate.State) (userstate.State, error) {
				next, _ := st.Renew(j.token, until)
				return next, nil
			})
		}
		return err
	})
	if err != nil {
		s.recordPanic(err, j.user)
		s.opts.Logger.Warn().Err(err).Str("user", string(j.user)).Stringer("lease", s.opts.Lease).
			Msg("rehydration cannot be released: another worker takes it over when its lease ends")
	}
}

// handBack releases and drops all waiting jobs.
func (s *Service) handBack(ctx context.Context) {
	for {
		select {
		case j := <-s.waiting:
			if ctx.Err() == nil {
				s.release(ctx, j, s.opts.Now().Add(-time.Millisecond))
			}
			s.drop(j)
		default:
			return
		}
	}
}
