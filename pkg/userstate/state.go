package userstate

import (
	"slices"
	"time"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// State is what is recorded of one user. The zero State, with the user's id, stands for a user never seen.
type State struct {
	User message.UserID
	// LastViewed is when the user last looked, in UTC, to the millisecond; zero if never.
	LastViewed time.Time
	// Mark says that a rehydration is due or under way; nil if none is.
	Mark *Mark
	// Sweep says that a rehydration has to look once more before it is finished; nil if none has to.
	Sweep *Sweep
	// Lease says who is at the Mark or the Sweep. It is zero if there is neither.
	Lease Lease
	// Gaps are stretches of the inbox that are answered by fan out on read, in the order of time. They do not overlap.
	Gaps []Gap
	// Recovered counts the messages that the last rehydration found.
	Recovered int64
	// Head is where the head of the user's inbox was last seen. It may be behind, never ahead.
	Head bucket.Hint
	// ReadMark is up to where the user has read.
	ReadMark bucket.ReadMark
}

// Known tells whether there is a record of the user.
func (s State) Known() bool { return !s.LastViewed.IsZero() }

// Rehydrating tells whether a rehydration is due or under way, so that the inbox is not complete.
func (s State) Rehydrating() bool { return s.Mark != nil }

// InGap tells whether a message that was sent at the given time is in a gap.
func (s State) InGap(sent time.Time) bool {
	return slices.ContainsFunc(s.Gaps, func(g Gap) bool { return g.Holds(sent) })
}

// Same tells whether two states agree in everything that Store.Step compares.
func (s State) Same(o State) bool {
	return s.LastViewed.Equal(o.LastViewed) && same(s.Mark, o.Mark, Mark.same) && same(s.Sweep, o.Sweep, Sweep.same) &&
		s.Lease.same(o.Lease) && slices.EqualFunc(s.Gaps, o.Gaps, Gap.Equal) && s.Recovered == o.Recovered
}

// Mark is the record of a rehydration that is due or under way. While it is there, fan-out leaves to the
// rehydration whatever was sent after From.
type Mark struct {
	// From is the horizon that the user had when they came back; zero for a user never seen before.
	From time.Time
	// Bounded tells that it has been decided what is left to a gap. It is decided once, before anything is appended: so a
	// gap holds nothing that is also in a bucket.
	Bounded bool
}

func (m Mark) same(o Mark) bool { return m.From.Equal(o.From) && m.Bounded == o.Bounded }

// Sweep is the record of a rehydration that has yet to look for messages which became visible behind its back.
type Sweep struct {
	// From is when the first of them may have been sent.
	From time.Time
}

func (w Sweep) same(o Sweep) bool { return w.From.Equal(o.From) }

// Lease says who is at a rehydration. Whoever finds it dead may take it over: clocks that disagree about that cost
// some work done twice, and nothing else.
type Lease struct {
	// Token is the holder's: no two attempts have the same.
	Token string
	// Until is when the lease is dead unless it is renewed.
	Until time.Time
	// Since is when the rehydration became due.
	Since time.Time
}

func (l Lease) same(o Lease) bool {
	return l.Token == o.Token && l.Until.Equal(o.Until) && l.Since.Equal(o.Since)
}

// Gap is a time range of an inbox whose messages are not in buckets.
type Gap = bucket.Gap

func same[T any](x, y *T, equal func(T, T) bool) bool {
	if x == nil || y == nil {
		return x == y
	}
	return equal(*x, *y)
}
