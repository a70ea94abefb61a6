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
