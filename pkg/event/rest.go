package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// taskFields are the names of the fields of a Task.
var taskFields = []string{"v", "id", "from", "lane", "partition", "recipients"}

// Encode returns the encoded task, including the fields in Rest.
func (t Task) Encode() ([]byte, error) {
	known, err := json.Marshal(t)
	if err != nil || len(t.Rest) == 0 {
		return known, err
	}
	var b bytes.Buffer
	b.Write(known[:len(known)-1])
	rest := json.NewEncoder(&b)
	rest.SetEscapeHTML(false) // the fields in Rest stay unchanged
	from := b.Len()
	if err := rest.Encode(t.Rest); err != nil {
		return nil, err
	}
	data := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	data[from] = ',' // replaces the opening brace of rest
	return data, nil
}

// rest returns the fields of an encoded task that this program does not know, or nil if there are none.
func rest(data []byte) (map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	for name, value := range fields {
		if slices.ContainsFunc(taskFields, func(known string) bool { return strings.EqualFold(known, name) }) {
			delete(fields, name)
			continue
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, value); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		fields[name] = compact.Bytes()
	}
	if len(fields) == 0 {
		return nil, nil
	}
	return fields, nil
}
