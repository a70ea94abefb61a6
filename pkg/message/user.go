package message

import (
	"unicode"
	"unicode/utf8"
)

// MaxUserIDBytes is the greatest length of a UserID, in bytes of UTF-8.
const MaxUserIDBytes = 128

// UserID names a user: as the author of messages, as a recipient, or as the owner of an inbox. It is 1 to
// MaxUserIDBytes bytes of UTF-8 without control, format or invisible characters, white space or '/', and neither "."
// nor "..". So it can be one segment of a URL path, a zero byte can end it in a store's key, and no two ids
// differ in what nobody sees. User ids are ordered byte by byte.
type UserID string

// Validate returns nil, or an *InvalidError for the named field that says what is wrong with the id.
func (u UserID) Validate(field string) error {
	switch {
	case u == "":
		return invalid(field, "is empty: a user id has 1 to %d bytes", MaxUserIDBytes)
	case len(u) > MaxUserIDBytes:
		return invalid(field, "has %d bytes: a user id has at most %d", len(u), MaxUserIDBytes)
	}
	return validateID(field, string(u), "a user id")
}

// validateID returns nil, or an *InvalidError that says which rule a user id or a segment of a topic breaks.
func validateID(field, id, kind string) error {
	switch {
	case id == "." || id == "..":
		return invalid(field, "is %q, which cannot be %s", id, kind)
	case !utf8.ValidString(id):
		return invalid(field, "is not valid UTF-8")
	}
	for _, r := range id {
		switch {
		case r == '/':
			return invalid(field, "contains '/', which %s may not", kind)
		case unicode.IsControl(r):
			return invalid(field, "contains the control character %U", r)
		case unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point):
			return invalid(field, "contains the invisible character %U", r)
		case unicode.IsSpace(r):
			return invalid(field, "contains white space (%U)", r)
		}
	}
	return nil
}
