package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/startstop"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/verdict"
)

// MaxSample is the greatest sample. Its users are held in memory.
const MaxSample = 1_000_000

// progressEvery is how often an audit reports its progress.
const progressEvery = 500 * time.Millisecond

// Request says what to audit.
type Request struct {
	// User selects one user, seen or not.
	User message.UserID
	// Sample selects that many users at random, each with the same chance; 0 selects all users.
	Sample int
	// Repair repairs the findings that can be repaired.
	Repair bool
}

// Validate returns an *message.InvalidError that says what is wrong with the request, or nil.
func (r Request) Validate() error {
	switch {
	case r.User != "" && r.Sample != 0:
		return &message.InvalidError{Field: "sample", Reason: "is given together with user: ask for one user or for a sample"}
	case r.Sample < 0 || r.Sample > MaxSample:
		return &message.InvalidError{Field: "sample", Reason: fmt.Sprintf("is %d: give 1 to %d users, or leave it out for everybody", r.Sample, MaxSample)}
	case r.User != "":
		return r.User.Validate("user")
	}
	return nil
}

// Audit audits inboxes, and calls tell with each finding and with the progress. Calls of tell do not overlap. If tell returns an error or
// ctx ends, Audit stops and returns that error. With an error, the summary covers the users audited so far.
func (s *Service) Audit(ctx context.Context, request Request, tell func(Event) error) (verdict.Summary, error) {
	if err := request.Validate(); err != nil {
		return verdict.Summary{}, err
	}
	run := &run{Service: s, repairs: request.Repair, tell: tell, summary: newSummary(), told: s.opts.Now()}
	users, err := s.choose(ctx, request, &run.of)
	if err != nil {
		return run.summary, fmt.Errorf("choose users: %w", err)
	}
	if err := run.progress(); err != nil {
		return run.summary, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	err = panics.Do(func() error { // the audits of users end before Audit returns, whatever happens here
		return users(ctx, func(user message.UserID) error {
			group.Go(func() (err error) {
				defer panics.Catch(&err)
				return run.audit(ctx, user)
			})
			return ctx.Err()
		})
	})
	if auditErr := group.Wait(); auditErr != nil {
		err = auditErr // the reason why the walk over the users ended early
	}
	if err == nil {
		err = run.progress()
	}
	return run.summary, err
}

// run is a running audit.
type run struct {
	*Service
	repairs bool
	of      int64

	mu      sync.Mutex // guards the rest, and tell
	tell    func(Event) error
	summary verdict.Summary
	told    time.Time
}

// progress reports the progress of the audit.
func (r *run) progress() error {
	return r.tell(Event{Progress: &verdict.Progress{Users: r.summary.Users, Of: max(r.of, r.summary.Users)}})
}

// audit audits one user.
func (r *run) audit(ctx context.Context, user message.UserID) error {
	select {
	case r.turns <- struct{}{}:
		defer func() { <-r.turns }()
	case <-ctx.Done():
		return ctx.Err()
	}
	found, last, err := r.examine(ctx, user, r.repairs)
	if errors.Is(err, message.ErrCorrupt) {
		last = &look{found: []Finding{{Kind: verdict.Damaged, User: user, Detail: err.Error()}}}
		found = last.found
		if r.repairs {
			found = []Finding{last.found[0]}
			found[0].Note = notRepaired[verdict.Damaged]
		}
		err = nil
	}
	if err != nil {
		return fmt.Errorf("audit of %s: %w", user, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	count(&r.summary, found, last)
	for i := range found {
		if err := r.tell(Event{Finding: &found[i]}); err != nil {
			return err
		}
	}
	if now := r.opts.Now(); now.Sub(r.told) >= progressEvery {
		r.told = now
		return r.progress()
	}
	return nil
}

// examine returns the findings of a user and the last look, whose findings remain.
func (s *Service) examine(ctx context.Context, user message.UserID, repair bool) (found []Finding, last *look, err error) {
	last, err = s.confirm(ctx, user)
	if err != nil || len(last.found) == 0 {
		return nil, last, err
	}
	found = last.found
	if !repair {
		return found, last, nil
	}
	s.repair(ctx, last, found)
	if last, err = s.confirm(ctx, user); err != nil {
		return nil, nil, err
	}
	remaining := keys(last.found)
	for i := range found {
		f := &found[i]
		skipped := f.Kind == verdict.GapCount && f.Note != "" // during a rehydration, the last look does not compare the numbers of gaps
		if f.Repaired = !skipped && !remaining[key(*f)]; f.Repaired {
			f.Note = ""
		}
	}
	return found, last, nil
}

// confirm looks at a user, and again if it finds anything. It returns the last look with the findings that all looks share.
func (s *Service) confirm(ctx context.Context, user message.UserID) (*look, error) {
	first, err := s.look(ctx, user)
	if err != nil || len(first.found) == 0 {
		return first, err
	}
	second, err := s.lookAgain(ctx, first)
	if err != nil || !slices.ContainsFunc(second.found, func(f Finding) bool { return f.fresh }) {
		return second, err
	}
	startstop.Pause(ctx, s.opts.CatchUp)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return s.lookAgain(ctx, second)
}

// lookAgain looks at a user again, and returns the findings that are found again.
func (s *Service) lookAgain(ctx context.Context, before *look) (*look, error) {
	again, err := s.look(ctx, before.user)
	if err != nil {
		return nil, err
	}
	suspected := keys(before.found)
	again.found = slices.DeleteFunc(again.found, func(f Finding) bool { return !suspected[key(f)] })
	return again, nil
}

// key returns a finding without the fields that change from one look to the next.
func key(f Finding) Finding {
	f.Repaired, f.Note, f.fresh = false, "", false
	return f
}

func keys(findings []Finding) map[Finding]bool {
	keys := make(map[Finding]bool, len(findings))
	for _, f := range findings {
		keys[key(f)] = true
	}
	return keys
}
