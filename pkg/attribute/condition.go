package attribute

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fanmail/fanmail/pkg/message"
)

// MaxChoices is how many values the operator in takes at most.
const MaxChoices = 16

// Operator says how a condition compares the value of an entry with its own.
type Operator string

// The operators. All but Exists need the attribute to be present, NotEqual too.
const (
	Equal          Operator = "eq"
	NotEqual       Operator = "ne"
	Less           Operator = "lt"
	LessOrEqual    Operator = "lte"
	Greater        Operator = "gt"
	GreaterOrEqual Operator = "gte"
	In             Operator = "in"
	Exists         Operator = "exists"
)

// operators are the operators of all types but Bool, which has Equal, NotEqual and Exists.
var operators = []Operator{Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual, In, Exists}

// Condition is a condition on one declared attribute of an entry.
type Condition struct {
	Declaration Declaration
	Operator    Operator
	// Values has one value, or several for In. For Exists it has a Bool.
	Values []Value
}

// UndeclaredError says that a condition names an attribute that is not declared.
type UndeclaredError struct {
	// Name is the name, cut after MaxNameBytes.
	Name string
}

// Error names the attribute.
func (e *UndeclaredError) Error() string {
	return fmt.Sprintf("the attribute %q is not declared: declare it first", e.Name)
}

// ParseCondition returns the condition of a text such as total:gte:64.5 in the form NAME:OP:VALUE, which is split at the first two colons. It
// returns an *UndeclaredError, or a *message.InvalidError for the given field.
func (s Set) ParseCondition(field, text string) (Condition, error) {
	invalid := func(format string, args ...any) (Condition, error) {
		return Condition{}, &message.InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
	}
	parts := strings.SplitN(text, ":", 3)
	if len(parts) < 3 {
		return invalid("has the form NAME:OP:VALUE, such as total:gte:64")
	}
	name, op := parts[0], Operator(parts[1])
	d, declared := s.Find(name)
	if !declared {
		return Condition{}, &UndeclaredError{Name: shortened(name)}
	}
	switch {
	case !slices.Contains(operators, op):
		return invalid("has the operator %q: the operators are eq, ne, lt, lte, gt, gte, in and exists", shortened(string(op)))
	case d.Type == Bool && op != Equal && op != NotEqual && op != Exists:
		return invalid("compares %s, which is declared as bool, by %s: a bool takes eq, ne and exists", name, op)
	}
	values, err := d.Type.operands(op, parts[2])
	if err != nil {
		return invalid("has a value for %s that %v", name, err)
	}
	return Condition{Declaration: d, Operator: op, Values: values}, nil
}

// shortened returns the beginning of a text that a client has sent, for an error.
func shortened(text string) string { return text[:min(len(text), MaxNameBytes)] }

// operands parses the value of a condition.
func (t Type) operands(op Operator, text string) ([]Value, error) {
	switch op {
	case Exists:
		t = Bool
	case In:
		choices := split(text)
		if len(choices) > MaxChoices {
			return nil, fmt.Errorf("has %d choices: at most %d are allowed", len(choices), MaxChoices)
		}
		values := make([]Value, len(choices))
		for i, choice := range choices {
			var err error
			if values[i], err = t.operand(choice); err != nil {
				return nil, err
			}
		}
		return values, nil
	default:
	}
	value, err := t.operand(text)
	return []Value{value}, err
}

// operand parses one value of a condition. Its errors continue a sentence that ends with that.
func (t Type) operand(text string) (v Value, err error) {
	switch t {
	case Number:
		if !numeric(text) {
			return v, t.mistyped()
		}
		return parseNumber(text)
	case Bool:
		if v.Bool = text == "true"; !v.Bool && text != "false" {
			return v, errors.New("is neither true nor false")
		}
	case Time:
		if v.Time, err = parseTime(text); err != nil {
			return v, t.mistyped()
		}
	default:
		v.Strings = []string{text}
	}
	return v, nil
}

// numeric reports whether a text is a JSON number. ParseFloat also takes inf, nan, hexadecimal numbers and underscores.
func numeric(text string) bool {
	return strings.Trim(text, "-+.0123456789eE") == "" && json.Valid([]byte(text))
}

// split splits a text at commas. After a backslash, a comma or a backslash stands for itself.
func split(text string) (parts []string) {
	var part strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text) && (text[i+1] == ',' || text[i+1] == '\\'):
			i++
			part.WriteByte(text[i])
		case text[i] == ',':
			parts = append(parts, part.String())
			part.Reset()
		default:
			part.WriteByte(text[i])
		}
	}
	return append(parts, part.String())
}

// Holds reports whether the values of an entry meet the condition.
func (c Condition) Holds(values Values) bool {
	value, present := values[c.Declaration.Name]
	if c.Operator == Exists {
		return present == c.Values[0].Bool
	}
	return present && slices.ContainsFunc(c.Values, func(own Value) bool { return c.matches(value, own) })
}

// matches reports whether a value stands in the relation to one of the condition's own.
func (c Condition) matches(value, own Value) bool {
	switch c.Declaration.Type {
	case Number:
		return c.Operator.relates(cmp.Compare(value.Number, own.Number))
	case Time:
		return c.Operator.relates(cmp.Compare(value.Time, own.Time))
	case Bool:
		return (value.Bool == own.Bool) == (c.Operator == Equal)
	default:
		return slices.ContainsFunc(value.Strings, func(s string) bool { return c.Operator.relates(cmp.Compare(s, own.Strings[0])) })
	}
}

// relates reports whether the operator holds for a value whose comparison with that of the condition has the given sign.
func (o Operator) relates(sign int) bool {
	switch o {
	case NotEqual:
		return sign != 0
	case Less:
		return sign < 0
	case LessOrEqual:
		return sign <= 0
	case Greater:
		return sign > 0
	case GreaterOrEqual:
		return sign >= 0
	default: // Equal and In
		return sign == 0
	}
}
