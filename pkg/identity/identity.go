// Package identity defines identities. An identity is an email address, a phone number or another name, by which a message can address a
// user.
//
// An identity belongs to at most one user at a time. It has two records. The record of the identity names the user. An item in the user's
// list bounds how many identities a user has. The two cannot change together, so the record of the identity decides, and an item says how
// far a change has come.
//
// The value of an identity is personal data. It appears in stores and in answers, and never in a log line, a span, a metric or a dead letter:
// see Identity.String.
package identity

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// Kind says what an identity is, such as an email address.
type Kind string

// The kinds that always exist. A configuration can name more.
const (
	Email  Kind = "email"
	Phone  Kind = "phone"
	Handle Kind = "handle"
	URL    Kind = "url"
)

// Kinds returns the kinds that always exist.
func Kinds() []Kind { return []Kind{Email, Phone, Handle, URL} }

// MaxKindBytes is the greatest length of a kind, and MaxValueBytes that of a value in canonical form.
const (
	MaxKindBytes  = 32
	MaxValueBytes = 512
)

var kindName = regexp.MustCompile(`^[a-z0-9_-]{1,32}$`)

// ValidateFurther returns nil if a configuration may name a kind, or an error whose text continues a sentence that begins with the name.
func (k Kind) ValidateFurther() error {
	switch {
	case !kindName.MatchString(string(k)):
		return fmt.Errorf("cannot be a kind: it must be 1 to %d of a-z, 0-9, _ and -", MaxKindBytes)
	case slices.Contains(Kinds(), k):
		return errors.New("is a kind that always exists: leave it out")
	}
	return nil
}

// Identity is a name of a user, in canonical form. Identities are comparable.
type Identity struct {
	Kind  Kind
	Value string
}

// String returns the kind without the value, because texts end in logs.
func (i Identity) String() string { return "an identity of the kind " + string(i.Kind) }

// Format writes String for every verb, so that no way to print an identity shows the value.
func (i Identity) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(i.String())) }

// MarshalJSON returns the kind without the value, for logs. Answers and events have types of their own.
func (i Identity) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `{"kind":%q}`, string(i.Kind)), nil
}

// Key returns the stored name of an identity: kind:value. A kind has no colon, so no two identities share a key.
func (i Identity) Key() string { return string(i.Kind) + ":" + i.Value }
