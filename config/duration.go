package config

import "time"

// day is the longest that anything but dormancy and idempotency keys takes.
const day = 24 * time.Hour
