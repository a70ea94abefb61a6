package config

import (
	"errors"
	"fmt"

	"github.com/agnivade/levenshtein"
)

// ErrInvalid is what every *InvalidError unwraps to.
var ErrInvalid = errors.New("invalid configuration")

// InvalidError says what is wrong with one key. It unwraps to ErrInvalid.
type InvalidError struct {
	// Key is the key as it is spelt in the file, such as "limits.body"; or the name that is not a key.
	Key string
	// Source is where the value came from: a flag, an environment variable or the name of a file. It is empty if
	// that is not known.
	Source string
	// Reason continues the sentence that Key begins, such as "is empty".
	Reason string
}

// Error returns the sentence, preceded by the source.
func (e *InvalidError) Error() string {
	if e.Source == "" {
		return e.Key + " " + e.Reason
	}
	return e.Source + ": " + e.Key + " " + e.Reason
}

// Unwrap returns ErrInvalid.
func (e *InvalidError) Unwrap() error { return ErrInvalid }

func invalid(source, key, format string, args ...any) *InvalidError {
	return &InvalidError{Key: key, Source: source, Reason: fmt.Sprintf(format, args...)}
}

// nearest returns the known name that takes the fewest edits to come to from name.
func nearest(name string, known []string) string {
	best, least := "", -1
	for _, k := range known {
		if d := levenshtein.ComputeDistance(name, k); least < 0 || d < least {
			best, least = k, d
		}
	}
	return best
}
