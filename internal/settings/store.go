package settings

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/fanmail/fanmail/internal/tally"
	"github.com/fanmail/fanmail/pkg/attribute"
)

// The keys of some recorded settings.
const (
	keyTTLKey    = "idempotency.ttl"
	toleranceKey = "clock_tolerance"
)

// ErrChanged says that the record is another one than the caller read.
var ErrChanged = errors.New("the recorded settings have changed")

// ErrForgotten says that the row of a process with counters is not there.
var ErrForgotten = errors.New("the row of this process was forgotten")

// Record is what a store records for all processes.
type Record struct {
	// Revision counts the changes of the record. A store sets it.
	Revision int64
	// Settings are the recorded settings by key.
	Settings map[string]Setting
	// Declared are the declared attributes. LastDeclared is the greatest number ever given, deletions included.
	Declared     []attribute.Declaration
	LastDeclared int
}

// Setting is a recorded setting.
type Setting struct {
	// Value is the setting as it is written in a configuration, such as "720h".
	Value string
	// Since is when Value was recorded, in milliseconds.
	Since time.Time
	// Until is when the last idempotency key expires that was reserved under a higher value, in milliseconds. It is zero if there was none,
	// and for all other settings.
	Until time.Time
}

// First returns the record of a new store.
func First(settings map[string]string, now time.Time) Record {
	return Record{}.with(settings, now)
}

// with returns the record with settings that are recorded now.
func (r Record) with(settings map[string]string, now time.Time) Record {
	now = now.UTC().Truncate(time.Millisecond)
	changed := r
	changed.Settings = maps.Clone(r.Settings)
	if changed.Settings == nil {
		changed.Settings = make(map[string]Setting)
	}
	for key, value := range settings {
		changed.Settings[key] = Setting{Value: value, Since: now, Until: r.Settings[key].Until}
	}
	return changed
}

// keysUntil records until when keys may last that were reserved before the change: until the given time has come and passed by spare, and until
// all processes know the change. Zero changes nothing.
func (r Record) keysUntil(last time.Time, spare time.Duration) {
	const known = time.Minute
	s := r.Settings[keyTTLKey]
	if until := last.Add(spare + known).UTC().Truncate(time.Millisecond); s.Until.Before(until) {
		s.Until = until
	}
	r.Settings[keyTTLKey] = s
}

// Process is a process on a store.
type Process struct {
	// Name tells the process from all others. Role has its roles, joined by "+".
	Name, Role string
	// Host is the name of its host, Version its release, and Address where it serves HTTP, such as "10.0.0.7:8080".
	Host, Version, Address string
	// State is Running or Stopping.
	State string
	// Started is when it started, by its own clock, in milliseconds.
	Started time.Time
	// Timeout is mongodb.timeout, or 0 with another store. clock_tolerance has to be at least four times as long.
	Timeout time.Duration
	// Counters are what it has done under this name.
	Counters tally.Counters
	// Seen is when the process reported itself, by the store's clock.
	Seen time.Time
}

// The states of a process.
const (
	Running  = "running"
	Stopping = "stopping"
)

// tolerance returns the least clock_tolerance that fits the process.
func (p Process) tolerance() time.Duration { return 4 * p.Timeout }

// NewName returns a name for a process. A restarted process gets another one, because it may be of another release.
func NewName(host string) string { return host + "-" + strings.ToLower(rand.Text()[:8]) }

// Forget is the age at which the row of a process is forgotten. It is longer than any write takes that a process has given up.
const Forget = 24 * time.Hour

// Store holds the record and the processes. It is safe for concurrent use.
type Store interface {
	// Load returns the record. It sees every change that had returned before the call.
	Load(ctx context.Context) (Record, error)

	// Replace replaces the record that the caller has loaded by another one, durably. It returns ErrChanged, and changes nothing, if the
	// stored record is not the loaded one any more. After another error the change may have happened.
	Replace(ctx context.Context, from, to Record) error

	// Report records a process, or that it still runs. It returns the current time by the store's clock, which becomes the process's
	// Seen. The caller's Seen counts for nothing. Only a report without counters makes a row: another one changes the row that is there, or
	// returns ErrForgotten. Counters of a row never fall, even if an older report comes late. A power loss of a store that one process owns
	// may undo a report.
	Report(ctx context.Context, p Process) (time.Time, error)

	// Processes returns the processes in the order of their names.
	Processes(ctx context.Context) ([]Process, error)

	// Forget removes the row of a process, unless it was reported after p.Seen.
	Forget(ctx context.Context, p Process) error

	// Totals returns the record of what processes have done. A read of the rows that begins later sees every row that was taken and is not
	// forgotten.
	Totals(ctx context.Context) (Totals, error)

	// ReplaceTotals replaces the record as Replace does. What Report and Forget did before survives if the change does.
	ReplaceTotals(ctx context.Context, from, to Totals) error
}
