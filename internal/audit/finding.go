package audit

import (
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/verdict"
)

// Finding is one error in an inbox. Findings are comparable: two looks that find the same error return equal findings.
type Finding struct {
	Kind verdict.Kind
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

// Event is a report of a running audit. One of its fields is set.
type Event struct {
	Progress *verdict.Progress
	Finding  *Finding
}

func newSummary() verdict.Summary {
	counts := func() map[verdict.Kind]int64 { return make(map[verdict.Kind]int64) }
	return verdict.Summary{Found: counts(), Repaired: counts(), Remaining: counts()}
}

// count adds the audit of one user to a summary: the findings, and the counts of the last look.
func count(s *verdict.Summary, found []Finding, last *look) {
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
