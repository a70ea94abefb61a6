package settings

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/duration"
	"github.com/fanmail/fanmail/internal/startstop"
	"github.com/fanmail/fanmail/internal/tally"
	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/userstate"
)

const (
	// pollEvery is short enough for a change to be used by all processes within 5 s.
	pollEvery = 2 * time.Second
	// reportEvery is how often a process reports itself.
	reportEvery = 10 * time.Second
	// lastWithin is how long the last report may delay the stop.
	lastWithin = 5 * time.Second
)

// Values are the settings in the form that the process uses.
type Values struct {
	Rules  userstate.Rules
	KeyTTL time.Duration
	// Retention says what expires, and Canonical for how long messages are kept at least.
	Retention userstate.Retention
	Canonical time.Duration
	// Texts are the settings as they are written, by key.
	Texts map[string]string
}

// Options configures a Current. Configured, Parse and Process.Name are required.
type Options struct {
	// Configured are the settings of the process's configuration, by key. They hold where none are recorded.
	Configured map[string]string
	// Parse returns the values for Configured with the given settings in their place. It returns a *message.InvalidError for a key or
	// value that is not allowed.
	Parse func(changed map[string]string) (Values, error)
	// Process is how the process reports itself. Tally has its counters; nil means none.
	Process Process
	Tally   *tally.Tally
	Logger  zerolog.Logger
}

// Current has the settings that hold now. It is safe for concurrent use. Before Open, the configured settings hold.
type Current struct {
	opts  Options
	store Store

	telling    sync.Mutex // held while the process reports itself
	name       string
	base, sent tally.Counters // of the Tally: where name began, and the last report that its row may have
	stopping   atomic.Bool

	mu       sync.RWMutex
	record   Record
	values   Values
	declared attribute.Set
	rows     []Process // as of the last report, at the time seen
	before   []Process // as of the report before
	seen     time.Time
	totals   tally.Counters
	logged   map[string]string // by key, the recorded value that was last logged as different
	opened   bool              // Open has returned
}

// New returns a Current with the configured settings. It returns an error if those are not valid.
func New(opts Options) (*Current, error) {
	values, err := opts.Parse(nil)
	if err != nil {
		return nil, err
	}
	return &Current{opts: opts, name: opts.Process.Name, values: values, logged: make(map[string]string)}, nil
}

// Open reports the process and reads the record, before the process uses the store for anything else. It returns an *UnfitError if the
// process does not fit the record. It can be called again after an error.
func (c *Current) Open(ctx context.Context, store Store) error {
	c.store = store
	if err := c.report(ctx); err != nil {
		return err
	}
	if err := c.Load(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened = true
	return unfit(c.opts.Process, c.values)
}

// UnfitError says that mongodb.timeout of a process does not fit clock_tolerance.
type UnfitError struct {
	Process  Process
	Recorded time.Duration
}

// Error names both values and the command.
func (e *UnfitError) Error() string {
	timeout, least := duration.Text(e.Process.Timeout), duration.Text(e.Process.tolerance())
	return fmt.Sprintf("clock_tolerance is recorded as %s, and mongodb.timeout %s of this process needs at least %s: lower that, or run fanmail admin settings clock_tolerance %s",
		duration.Text(e.Recorded), timeout, least, least)
}

// unfit returns an *UnfitError if a process does not fit the values, or nil.
func unfit(p Process, v Values) error {
	if v.Rules.ClockTolerance < p.tolerance() {
		return &UnfitError{Process: p, Recorded: v.Rules.ClockTolerance}
	}
	return nil
}

// Load reads the record and uses it from then on. After an error the settings stay as they were.
func (c *Current) Load(ctx context.Context) error {
	record, err := c.store.Load(ctx)
	if err != nil {
		return err
	}
	return c.adopt(record)
}

// adopt uses a record that has been read. Reads may overtake each other, so an older record is ignored.
func (c *Current) adopt(record Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if record.Revision < c.record.Revision {
		return nil
	}
	values, err := c.opts.Parse(record.texts())
	if err != nil {
		return fmt.Errorf("the recorded settings: %w", err)
	}
	c.record, c.values, c.declared = record, values, attribute.NewSet(record.LastDeclared, record.Declared)
	c.log()
	return nil
}

// texts returns the recorded values.
func (r Record) texts() map[string]string {
	texts := make(map[string]string)
	for key, s := range r.Settings {
		texts[key] = s.Value
	}
	return texts
}

// log logs the settings in which the record differs from the configuration, once for each recorded value.
func (c *Current) log() {
	changed := false
	for _, key := range slices.Sorted(maps.Keys(c.record.Settings)) {
		recorded, configured := c.record.Settings[key].Value, c.opts.Configured[key]
		if c.logged[key] == recorded {
			continue
		}
		changed, c.logged[key] = true, recorded
		if configured != "" && configured != recorded {
			c.opts.Logger.Warn().Str("key", key).Str("recorded", recorded).Str("configured", configured).
				Str("command", "fanmail admin settings "+key+" "+configured).
				Msg("the configuration differs from the recorded setting: the recorded one holds, and the command changes it")
		}
	}
	if err := unfit(c.opts.Process, c.values); c.opened && changed && err != nil { // Open returns it
		c.opts.Logger.Error().Err(err).Msg("a key of this process does not fit a recorded setting: the process will not start again")
	}
}

func (c *Current) snapshot() (Record, Values) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.record, c.values
}

// Rules returns the rules that hold now.
func (c *Current) Rules() userstate.Rules {
	_, values := c.snapshot()
	return values.Rules
}

// ClockTolerance returns the clock tolerance that holds now.
func (c *Current) ClockTolerance() time.Duration { return c.Rules().ClockTolerance }

// KeyTTL returns for how long idempotency keys that are reserved now are remembered.
func (c *Current) KeyTTL() time.Duration {
	_, values := c.snapshot()
	return values.KeyTTL
}

// Retention returns what expires now, for users without a setting of their own.
func (c *Current) Retention() userstate.Retention {
	_, values := c.snapshot()
	return values.Retention
}

// Canonical returns for how long messages are kept at least.
func (c *Current) Canonical() time.Duration {
	_, values := c.snapshot()
	return values.Canonical
}

// Attributes returns the attributes that are declared now.
func (c *Current) Attributes() attribute.Set {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.declared
}

// KeysUntil returns when the last idempotency key expires that may last for longer than KeyTTL, because that was lowered. It is zero if there is
// none.
func (c *Current) KeysUntil() time.Time {
	record, _ := c.snapshot()
	return record.Settings[keyTTLKey].Until
}

// Poll reads the record every two seconds until intake ends.
func (c *Current) Poll(intake, _ context.Context) {
	c.repeat(intake, pollEvery, c.Load, func(err error) {
		c.opts.Logger.Warn().Err(err).Msg("the recorded settings cannot be read: the last ones hold")
	})
}

// Report reports the process every ten seconds until intake ends, and then once more, so that nothing is lost that it did. Stop it after all
// that counts.
func (c *Current) Report(intake, work context.Context) {
	failed := func(err error) {
		c.opts.Logger.Warn().Err(err).Msg("this process cannot be recorded: it is tried again")
	}
	c.repeat(intake, reportEvery, c.report, failed)
	c.Stopping()
	ctx, cancel := context.WithTimeout(work, lastWithin)
	defer cancel()
	if _, err := c.tell(ctx); err != nil {
		c.opts.Logger.Warn().Err(err).Msg("what this process did last cannot be recorded: the totals lack it")
	}
}

// Stopping says that the process stops, in all reports from then on.
func (c *Current) Stopping() { c.stopping.Store(true) }

// report reports the process, and looks at the others.
func (c *Current) report(ctx context.Context) error {
	now, err := c.tell(ctx)
	if err != nil {
		return err
	}
	totals, err := c.store.Totals(ctx)
	if err != nil {
		return err
	}
	rows, err := c.store.Processes(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.before, c.rows, c.seen = c.rows, rows, now
	c.totals = c.totals.Max(totals.Sum(rows)) // a row may have been forgotten between the reads
	c.mu.Unlock()
	return c.settle(ctx, totals, rows, now)
}

// running reports the process, and returns those that were seen within a time, this one among them.
func (c *Current) running(ctx context.Context, within time.Duration) ([]Process, error) {
	now, err := c.tell(ctx)
	if err != nil {
		return nil, err
	}
	processes, err := c.store.Processes(ctx)
	return slices.DeleteFunc(processes, func(p Process) bool { return now.Sub(p.Seen) > within }), err
}

// Rows returns the rows of processes as of the last report of this one, in the order of their names, and those as of its report before. Totals are
// what all processes have ever done. They never fall, and lack at most the last ten seconds of each process that runs or was killed. The
// caller must not change the rows.
func (c *Current) Rows() (now, before []Process, totals tally.Counters) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.rows, c.before, c.totals
}

// Runs reports whether a process with a role ran when this process last looked. A process that has ended counts for 30 to 40 s.
func (c *Current) Runs(role string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.ContainsFunc(c.rows, func(p Process) bool {
		return c.seen.Sub(p.Seen) <= 3*reportEvery && slices.Contains(strings.Split(p.Role, "+"), role)
	})
}

// repeat calls do at intervals until intake ends, and logs the first failure of several.
func (c *Current) repeat(intake context.Context, every time.Duration, do func(context.Context) error, log func(error)) {
	failing := false
	for {
		startstop.Pause(intake, every)
		if intake.Err() != nil {
			return
		}
		err := do(intake)
		if err != nil && !failing && intake.Err() == nil {
			log(err)
		}
		failing = err != nil
	}
}
