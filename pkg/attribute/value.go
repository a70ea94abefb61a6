package attribute

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/fanmail/fanmail/pkg/message"
)

// Value is the value of an attribute. Its type says which field it has.
type Value struct {
	// Strings has one element for String, and any number for Strings.
	Strings []string
	Number  float64
	Bool    bool
	// Time is in milliseconds since 1970.
	Time int64
}

// Values are the values of the declared attributes that a message has, by name.
type Values map[string]Value

// Check returns the values of the declared attributes in attrs, which is a JSON object or empty. It returns a *message.InvalidError if a declared
// attribute is there twice, or has a value of another type. The error does not hold the value, because errors end in logs.
func (s Set) Check(attrs json.RawMessage) (Values, error) {
	values := make(Values)
	err := s.each(attrs, func(d Declaration, value json.RawMessage) error {
		if _, twice := values[d.Name]; twice {
			return &message.InvalidError{Field: "attrs." + d.Name, Reason: "is there twice, and is declared to be filtered by: leave one out"}
		}
		parsed, err := d.Type.parse(value)
		if err != nil {
			return &message.InvalidError{Field: "attrs." + d.Name, Reason: err.Error()}
		}
		values[d.Name] = parsed
		return nil
	})
	return values, err
}

// Read returns the values of the declared attributes in attrs. It leaves out those that Check refuses: they are of messages that were published
// before the declaration. Of an attribute that is there twice, the last value counts.
func (s Set) Read(attrs json.RawMessage) Values {
	values := make(Values)
	_ = s.each(attrs, func(d Declaration, value json.RawMessage) error { // do returns no error, and attrs that are no object have no values
		parsed, err := d.Type.parse(value)
		if delete(values, d.Name); err == nil {
			values[d.Name] = parsed
		}
		return nil
	})
	return values
}

// each calls do with each declared attribute at the top level of a JSON object, until do fails.
func (s Set) each(attrs json.RawMessage, do func(d Declaration, value json.RawMessage) error) error {
	if len(attrs) == 0 || len(s.byName) == 0 {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(attrs))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return errors.Join(err, errors.New("attrs is not a JSON object"))
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return fmt.Errorf("attrs: %w", err)
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return fmt.Errorf("attrs: %w", err)
		}
		if d, declared := s.byName[fmt.Sprint(name)]; declared {
			if err := do(d, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// parse returns a JSON value of the type. Its errors continue a sentence that begins with the attribute.
func (t Type) parse(raw json.RawMessage) (v Value, err error) {
	if bytes.Equal(raw, []byte("null")) {
		return v, t.mistyped()
	}
	var text string
	switch t {
	case String:
		v.Strings = make([]string, 1)
		err = json.Unmarshal(raw, &v.Strings[0])
	case Strings:
		var list []*string // a null in a list would become an empty string
		if err = json.Unmarshal(raw, &list); err == nil {
			for _, s := range list {
				if s == nil {
					return Value{}, t.mistyped()
				}
				v.Strings = append(v.Strings, *s)
			}
		}
	case Number:
		var literal json.Number
		if raw[0] == '"' || json.Unmarshal(raw, &literal) != nil {
			return v, t.mistyped()
		}
		return parseNumber(literal.String())
	case Bool:
		err = json.Unmarshal(raw, &v.Bool)
	case Time:
		if err = json.Unmarshal(raw, &text); err == nil {
			v.Time, err = parseTime(text)
		}
	}
	if err != nil {
		return Value{}, t.mistyped()
	}
	return v, nil
}

// mistyped returns the error of a JSON value of another type.
func (t Type) mistyped() error {
	form := map[Type]string{
		String: "a string", Strings: "a list of strings", Number: "a number", Bool: "true or false", Time: "a time such as \"2026-01-31T08:00:00Z\"",
	}[t]
	return fmt.Errorf("is declared as %s, and is not %s", t, form)
}

func parseTime(text string) (int64, error) {
	at, err := message.ParseTime(text)
	return at.UnixMilli(), err
}

// parseNumber returns a number that a float64 holds as it is written: the shortest decimal that means the float64 is the same number.
func parseNumber(literal string) (Value, error) {
	n, err := strconv.ParseFloat(literal, 64)
	if err != nil || decimalOf(literal) != decimalOf(strconv.FormatFloat(n, 'g', -1, 64)) {
		return Value{}, errors.New("is a number that a float64 cannot hold as it is written: round it, or declare the attribute as string")
	}
	return Value{Number: n + 0}, nil // minus zero becomes zero
}

// decimal is a decimal number in one form: digits without zeros at either end, times ten to the power of exponent.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

// decimalOf returns the number that a JSON number means.
func decimalOf(literal string) decimal {
	mantissa, power, _ := strings.Cut(strings.ToLower(literal), "e")
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	exponent, _ := strconv.Atoi(strings.TrimPrefix(power, "+")) // it is not too large where ParseFloat takes the number, or the number is zero
	digits := strings.TrimLeft(whole+fraction, "0")
	d := decimal{negative: strings.HasPrefix(mantissa, "-"), digits: strings.TrimRight(digits, "0")}
	if d.digits == "" {
		return decimal{}
	}
	d.exponent = exponent - len(fraction) + len(digits) - len(d.digits)
	return d
}
