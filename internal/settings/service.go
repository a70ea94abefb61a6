package settings

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fanmail/fanmail/pkg/userstate"
)

// seenWithin is how recently a process must have reported itself to count as running.
const seenWithin = time.Minute

// UnconfirmedError says that the caller has to confirm a change.
type UnconfirmedError struct{ Reason string }

// Error says why.
func (e *UnconfirmedError) Error() string { return e.Reason }

// TooOldError says that a process does not know a level.
type TooOldError struct {
	Process Process
	Level   int
}

// Error names the process.
func (e *TooOldError) Error() string {
	return fmt.Sprintf("the process %s (%s), last seen at %s, knows format level %d only, and this needs %d: upgrade or stop it, and repeat this a minute later",
		e.Process.Name, e.Process.Role, e.Process.Seen.UTC().Format(time.RFC3339), e.Process.Level, e.Level)
}

// MisfitError says that a process which runs does not fit a change.
type MisfitError struct{ UnfitError }

// Error names the process and its keys.
func (e *MisfitError) Error() string {
	return fmt.Sprintf("%s of the process %s (%s) needs %s of at least %s: restart it with a lower value, or repeat this a minute after it has stopped",
		e.Need.Keys, e.Process.Name, e.Process.Role, e.Need.Key, e.Need.Text)
}

// Entry is one setting in a list.
type Entry struct {
	Key string
	// Recorded is empty if the setting is not recorded.
	Recorded   string
	Configured string // of this process
	Since      time.Time
}

// Effect is what a change does.
type Effect struct {
	// Changed reports whether the value is another one than the recorded one.
	Changed bool
}

// ServiceOptions configures a Service. Now is required.
type ServiceOptions struct {
	// Alone is true if no other process can have the store open.
	Alone bool
	Now   func() time.Time
	// Keys returns when the last of all idempotency keys expires, or zero if there is none. Before the level Retention a lower idempotency.ttl
	// left no trace but the keys. If Keys is nil, there are none.
	Keys func(context.Context) (time.Time, error)
}

// Service shows and changes the settings, the processes and the level. It is safe for concurrent use.
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

// Change records a value, and reports what that does. With dryRun it only reports. It returns
//
//   - an *UnconfirmedError if messages expire or are removed that were kept before, and the caller has not confirmed that,
//   - a *LevelError if the setting is not recorded yet,
//   - a *message.InvalidError for an unknown key or a value that is not allowed, and
//   - a *MisfitError if a key of a process that was seen within a minute does not fit the value.
//
// This process uses the value when Change returns, all others within 5 s. Change is idempotent. No change makes a user active or
// dormant, because horizons are stored where settings are recorded.
func (s *Service) Change(ctx context.Context, key, value string, dryRun, confirmed bool) (Effect, error) {
	changed := false
	for {
		effect, err := s.change(ctx, key, value, dryRun, confirmed)
		if errors.Is(err, ErrChanged) { // another process has changed the record, or this one has, and the answer was lost
			changed = true
			continue
		}
		effect.Changed = effect.Changed || changed && err == nil
		return effect, err
	}
}

func (s *Service) change(ctx context.Context, key, value string, dryRun, confirmed bool) (Effect, error) {
	running, err := s.running(ctx)
	if err != nil {
		return Effect{}, err
	}
	record, err := s.current.store.Load(ctx)
	if err != nil {
		return Effect{}, err
	}
	if err := Require(record.Level, recordedFrom(key)); err != nil {
		return Effect{}, err
	}
	texts, _ := record.texts()
	before, err := s.current.opts.Parse(withoutLater(maps.Clone(texts), record.Level))
	if err != nil {
		return Effect{}, err
	}
	texts[key] = value
	values, err := s.current.opts.Parse(withoutLater(texts, record.Level))
	if err != nil {
		return Effect{}, err
	}
	effect := Effect{Changed: record.Settings[key].Value != values.Texts[key]}
	if !effect.Changed {
		return effect, s.current.adopt(record)
	}
	for _, p := range running {
		if misfit, ok := errors.AsType[*UnfitError](unfit(p, values)); ok && misfit.Need.Key == key {
			return Effect{}, &MisfitError{*misfit}
		}
	}
	if what := removes(before, values); !dryRun && !confirmed && what != "" {
		return Effect{}, &UnconfirmedError{Reason: fmt.Sprintf("with %s %s, %s permanently: confirm that (--yes)", key, values.Texts[key], what)}
	}
	if !dryRun {
		changed := record.with(map[string]string{key: values.Texts[key]}, s.opts.Now(), record.Level)
		if record.Level >= Retention && values.KeyTTL < before.KeyTTL {
			changed.keysUntil(s.opts.Now(), before.KeyTTL+before.Rules.ClockTolerance)
		}
		if err := s.current.store.Replace(ctx, record, changed); err != nil {
			return Effect{}, err
		}
		if err := s.current.Load(ctx); err != nil {
			return Effect{}, err
		}
	}
	return effect, nil
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

// running returns the processes that were seen within a minute, this one among them.
func (s *Service) running(ctx context.Context) ([]Process, error) {
	now, err := s.current.store.Report(ctx, s.current.opts.Process)
	if err != nil {
		return nil, err
	}
	processes, err := s.current.store.Processes(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(processes, func(p Process) bool { return now.Sub(p.Seen) > seenWithin }), nil
}

// Upgrade raises the level to the Highest, and records the configuration of this process where nothing is recorded, in one write. It
// returns the level in force. It returns a *TooOldError if a process that was seen within a minute does not know the level, and an
// *UnconfirmedError if processes that do not report themselves could run, or if messages expire from then on, unless the caller confirms
// that, and a
// *message.InvalidError if the configuration does not fit what is recorded. Upgrade is idempotent.
func (s *Service) Upgrade(ctx context.Context, confirmed bool) (int, error) {
	for {
		level, err := s.upgrade(ctx, confirmed)
		if !errors.Is(err, ErrChanged) {
			return level, err
		}
	}
}

func (s *Service) upgrade(ctx context.Context, confirmed bool) (int, error) {
	running, err := s.running(ctx)
	if err != nil {
		return 0, err
	}
	record, err := s.current.store.Load(ctx)
	if err != nil {
		return 0, err
	}
	if record.Level < Highest {
		for _, p := range running {
			if p.Level < Highest {
				return 0, &TooOldError{Process: p, Level: Highest}
			}
		}
		if record.Level == Unrecorded && !s.opts.Alone && !confirmed {
			return 0, &UnconfirmedError{Reason: "processes of releases without recorded settings do not show themselves: " +
				"stop or upgrade all of them, and confirm that (--yes)"}
		}
		missing := maps.Clone(s.current.opts.Configured)
		maps.DeleteFunc(missing, func(key, _ string) bool { _, found := record.Settings[key]; return found })
		raised := record.with(missing, s.opts.Now(), Highest)
		all, _ := raised.texts()
		values, err := s.current.opts.Parse(all)
		if err != nil { // what is configured does not fit what is recorded
			return 0, err
		}
		if values.Retention != (userstate.Retention{}) && !confirmed {
			return 0, &UnconfirmedError{Reason: fmt.Sprintf("the configured %s %s and %s %s hold from the upgrade on, so messages expire: confirm that (--yes)",
				MaxAgeKey, all[MaxAgeKey], NewestKey, all[NewestKey])}
		}
		if record.Level < Retention && s.opts.Keys != nil {
			last, err := s.opts.Keys(ctx)
			if err != nil {
				return 0, fmt.Errorf("idempotency keys: %w", err)
			}
			raised.keysUntil(last, values.Rules.ClockTolerance)
		}
		if err := s.current.store.Replace(ctx, record, raised); err != nil {
			return 0, err
		}
	}
	if err := s.current.Load(ctx); err != nil {
		return 0, err
	}
	return s.current.Level(), nil
}
