package attribute_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/message"
)

// all declares an attribute of each type, named after the type.
var all = attribute.NewSet(5, []attribute.Declaration{
	{Name: "string", Type: attribute.String, Number: 1},
	{Name: "strings", Type: attribute.Strings, Number: 2},
	{Name: "number", Type: attribute.Number, Number: 3},
	{Name: "bool", Type: attribute.Bool, Number: 4},
	{Name: "time", Type: attribute.Time, Number: 5},
})

func TestCheckReadsValues(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 31, 8, 0, 0, 123_000_000, time.UTC)
	for attrs, want := range map[string]attribute.Values{
		``:                             {},
		`{}`:                           {},
		`{"other":null,"String":1}`:    {},
		`{"string":""}`:                {"string": {Strings: []string{""}}},
		`{"str\u0069ng":"\u00e9:,\\"}`: {"string": {Strings: []string{"é:,\\"}}},
		`{"strings":["a","b","a"]}`:    {"strings": {Strings: []string{"a", "b", "a"}}},
		`{"strings":[]}`:               {"strings": {}},
		`{"number":64.50}`:             {"number": {Number: 64.5}},
		`{"number":-0}`:                {"number": {}},
		`{"number":1e3,"bool":true}`:   {"number": {Number: 1000}, "bool": {Bool: true}},
		`{"bool":false}`:               {"bool": {}},
		`{"time":"2026-01-31T09:00:00.123999+01:00"}`:  {"time": {Time: at.UnixMilli()}},
		`{"nested":{"number":"no number"},"number":1}`: {"number": {Number: 1}},
	} {
		checked, err := all.Check(json.RawMessage(attrs))
		require.NoError(t, err, attrs)
		require.Equal(t, want, checked, attrs)
		require.Equal(t, want, all.Read(json.RawMessage(attrs)), attrs)
	}
}

// TestCheckRefuses checks that a value of another type is refused at publish. A message from before the declaration does not have the attribute.
func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	for attrs, want := range map[string]string{
		`{"string":1}`:                `attrs.string is declared as string, and is not a string`,
		`{"string":null}`:             `attrs.string is declared as string, and is not a string`,
		`{"strings":"a"}`:             `attrs.strings is declared as strings, and is not a list of strings`,
		`{"strings":["a",null]}`:      `attrs.strings is declared as strings, and is not a list of strings`,
		`{"number":"1"}`:              `attrs.number is declared as number, and is not a number`,
		`{"number":[1]}`:              `attrs.number is declared as number, and is not a number`,
		`{"number":9007199254740993}`: `attrs.number is a number that a float64 cannot hold as it is written: round it, or declare the attribute as string`,
		`{"number":1e400}`:            `attrs.number is a number that a float64 cannot hold as it is written: round it, or declare the attribute as string`,
		`{"number":1e-400}`:           `attrs.number is a number that a float64 cannot hold as it is written: round it, or declare the attribute as string`,
		`{"bool":"true"}`:             `attrs.bool is declared as bool, and is not true or false`,
		`{"time":"yesterday"}`:        `attrs.time is declared as time, and is not a time such as "2026-01-31T08:00:00Z"`,
		`{"time":1769846400}`:         `attrs.time is declared as time, and is not a time such as "2026-01-31T08:00:00Z"`,
	} {
		_, err := all.Check(json.RawMessage(attrs))
		require.ErrorIs(t, err, message.ErrInvalid, attrs)
		require.EqualError(t, err, want)
		require.Empty(t, all.Read(json.RawMessage(attrs)), attrs)
	}
	_, err := all.Check(json.RawMessage(`{"number":1,"n\u0075mber":1}`))
	require.EqualError(t, err, "attrs.number is there twice, and is declared to be filtered by: leave one out")
	require.Equal(t, attribute.Values{"number": {Number: 2}}, all.Read(json.RawMessage(`{"number":1,"number":2}`)), "the last counts")
	require.Empty(t, all.Read(json.RawMessage(`{"number":1,"number":"2"}`)), "the last counts, and is no number")
}

// TestNumbersSurvive compares with exact arithmetic: a number is taken if, and only if, the decimal that a float64 is printed as is the same number.
func TestNumbersSurvive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		literal := rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?`).Draw(t, "number")
		_, err := all.Check(json.RawMessage(`{"number":` + literal + `}`))
		if survives(t, literal) {
			require.NoError(t, err, literal)
		} else {
			require.Error(t, err, literal)
		}
	})
}

func TestDeclarationsAreChecked(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"": "name is empty", "a b": "name holds ' ': a name has letters and digits of ASCII, _ and -", "é": "name holds 'é': a name has letters and digits of ASCII, _ and -",
		strings.Repeat("x", 65): "name has 65 bytes: at most 64 are allowed", "total": "", "Due-Date_2": "", strings.Repeat("x", 64): "",
	} {
		err := attribute.Declaration{Name: name, Type: attribute.Number}.Validate()
		if want == "" {
			require.NoError(t, err, name)
		} else {
			require.EqualError(t, err, want)
		}
	}
	require.EqualError(t, attribute.Declaration{Name: "total", Type: "float"}.Validate(), `type is "float": the types are string, strings, number, bool and time`)
}
