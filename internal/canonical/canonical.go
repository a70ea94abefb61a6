// Package canonical brings the values of identities into canonical form, so that two ways to write an email address or a phone number are one
// identity. Each form has a version. It rises when a release forms any value in another way, be it because a library or a table of Unicode does.
//
// The canonical form of a canonical form is the form itself: a value of which this is not so is refused. Errors say what is wrong with a value
// and never repeat it, because errors end in logs.
package canonical

import (
	"fmt"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
)

// Version returns the version of the form of a kind. A release that changes a form raises its version.
func Version(identity.Kind) int { return 1 }

const (
	// maxInput bounds the work for a value, in bytes. It has room for a fragment or for separators, which a form drops.
	maxInput = 4096

	maxEmail   = 254
	maxHandle  = 64
	maxURL     = identity.MaxValueBytes
	maxFurther = 128
)

// Forms has the kinds of a process and their forms. It is immutable.
type Forms struct {
	forms map[identity.Kind]form
}

// form returns the canonical form of a value, or what is wrong with the value: a text that continues a sentence.
type form func(value string) (string, refusal)

// refusal says what is wrong with a value; "" is nothing.
type refusal string

// New returns the forms of the kinds that always exist, and of further ones, which identity.Kind.ValidateFurther has accepted.
func New(further []identity.Kind) Forms {
	f := Forms{forms: map[identity.Kind]form{identity.Email: email, identity.Phone: phone, identity.Handle: handle, identity.URL: webAddress}}
	for _, kind := range further {
		f.forms[kind] = asGiven
	}
	return f
}

// Identity returns the identity of a kind and a value in any form. It returns a *message.InvalidError for the field kind or value. Its reason
// has neither.
func (f Forms) Identity(kind, value string) (identity.Identity, error) {
	form, known := f.forms[identity.Kind(kind)]
	if !known {
		return identity.Identity{}, &message.InvalidError{Field: "kind", Reason: "is unknown: it must be email, phone, handle, url, or one of identities.kinds in the configuration"}
	}
	canonical, wrong := stable(form, value)
	if wrong != "" {
		return identity.Identity{}, &message.InvalidError{Field: "value", Reason: string(wrong)}
	}
	return identity.Identity{Kind: identity.Kind(kind), Value: canonical}, nil
}

// stable returns the form of a value if it is its own form.
func stable(form form, value string) (string, refusal) {
	switch {
	case value == "":
		return "", "is empty"
	case len(value) > maxInput:
		return "", tooLong(len(value), maxInput)
	case !utf8.ValidString(value):
		return "", "is not valid UTF-8"
	}
	canonical, wrong := form(value)
	switch {
	case wrong != "":
		return "", wrong
	case canonical == "":
		return "", "is empty"
	}
	if canonical == value { // as most values of a publisher
		return canonical, ""
	}
	if again, wrong := form(canonical); wrong != "" || again != canonical {
		return "", "has no form of its own: its canonical form means another value"
	}
	return canonical, ""
}

func tooLong(bytes, most int) refusal {
	return refusal(fmt.Sprintf("has %d bytes: it can have at most %d", bytes, most))
}

// asGiven is the form of further kinds.
func asGiven(value string) (string, refusal) {
	value = norm.NFC.String(value)
	for _, r := range value {
		if unicode.In(r, unicode.Cc, unicode.Cf) {
			return "", "contains a control or format character"
		}
	}
	if len(value) > maxFurther {
		return "", tooLong(len(value), maxFurther)
	}
	return value, ""
}

// unprintable reports whether a value has white space, a control character, an invisible one, or one that Unicode has not assigned. A later
// version of Unicode may form an unassigned one in another way.
func unprintable(value string) bool {
	for _, r := range value {
		if r == ' ' || !unicode.IsPrint(r) {
			return true
		}
	}
	return false
}
