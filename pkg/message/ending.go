package message

// Ending is what the fan-out of a message came to. It never changes.
type Ending struct {
	// Delivered counts recipients whose inbox got the message, and Skipped those whom fan-out left to rehydration.
	Delivered, Skipped int64
	// GivenUp counts the partitions in which an operator gave the fan-out up. The message may be missing from inboxes there.
	GivenUp int64
	// Closed is the number of the round through all users during which the fan-out was known to have ended.
	Closed int64
}

// Conclusion is an Ending for a message.
type Conclusion struct {
	// Ref names the message and its author.
	Ref    Ref
	Ending Ending
}

// Fate is what the canonical store says about the end of a message's fan-out.
type Fate struct {
	// Ref names the message and its author. It is zero if the message is not stored.
	Ref Ref
	// Concluded reports that the message has an Ending.
	Concluded bool
	Ending    Ending
	// Err wraps ErrCorrupt if the record is damaged. Then the rest is zero.
	Err error
}

// Over reports whether there is nothing left to fan out: the message is concluded, or it is not stored any more.
func (f Fate) Over() bool { return f.Err == nil && (f.Concluded || f.Ref == Ref{}) }
