package config

import (
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/fanmail/fanmail/internal/duration"
)

// field is one key of a Config, and the place in it that holds the key's value.
type field struct {
	key   string
	value reflect.Value
}

// fields returns the keys of c in the order of their declaration.
func fields(c *Config) []field { return appendFields(nil, "", reflect.ValueOf(c).Elem()) }

func appendFields(to []field, prefix string, section reflect.Value) []field {
	for declared, value := range section.Fields() {
		name := declared.Tag.Get("key")
		if name == "" {
			continue
		}
		key := prefix + name
		if value.Kind() == reflect.Struct {
			to = appendFields(to, key+".", value)
			continue
		}
		to = append(to, field{key: key, value: value})
	}
	return to
}

// text returns the value as it is written in a file. parse reads it.
func (f field) text() string {
	switch value := f.value.Interface().(type) {
	case time.Duration:
		return duration.Text(value)
	default:
		return fmt.Sprint(value)
	}
}

// parse sets the value to what text says. The error continues a sentence that begins with the key.
func (f field) parse(text string) error {
	switch f.value.Interface().(type) {
	case time.Duration:
		d, err := duration.Parse(text)
		if err != nil {
			return fmt.Errorf("is %w", err)
		}
		f.value.SetInt(int64(d))
	case Size:
		size, err := ParseSize(text)
		if err != nil {
			return fmt.Errorf("is %w", err)
		}
		f.value.SetInt(int64(size))
	case int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("is %q, which is not a whole number", text)
		}
		f.value.SetInt(int64(n))
	case bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("is %q, which is neither true nor false", text)
		}
		f.value.SetBool(b)
	case string, URL:
		f.value.SetString(text)
	}
	return nil
}
