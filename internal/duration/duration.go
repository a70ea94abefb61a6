// Package duration reads and writes durations as operators do: 90s, 720h, 30d.
package duration

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// Parse reads a duration such as 90s or 720h, or a whole number of days such as 30d. Its error begins with the quoted text.
func Parse(text string) (time.Duration, error) {
	if number, found := strings.CutSuffix(text, "d"); found {
		days, err := strconv.ParseInt(number, 10, 64)
		if err == nil && days >= 0 && days <= math.MaxInt64/int64(day) {
			return time.Duration(days) * day, nil
		}
	} else if d, err := time.ParseDuration(text); err == nil {
		return d, nil
	}
	return 0, fmt.Errorf("%q, which is not a duration such as 500ms, 30s, 5m, 720h or 30d", text)
}

// Text writes 720h where time.Duration.String writes 720h0m0s. Parse reads it.
func Text(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Value is a duration as the value of a flag. It implements pflag.Value.
type Value time.Duration

// String implements pflag.Value.
func (v *Value) String() string { return Text(time.Duration(*v)) }

// Set implements pflag.Value.
func (v *Value) Set(text string) error {
	d, err := Parse(text)
	if err == nil {
		*v = Value(d)
	}
	return err
}

// Type implements pflag.Value: it is what help texts show.
func (*Value) Type() string { return "duration" }
