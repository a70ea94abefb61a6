package audit

import (
	"github.com/fanmail/fanmail/pkg/message"
)

// Kind is what is wrong.
type Kind string

// The kinds of findings. There are no others.
const (
	// MissingEntry is a message that should be in the inbox and is not.
	MissingEntry Kind = "missing"
	// ExtraEntry is an entry that does not belong into the inbox.
	ExtraEntry Kind = "extra"
	// DifferentEntry is an entry that does not say what the message says.
	DifferentEntry Kind = "different"
	// DoubleEntry is a message that is in the inbox more than once; each place but one is a finding.
	DoubleEntry Kind = "double"
	// OutOfOrder is a bucket that breaks an invariant of package bucket.
	OutOfOrder Kind = "out_of_order"
	// GapCount is a gap that has not as many messages as it says.
	GapCount Kind = "gap_count"
	// GapOverlap is an entry in a gap, which is counted twice.
	GapOverlap Kind = "gap_overlap"
)

// Finding is something that is wrong with an inbox. It is comparable: two looks that find the same find equal ones.
type Finding struct {
	Kind Kind
	User message.UserID
	// Message is the message that it is about, and From its author. Both are zero where it is about none; From is empty
	// where there is no such message.
	Message message.ID
	From    message.UserID
	// At is where in the inbox, if Placed.
	At     Place
	Placed bool
	// Detail says what is wrong.
	Detail string
	// Repaired tells that it was repaired, and was not found again after that.
	Repaired bool
	// Note says, after a repair was asked for, why this was not repaired.
	Note string

	// empty marks a slot that has lost its record, fresh a message that may be about to be appended.
	empty, fresh bool
}

// Progress is how far an audit is.
type Progress struct {
	// Users counts those who have been audited, Of those who are going to be.
	Users, Of int64
}

// Event is something that an audit tells while it runs: one of its fields is set.
type Event struct {
	Progress *Progress
	Finding  *Finding
}

// Summary is what an audit came to.
type Summary struct {
	// Users counts the users who were audited, Entries what their inboxes hold, Expected what they have to hold.
	Users, Entries, Expected int64
	// Found counts the findings of each kind, Repaired those that were repaired, and Remaining those that are there at the
	// end.
	Found, Repaired, Remaining map[Kind]int64
	// InFlight, DeadLettered and Tolerated count deliveries, Rehydrating counts users, that could not be judged. The package
	// comment tells what they are.
	InFlight, DeadLettered, Tolerated, Rehydrating int64
}

func newSummary() Summary {
	return Summary{Found: make(map[Kind]int64), Repaired: make(map[Kind]int64), Remaining: make(map[Kind]int64)}
}

// add adds what an audit of one user came to: what was found, and what the last look saw.
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
