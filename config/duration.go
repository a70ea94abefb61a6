package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// day is the longest that anything but dormancy and idempotency keys takes. It is also the unit d of ParseDuration.
const day = 24 * time.Hour

// ParseDuration reads a duration such as 90s or 720h, or a whole number of days such as 30d.
func ParseDuration(text string) (time.Duration, error) {
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
