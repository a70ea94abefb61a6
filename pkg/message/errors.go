package message

import (
	"errors"
	"fmt"
)

var (
	// ErrInvalid is the sentinel that every *InvalidError wraps.
	ErrInvalid = errors.New("invalid")
	// ErrNotFound says that the store does not hold the message.
	ErrNotFound = errors.New("message not found")
	// ErrUnavailable says that any of the stores cannot be reached, does not answer in time, or has a temporary failure. The store
	// may have carried out the operation nevertheless.
	ErrUnavailable = errors.New("the store is unavailable")
	// ErrCorrupt says that a record of any of the stores cannot be read. Trying again does not help.
	ErrCorrupt = errors.New("stored record is corrupt")
	// ErrKeyReused says that an idempotency key was used before for a message with other content.
	ErrKeyReused = errors.New("idempotency key was used for another message")
	// ErrKeyChanged says that another caller has changed the reservation that Replace was to change.
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
