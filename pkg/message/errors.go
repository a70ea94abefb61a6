package message

import (
	"errors"
	"fmt"
)

var (
	// ErrInvalid is what every *InvalidError unwraps to.
	ErrInvalid = errors.New("invalid")
	// ErrNotFound says that no such message is stored.
	ErrNotFound = errors.New("message not found")
	// ErrUnavailable says that a store, of whatever kind, cannot be reached, does not answer in time, or fails for a reason that may
	// pass. What was asked of it may have happened all the same.
	ErrUnavailable = errors.New("the store is unavailable")
	// ErrCorrupt says that a stored record, of whatever kind, cannot be read. Trying again does not help.
	ErrCorrupt = errors.New("stored record is corrupt")
	// ErrKeyReused says that an idempotency key was used before for a message with other content.
	ErrKeyReused = errors.New("idempotency key was used for another message")
	// ErrKeyChanged says that a key's reservation is no longer the one that was to be replaced.
	ErrKeyChanged = errors.New("idempotency key reservation has changed")
)

// InvalidError says which field of an input is wrong, and why. It unwraps to ErrInvalid.
type InvalidError struct {
	// Field is the name of the field as it is spelt in JSON, such as "to[3]".
	Field string
	// Reason continues the sentence that Field begins, such as "is empty".
	Reason string
}

// Error returns the field and the reason as one sentence.
func (e *InvalidError) Error() string { return e.Field + " " + e.Reason }

// Unwrap returns ErrInvalid.
func (e *InvalidError) Unwrap() error { return ErrInvalid }

func invalid(field, format string, args ...any) error {
	return &InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}
