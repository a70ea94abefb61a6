package jsonfields_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/jsonfields"
	"github.com/fanmail/fanmail/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

type inner struct {
	Deep string `json:"deep,omitempty"`
}

type record struct {
	From  string          `json:"from"`
	To    []any           `json:"to"`
	Attrs json.RawMessage `json:"attrs"`
	Plain int
	inner
	left string
	Out  string `json:"-"`
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		object string
		want   *jsonfields.Error
	}{
		"empty":                        {`{}`, nil},
		"all fields":                   {` { "from" : "a" , "to":["b",{"from":1,"from":2}], "attrs":{"From":1,"From":2,"FROM":[{"x":"}"}]},"Plain":1,"deep":"" } `, nil},
		"quotes and backslashes":       {`{"from":"a\"","attrs":{"a\\":"\\","b":"\\\""},"deep":"{\"from\":1,\"from\":2}"}`, nil},
		"an escape in a key":           {`{"\u0066rom":"a"}`, nil},
		"another case":                 {`{"From":"a"}`, &jsonfields.Error{Field: "From", Want: "from"}},
		"another case and the field":   {`{"from":"ann","FROM":"bob"}`, &jsonfields.Error{Field: "FROM", Want: "from"}},
		"folded as Unicode":            {`{"attrſ":{}}`, &jsonfields.Error{Field: "attrſ", Want: "attrs"}},
		"a field without a name":       {`{"plain":1}`, &jsonfields.Error{Field: "plain", Want: "Plain"}},
		"twice":                        {`{"from":"ann","to":[],"from":"bob"}`, &jsonfields.Error{Field: "from"}},
		"twice, once escaped":          {`{"from":"ann","fro\u006d":"bob"}`, &jsonfields.Error{Field: "from"}},
		"twice after nested objects":   {`{"attrs":{"a":[{}]},"from":"a","attrs":{}}`, &jsonfields.Error{Field: "attrs"}},
		"twice of an embedded struct":  {`{"deep":"a","deep":"b"}`, &jsonfields.Error{Field: "deep"}},
		"twice with the same value":    {`{"from":"a","from":"a"}`, &jsonfields.Error{Field: "from"}},
		"null and again":               {`{"from":null,"from":"a"}`, &jsonfields.Error{Field: "from"}},
		"a long text before the field": {`{"deep":"` + strings.Repeat(`\"`, 1000) + `","deep":""}`, &jsonfields.Error{Field: "deep"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r record
			require.NoError(t, json.Unmarshal([]byte(test.object), &r))
			_ = r.left
			err := jsonfields.Check([]byte(test.object), &r)
			if test.want == nil {
				require.NoError(t, err)
				return
			}
			require.Equal(t, test.want, err)
		})
	}
}

func TestError(t *testing.T) {
	t.Parallel()
	require.EqualError(t, &jsonfields.Error{Field: "FROM", Want: "from"}, `the field "FROM" is unknown: write it as "from"`)
	require.EqualError(t, &jsonfields.Error{Field: "from"}, `the field "from" is there twice: leave one out`)
}

// FuzzCheck compares with a slow check that reads the tokens of the object.
func FuzzCheck(f *testing.F) {
	f.Add(`{"from":"a","from":"b"}`)
	f.Add(`{"attrs":{"from":"a"},"\u0066rom":"b"}`)
	f.Add(`{"to":[{"a":"}"},"\\",["\""]],"From":""}`)
	f.Fuzz(func(t *testing.T, object string) {
		var r record
		decoder := json.NewDecoder(strings.NewReader(object))
		decoder.DisallowUnknownFields()
		if !strings.HasPrefix(object, "{") || !json.Valid([]byte(object)) || decoder.Decode(&r) != nil {
			return
		}
		tokens := json.NewDecoder(strings.NewReader(object))
		_, err := tokens.Token()
		require.NoError(t, err)
		seen, want := make(map[string]bool), false
		for tokens.More() {
			key, err := tokens.Token()
			require.NoError(t, err)
			var value json.RawMessage
			require.NoError(t, tokens.Decode(&value))
			name := key.(string)
			exact := false
			for _, n := range jsonfields.Names(&r) {
				exact = exact || n == name
			}
			want = want || !exact || seen[name]
			seen[name] = true
		}
		require.Equal(t, want, jsonfields.Check([]byte(object), &r) != nil)
	})
}
