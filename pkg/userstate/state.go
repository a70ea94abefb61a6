package userstate

import (
	"slices"
	"time"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/message"
)

// State is the record of one user. An Empty State stands for a user without a record.
type State struct {
	User message.UserID
	// LastViewed is when the user last opened the inbox or logged in, in UTC, to the millisecond; zero if never.
	LastViewed time.Time
	// Horizon is until when fan-out copies messages for the user, in UTC, to the millisecond. It never falls. It is zero if the user was
	// never seen.
	Horizon time.Time
	// Mark says that a rehydration is due or under way; nil if none is.
	Mark *Mark
	// Sweep says that a rehydration has to search for late messages before it is finished; nil otherwise.
	Sweep *Sweep
	// Lease names the worker that works on the Mark or the Sweep. It is zero if there is neither.
	Lease Lease
	// Gaps are the time ranges whose messages readers take from the authors, in the order of time. They do not overlap.
	Gaps []Gap
	// GapsMade counts all gaps that were ever made.
	GapsMade int64
	// Recovered counts the messages that the last rehydration found.
	Recovered int64
	// Head is a hint for the head of the user's inbox.
	Head bucket.Hint
	// ReadMark is up to where the user has read.
	ReadMark bucket.ReadMark
	// Flagged says that the user may have a flag.Record. It is never taken back.
	Flagged bool
	// Seen is how many slots of the inbox the user has seen. It never falls.
	Seen int64
	// Marks counts the changes of ReadMark and Seen by the user.
	Marks int64
	// Purged is the purge point: every message at or below it has expired for this user. It is the last possible id of a millisecond, and
	// only rises. It is zero if nothing has expired. Only State.Purge raises it.
	Purged message.ID
	// Oldest is a hint for where the messages that have not expired begin: a bucket with a floor at or below Purged. It only rises, with
	// Purged.
	Oldest uint32
	// Keep is the user's own retention; zero if the user has none. MaxAge has whole milliseconds. It may be set for a user who
	// was never seen.
	Keep Retention
}

// Known reports whether the user was ever seen. A user who was not has no record, or one that holds other things, such as Keep. Such a
// user has no horizon, and gets no copies.
func (s State) Known() bool { return !s.LastViewed.IsZero() }

// Empty reports whether the state stands for a user without a record. Head does not count.
func (s State) Empty() bool { return s.Same(State{}) }

// Basis returns what the counts of the inbox rest on. The flags are read after the state.
func (s State) Basis(flags flag.Record) bucket.Basis {
	return bucket.Basis{ReadMark: s.ReadMark, Gaps: s.Gaps, Purged: s.Purged, Oldest: s.Oldest, Seen: s.Seen, Flags: flags}
}

// Rehydrating reports whether a rehydration is due or under way, be it only its sweep. The inbox is not complete then.
func (s State) Rehydrating() bool { return s.Mark != nil || s.Sweep != nil }

// MissingFrom returns the earliest time at which a message may have been sent that the rehydration under way has still to append. It
// returns false if there is no rehydration.
func (s State) MissingFrom() (time.Time, bool) {
	switch {
	case s.Mark != nil && s.Sweep != nil:
		return s.sweepFrom(s.Mark.From).From, true
	case s.Mark != nil:
		return s.Mark.From, true
	case s.Sweep != nil:
		return s.Sweep.From, true
	}
	return time.Time{}, false
}

// InGap reports whether a message that was sent at the given time is in a gap.
func (s State) InGap(sent time.Time) bool {
	return slices.ContainsFunc(s.Gaps, func(g Gap) bool { return g.Holds(sent) })
}

// Deliver reports whether fan-out copies a message that was sent at the given time into the user's inbox. Otherwise a rehydration appends
// the message: the one that is due or running, or the next one. A message in a gap stays there, and pages query it.
//
// Deliver compares the time of the message, never the present. So a message that is late is treated like one that is in time. The
// state must have been read after the message was stored. With an older state, a rehydration may have run in between, and no process
// would find the message.
//
// A sweep does not count as a mark, because no sweep follows it. If Deliver leaves a message to a gap, the caller must call Owe.
func (s State) Deliver(sent time.Time) bool {
	if sent.After(s.Horizon) || s.Mark != nil && sent.After(s.Mark.From) {
		return false
	}
	return !s.InGap(sent)
}

// Same reports whether two states agree in everything that Store.Step compares: all fields but User and Head.
func (s State) Same(o State) bool {
	return s.LastViewed.Equal(o.LastViewed) && s.Horizon.Equal(o.Horizon) &&
		same(s.Mark, o.Mark, Mark.same) && same(s.Sweep, o.Sweep, Sweep.same) && s.Lease.same(o.Lease) &&
		slices.EqualFunc(s.Gaps, o.Gaps, Gap.Equal) && s.Recovered == o.Recovered && s.ReadMark == o.ReadMark &&
		s.Flagged == o.Flagged && s.GapsMade == o.GapsMade && s.Seen == o.Seen && s.Marks == o.Marks &&
		s.Purged == o.Purged && s.Oldest == o.Oldest && s.Keep == o.Keep
}

// Mark is the record of a rehydration that is due or under way. While a user has a mark, fan-out leaves all messages that were sent
// after From to the rehydration.
type Mark struct {
	// From is the horizon of the user at the login; zero for a user without a record.
	From time.Time
	// Bounded reports that the worker has decided which messages it leaves to a gap. The worker decides once, before it
	// appends anything. So no message is both in a gap and in a bucket.
	Bounded bool
}

func (m Mark) same(o Mark) bool { return m.From.Equal(o.From) && m.Bounded == o.Bounded }

// Sweep is the record of a rehydration that still has to search for messages that became visible after its query.
type Sweep struct {
	// From is the earliest time at which such a message may have been sent. It is zero if the rehydration of a user without a
	// record left it.
	From time.Time
}

func (w Sweep) same(o Sweep) bool { return w.From.Equal(o.From) }

// MaxLease is the longest time for which a worker may hold or extend a lease.
const MaxLease = time.Hour

// Lease names the worker that works on a rehydration. Another worker may take over a lease that is Dead. If clocks differ, two
// workers may do the same work; that is harmless.
type Lease struct {
	// Token identifies the holder. Every attempt has a token of its own. It is empty if no worker has taken the sweep yet.
	Token string
	// Until is when the lease ends, unless the holder renews it.
	Until time.Time
	// Since is when the rehydration became due.
	Since time.Time
}

func (l Lease) same(o Lease) bool {
	return l.Token == o.Token && l.Until.Equal(o.Until) && l.Since.Equal(o.Since)
}

// Dead says which leases are dead: those that end before Before or after After. A lease that ends later than any holder can set it
// was set by a clock that was ahead. Without this bound, its user would wait until the time of that clock.
type Dead struct{ Before, After time.Time }

// Holds reports whether a lease is dead.
func (d Dead) Holds(l Lease) bool { return l.Until.Before(d.Before) || l.Until.After(d.After) }

// MaxGaps bounds the gaps of a user. A page and a sweep query each gap, and the record of a user holds all of them. A rehydration of a
// user who has so many copies every missed message.
const MaxGaps = 1024

// Gap is a time range of an inbox whose messages are not in buckets.
type Gap = bucket.Gap

// GapCount is the result of counting a gap, with Messages as counted.
type GapCount struct {
	Gap
	// UpTo is that of the read mark by which the messages were counted.
	UpTo message.ID
	// Read counts those of Messages that are at or below UpTo, if UpTo lies in the gap.
	Read int64
}

func same[T any](x, y *T, equal func(T, T) bool) bool {
	if x == nil || y == nil {
		return x == y
	}
	return equal(*x, *y)
}
