package settings

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fanmail/fanmail/internal/duration"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// seenWithin is how recently a process must have reported itself to count as running.
const seenWithin = time.Minute

// UnconfirmedError says that the caller has to confirm a change.
type UnconfirmedError struct{ Reason string }

// Error says why.
func (e *UnconfirmedError) Error() string { return e.Reason }

// MisfitError says that a process which runs does not fit a change.
type MisfitError struct{ Process Process }

// Error names the process and its timeout.
func (e *MisfitError) Error() string {
	return fmt.Sprintf("mongodb.timeout %s of the process %s (%s) needs clock_tolerance of at least %s: restart it with a lower value, or repeat this a minute after it has stopped",
		duration.Text(e.Process.Timeout), e.Process.Name, e.Process.Role, duration.Text(e.Process.tolerance()))
}

// Entry is one setting in a list.
type Entry struct {
	Key string
	// Recorded is empty if the setting is not recorded.
	Recorded   string
	Configured string // of this process
	Since      time.Time
}

// ServiceOptions configures a Service. Now is required.
type ServiceOptions struct {
	Now func() time.Time
}

// Service shows the processes, and shows and changes the settings. It is safe for concurrent use.
type Service struct {
	current *Current
	opts    ServiceOptions
}

// NewService returns a Service on the settings of this process.
func NewService(current *Current, opts ServiceOptions) *Service {
	return &Service{current: current, opts: opts}
}

// List returns the recorded and the configured settings in the order of their keys.
func (s *Service) List(ctx context.Context) ([]Entry, error) {
	if err := s.current.Load(ctx); err != nil {
		return nil, err
	}
	record, values := s.current.snapshot()
	var entries []Entry
	for _, key := range slices.Sorted(maps.Keys(values.Texts)) {
		recorded := record.Settings[key]
		entries = append(entries, Entry{Key: key, Recorded: recorded.Value, Configured: s.current.opts.Configured[key], Since: recorded.Since})
	}
	return entries, nil
}

// Processes returns the processes that were seen within a day, in the order of their names.
func (s *Service) Processes(ctx context.Context) ([]Process, error) {
	return s.current.store.Processes(ctx)
}

// Change records a value, and reports whether it is another one than the recorded one. With dryRun it only reports. It returns
//
//   - an *UnconfirmedError if messages expire or are removed that were kept before, and the caller has not confirmed that,
//   - a *message.InvalidError for an unknown key or a value that is not allowed, and
//   - a *MisfitError if a process that was seen within a minute does not fit the value.
//
// This process uses the value when Change returns, all others within 5 s. Change is idempotent. No change makes a user active or
// dormant, because horizons are stored where settings are recorded.
func (s *Service) Change(ctx context.Context, key, value string, dryRun, confirmed bool) (changed bool, err error) {
	for again := false; ; again = true {
		changed, err = s.change(ctx, key, value, dryRun, confirmed)
		if !errors.Is(err, ErrChanged) { // another process has changed the record, or this one has, and the answer was lost
			return err == nil && (changed || again), err
		}
	}
}

func (s *Service) change(ctx context.Context, key, value string, dryRun, confirmed bool) (changed bool, err error) {
	running, err := s.current.running(ctx, seenWithin)
	if err != nil {
		return false, err
	}
	record, err := s.current.store.Load(ctx)
	if err != nil {
		return false, err
	}
	texts := record.texts()
	before, err := s.current.opts.Parse(texts)
	if err != nil {
		return false, err
	}
	texts[key] = value
	values, err := s.current.opts.Parse(texts)
	if err != nil {
		return false, err
	}
	if record.Settings[key].Value == values.Texts[key] {
		return false, s.current.adopt(record)
	}
	for _, p := range running {
		if key == toleranceKey && unfit(p, values) != nil {
			return false, &MisfitError{Process: p}
		}
	}
	if what := removes(before, values); !dryRun && !confirmed && what != "" {
		return false, &UnconfirmedError{Reason: fmt.Sprintf("with %s %s, %s permanently: confirm that (--yes)", key, values.Texts[key], what)}
	}
	if !dryRun {
		next := record.with(map[string]string{key: values.Texts[key]}, s.opts.Now())
		if values.KeyTTL < before.KeyTTL {
			next.keysUntil(s.opts.Now(), before.KeyTTL+before.Rules.ClockTolerance)
		}
		if err := s.current.store.Replace(ctx, record, next); err != nil {
			return false, err
		}
		if err := s.current.Load(ctx); err != nil {
			return false, err
		}
	}
	return true, nil
}

// removes says what a change removes that was kept before, or returns "".
func removes(before, after Values) string {
	from, to := before.Retention, after.Retention
	switch {
	case to.MaxAge > 0 && (from.MaxAge == 0 || to.MaxAge < from.MaxAge), to.Newest > 0 && (from.Newest == 0 || to.Newest < from.Newest):
		return "messages in inboxes expire"
	case to != (userstate.Retention{}) && after.Canonical < before.Canonical:
		return "messages that have expired in all inboxes are removed"
	}
	return ""
}
