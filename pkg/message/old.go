package message

// Old is what decides whether a stored message may be removed.
type Old struct {
	Ref
	Stamp
	// Unfinished says that the deliveries of the message are not known to be done.
	Unfinished bool
	// Err wraps ErrCorrupt if the record is damaged. Then only the id is known.
	Err error
}
