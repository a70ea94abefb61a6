package attribute_test

import (
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/message"
)

// survives reports whether a number equals, in exact arithmetic, the decimal that its float64 is printed as.
func survives(t require.TestingT, literal string) bool {
	exact, ok := new(big.Rat).SetString(literal)
	require.True(t, ok)
	n, err := strconv.ParseFloat(literal, 64)
	require.NoError(t, err)
	printed, ok := new(big.Rat).SetString(strconv.FormatFloat(n, 'g', -1, 64))
	require.True(t, ok)
	return exact.Cmp(printed) == 0
}

func TestConditions(t *testing.T) {
	t.Parallel()
	const attrs = `{"string":"b:,c","strings":["ann","ben"],"number":64.5,"bool":true,"time":"2026-01-31T08:00:00.5Z"}`
	for condition, want := range map[string]bool{
		"string:eq:b:,c": true, "string:eq:b": false, "string:ne:b": true, "string:ne:b:,c": false, "string:lt:c": true, "string:gte:b:,c": true, "string:gt:b:,c": false,
		`string:in:a,b:\,c`: true, `string:in:b:,c`: false, `string:in:`: false, "string:exists:true": true, "string:exists:false": false,
		"strings:eq:ben": true, "strings:eq:cid": false, "strings:ne:ben": true, "strings:gt:ann": true, "strings:lt:ann": false, "strings:in:cid,ann": true,
		"number:eq:64.50": true, "number:eq:6.45e1": true, "number:gt:64": true, "number:lte:64.5": true, "number:lt:64.5": false, "number:ne:0": true, "number:in:1,64.5": true,
		"bool:eq:true": true, "bool:ne:true": false, "bool:eq:false": false, "bool:ne:false": true, "bool:exists:true": true,
		"time:eq:2026-01-31T09:00:00.500+01:00": true, "time:lt:2026-01-31T08:00:00.501Z": true, "time:gt:2026-01-31T08:00:00.5004Z": false, "time:gte:2026-01-31T08:00:00.5004Z": true,
	} {
		c, err := all.ParseCondition("attr", condition)
		require.NoError(t, err, condition)
		require.Equal(t, want, c.Holds(all.Read(json.RawMessage(attrs))), condition)
		require.Equal(t, c.Operator == attribute.Exists && condition == "string:exists:false", c.Holds(nil), "without the attribute: %s", condition)
	}
}

func TestConditionsAreRefused(t *testing.T) {
	t.Parallel()
	for condition, want := range map[string]string{
		"":                                     "attr has the form NAME:OP:VALUE, such as total:gte:64",
		"number:eq":                            "attr has the form NAME:OP:VALUE, such as total:gte:64",
		"number:is:1":                          `attr has the operator "is": the operators are eq, ne, lt, lte, gt, gte, in and exists`,
		"bool:lt:true":                         "attr compares bool, which is declared as bool, by lt: a bool takes eq, ne and exists",
		"bool:in:true":                         "attr compares bool, which is declared as bool, by in: a bool takes eq, ne and exists",
		"bool:eq:1":                            "attr has a value for bool that is neither true nor false",
		"string:exists:yes":                    "attr has a value for string that is neither true nor false",
		"number:eq:x":                          "attr has a value for number that is declared as number, and is not a number",
		"number:eq:64" + " ":                   "attr has a value for number that is declared as number, and is not a number",
		"number:eq:":                           "attr has a value for number that is declared as number, and is not a number",
		"number:eq:NaN":                        "attr has a value for number that is declared as number, and is not a number",
		"number:in:1,0x10":                     "attr has a value for number that is declared as number, and is not a number",
		"number:gt:1e999":                      "attr has a value for number that is a number that a float64 cannot hold as it is written: round it, or declare the attribute as string",
		"time:gt:noon":                         `attr has a value for time that is declared as time, and is not a time such as "2026-01-31T08:00:00Z"`,
		"string:in:" + strings.Repeat(",", 16): "attr has a value for string that has 17 choices: at most 16 are allowed",
	} {
		_, err := all.ParseCondition("attr", condition)
		require.ErrorIs(t, err, message.ErrInvalid, condition)
		require.EqualError(t, err, want, condition)
	}
}

func TestUndeclared(t *testing.T) {
	t.Parallel()
	_, err := all.ParseCondition("attr", "invoice:eq:1")
	require.Equal(t, &attribute.UndeclaredError{Name: "invoice"}, err)
	require.EqualError(t, err, `the attribute "invoice" is not declared: declare it first`)
}

// TestChoicesAtRandom splits what was joined with escapes.
func TestChoicesAtRandom(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		choices := rapid.SliceOfN(rapid.StringMatching(`[ab,\\:]{0,4}`), 1, attribute.MaxChoices).Draw(t, "choices")
		escaped := make([]string, len(choices))
		for i, choice := range choices {
			escaped[i] = strings.NewReplacer(`\`, `\\`, `,`, `\,`).Replace(choice)
		}
		c, err := all.ParseCondition("attr", "string:in:"+strings.Join(escaped, ","))
		require.NoError(t, err)
		var got []string
		for _, v := range c.Values {
			got = append(got, v.Strings...)
		}
		require.Equal(t, choices, got)
		value := rapid.SampledFrom(append(slices.Clone(choices), "z")).Draw(t, "value")
		require.Equal(t, value != "z", c.Holds(attribute.Values{"string": {Strings: []string{value}}}))
	})
}
