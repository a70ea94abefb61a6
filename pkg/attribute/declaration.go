package attribute

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// Max is how many attributes are declared at most.
	Max = 32
	// MaxNameBytes is the greatest length of a name, in bytes.
	MaxNameBytes = 64
)

// Type is the type of an attribute's values.
type Type string

// The types.
const (
	// String is a JSON string. Strings are compared by their bytes.
	String Type = "string"
	// Strings is a JSON array of strings. A condition holds if one of them matches.
	Strings Type = "strings"
	// Number is a JSON number that a float64 holds exactly as it is written.
	Number Type = "number"
	// Bool is true or false.
	Bool Type = "bool"
	// Time is a JSON string in the form of RFC 3339: an instant. Times are compared to the millisecond.
	Time Type = "time"
)

// Types returns all types.
func Types() []Type { return []Type{String, Strings, Number, Bool, Time} }

// Declaration declares an attribute.
type Declaration struct {
	Name string
	Type Type
	// Number is greater than that of every earlier declaration.
	Number int
}

// Validate returns nil, or a *message.InvalidError for the field name or type. It does not check the number.
func (d Declaration) Validate() error {
	if err := ValidateName(d.Name); err != nil {
		return err
	}
	if !slices.Contains(Types(), d.Type) {
		return &message.InvalidError{Field: "type", Reason: fmt.Sprintf("is %q: the types are string, strings, number, bool and time", string(d.Type))}
	}
	return nil
}

// ValidateName returns nil, or a *message.InvalidError for the field name.
func ValidateName(name string) error {
	switch {
	case name == "":
		return &message.InvalidError{Field: "name", Reason: "is empty"}
	case len(name) > MaxNameBytes:
		return &message.InvalidError{Field: "name", Reason: fmt.Sprintf("has %d bytes: at most %d are allowed", len(name), MaxNameBytes)}
	}
	for _, r := range name {
		if r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
			return &message.InvalidError{Field: "name", Reason: fmt.Sprintf("holds %q: a name has letters and digits of ASCII, _ and -", r)}
		}
	}
	return nil
}

// Set holds the declarations of one moment. The zero Set has none. It is immutable, and safe for concurrent use.
type Set struct {
	greatest int
	byName   map[string]Declaration
}

// NewSet returns the set of some declarations. greatest is the greatest number ever given, also to an attribute that is not declared any more.
func NewSet(greatest int, declared []Declaration) Set {
	s := Set{greatest: greatest, byName: make(map[string]Declaration, len(declared))}
	for _, d := range declared {
		s.byName[d.Name] = d
	}
	return s
}

// Greatest returns the greatest number ever given, or 0.
func (s Set) Greatest() int { return s.greatest }

// Len returns how many attributes are declared.
func (s Set) Len() int { return len(s.byName) }

// All returns the declarations in the order of their names.
func (s Set) All() []Declaration {
	return slices.SortedFunc(maps.Values(s.byName), func(x, y Declaration) int { return cmp.Compare(x.Name, y.Name) })
}

// Find returns the declaration of a name, if there is one.
func (s Set) Find(name string) (Declaration, bool) {
	d, found := s.byName[name]
	return d, found
}
