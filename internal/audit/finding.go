package audit

import (
	"github.com/fanmail/fanmail/pkg/message"
)

// Kind is a kind of finding.
type Kind string

// The kinds of findings. There are no others.
const (
	// MissingEntry is a message that should be in the inbox and is not.
	MissingEntry Kind = "missing"
	// ExtraEntry is an entry that does not belong in the inbox.
	ExtraEntry Kind = "extra"
	// DifferentEntry is an entry that differs from its message.
	DifferentEntry Kind = "different"
	// DoubleEntry is a message that is in the inbox more than once; each place but one is a finding.
	DoubleEntry Kind = "double"
	// OutOfOrder is a bucket that breaks an invariant of package bucket.
	OutOfOrder Kind = "out_of_order"
	// GapCount is a gap whose recorded number of messages is wrong, or a read mark's number of read messages in it.
	GapCount Kind = "gap_count"
	// GapOverlap is an entry in a gap, which is counted twice.
	GapOverlap Kind = "gap_overlap"
	// Damaged is a record that cannot be read, or a bucket that is missing below another. If a record cannot be read, it is the only finding
	// of the user, because the audit cannot look at the rest.
	Damaged Kind = "damaged"
)

// Finding is one error in an inbox. Findings are comparable: two looks that find the same error return equal findings.
type Finding struct {
	Kind Kind
	User message.UserID
	// Message is the message concerned, and From its author. Both are zero if the finding concerns no message. From is empty if the
	// message is not stored.
	Message message.ID
	From    message.UserID
	// At is the place in the inbox, if Placed.
	At     Place
	Placed bool
	// Detail says what is wrong.
	Detail string
	// Repaired reports whether the error was repaired and not found again.
	Repaired bool
	// Note says why a requested repair was not made.
	Note string

	// empty marks a slot that has lost its record, fresh a message that may be about to be appended.
	empty, fresh bool
}

// Progress is the progress of an audit.
type Progress struct {
	// Users counts the audited users, Of all users that the audit will look at.
	Users, Of int64
}

// Event is a report of a running audit. One of its fields is set.
type Event struct {
	Progress *Progress
	Finding  *Finding
}

// Summary is the result of an audit.
type Summary struct {
	// Users counts the audited users, Entries the entries in their inboxes, Expected the entries that they must hold.
	Users, Entries, Expected int64
	// Found counts the findings of each kind, Repaired the repaired ones, and Remaining those that exist at the end.
	Found, Repaired, Remaining map[Kind]int64
	// InFlight, DeadLettered and Tolerated count deliveries that could not be judged, Rehydrating counts such users. The package
	// comment explains them.
	InFlight, DeadLettered, Tolerated, Rehydrating int64
}

func newSummary() Summary {
	return Summary{Found: make(map[Kind]int64), Repaired: make(map[Kind]int64), Remaining: make(map[Kind]int64)}
}

// add adds the audit of one user: the findings, and the counts of the last look.
func (s *Summary) add(found []Finding, last *look) {
	s.Users++
	s.Entries += last.entries
	s.Expected += last.expected
	s.InFlight += last.inFlight
	s.DeadLettered += last.deadLettered
	s.Tolerated += last.tolerated
	if last.busy {
		s.Rehydrating++
	}
	for _, f := range found {
		s.Found[f.Kind]++
		if f.Repaired {
			s.Repaired[f.Kind]++
		}
	}
	for _, f := range last.found {
		s.Remaining[f.Kind]++
	}
}
