package verdict

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
	// Counts is an inbox whose counts are not those of its messages.
	Counts Kind = "counts"
	// PurgedAhead is a purge point in the future: messages expire as soon as they arrive.
	PurgedAhead Kind = "purged_ahead"
	// Damaged is a record that cannot be read, or a bucket that is missing below another. If a record cannot be read, it is the only finding
	// of the user, because the audit cannot look at the rest.
	Damaged Kind = "damaged"
)

// Progress is the progress of an audit.
type Progress struct {
	// Users counts the audited users, Of all users that the audit will check.
	Users int64 `json:"users"`
	Of    int64 `json:"of"`
}

// Summary is the result of an audit.
type Summary struct {
	// Users counts the audited users. Entries counts the entries in their inboxes that are neither deleted nor expired, and Expected the entries
	// that must be there. They differ by findings and by what InFlight to Rehydrating count.
	Users    int64 `json:"users"`
	Entries  int64 `json:"entries"`
	Expected int64 `json:"expected"`
	// Found, Repaired and Remaining count the findings of each kind. A kind without findings has no key.
	Found     map[Kind]int64 `json:"found"`
	Repaired  map[Kind]int64 `json:"repaired"`
	Remaining map[Kind]int64 `json:"remaining"`
	// InFlight, DeadLettered and Tolerated count deliveries that are no findings. InFlight are on their way. DeadLettered were given up.
	// Tolerated were sent close to the beginning or end of a follow, or after the user became dormant: an inbox with the message and an inbox
	// without it are both correct.
	InFlight     int64 `json:"in_flight"`
	DeadLettered int64 `json:"dead_lettered"`
	Tolerated    int64 `json:"tolerated"`
	// Rehydrating counts users whose inboxes were being rebuilt. The audit cannot check them for missing messages.
	Rehydrating int64 `json:"rehydrating"`
}
