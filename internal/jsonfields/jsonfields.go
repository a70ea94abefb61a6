// Package jsonfields checks how the fields of a JSON object are named. Package encoding/json takes a field in any case, and of a field that
// is there twice the last value. A gateway in front of Fanmail may take the first, or another case, and then checks another value than Fanmail
// uses. So such objects are refused.
package jsonfields

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// Error is a field whose name is not allowed.
type Error struct {
	// Field is the name as it is in the object.
	Field string
	// Want is the name of the field that encoding/json takes it for; empty if the field is there twice.
	Want string
}

// Error returns a sentence about the field.
func (e *Error) Error() string {
	if e.Want == "" {
		return fmt.Sprintf("the field %q is there twice: leave one out", e.Field)
	}
	return fmt.Sprintf("the field %q is unknown: write it as %q", e.Field, e.Want)
}

var cache sync.Map // names by reflect.Type

// Names returns the names of the fields of the struct that v points to, in their order. The caller must not change them.
func Names(v any) []string {
	t := reflect.TypeOf(v).Elem()
	if names, ok := cache.Load(t); ok {
		return names.([]string) //nolint:forcetypeassert // the cache has nothing else
	}
	names := namesOf(t)
	cache.Store(t, names)
	return names
}

func namesOf(t reflect.Type) (names []string) {
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "" && field.Anonymous && field.Type.Kind() == reflect.Struct:
			names = append(names, namesOf(field.Type)...)
		case !field.IsExported():
		case name == "":
			names = append(names, field.Name)
		case name != "-":
			names = append(names, name)
		}
	}
	return names
}

// Check returns an *Error if a field of a JSON object is there twice, or has not exactly the name of a field of the struct that v points
// to. The object must have been decoded into v, without unknown fields. Objects in it are not checked.
func Check(object []byte, v any) error {
	names := Names(v)
	seen := make([]bool, len(names))
	for key, rest := nextKey(object, true); key != nil; key, rest = nextKey(rest, false) {
		name := text(key)
		at := -1
		for i := range names {
			if names[i] == name {
				at = i
				break
			}
		}
		switch {
		case at < 0:
			return &Error{Field: name, Want: meant(names, name)}
		case seen[at]:
			return &Error{Field: name}
		}
		seen[at] = true
	}
	return nil
}

// meant returns the name that encoding/json takes another for. It compares as strings.EqualFold does.
func meant(names []string, name string) string {
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return n
		}
	}
	return "another name"
}

// text returns the value of a JSON string.
func text(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // it was decoded before
	return s
}

// nextKey returns the next key of a JSON object, with its quotes, and the data after it. The key is nil at the end of the object. data
// begins at the object if first is set, otherwise after a key.
func nextKey(data []byte, first bool) (key, rest []byte) {
	depth, expected := 1, false
	if first {
		depth = 0
	}
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			depth++
			expected = depth == 1
		case '}', ']':
			if depth--; depth == 0 {
				return nil, nil
			}
		case ',':
			expected = depth == 1
		case '"':
			end := i + quoted(data[i:])
			if expected {
				return data[i:end], data[end:]
			}
			i = end - 1
		}
	}
	return nil, nil
}

// quoted returns the length of the JSON string at the beginning of data, with its quotes.
func quoted(data []byte) int {
	for end := 1; end < len(data); end++ {
		at := bytes.IndexByte(data[end:], '"')
		if at < 0 {
			break
		}
		end += at
		escapes := 0
		for data[end-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return end + 1
		}
	}
	return len(data)
}
