package main

import (
	"fmt"
	"strings"
	"time"
)

// newClock returns a clock that differs from another one by an offset. "30s" is ahead by 30 seconds, "-30s" behind. "30s,-20s/5s"
// alternates between its offsets every five seconds.
func newClock(text string, now func() time.Time) (func() time.Time, error) {
	list, every, alternates := strings.Cut(text, "/")
	period := time.Duration(0)
	if alternates {
		var err error
		if period, err = time.ParseDuration(every); err != nil || period <= 0 {
			return nil, fmt.Errorf("-clock is %q: give offsets and a positive duration, such as 30s,-20s/5s", text)
		}
	}
	var offsets []time.Duration
	for offset := range strings.SplitSeq(list, ",") {
		d, err := time.ParseDuration(offset)
		if err != nil {
			return nil, fmt.Errorf("-clock is %q: give offsets such as 30s, or 30s,-20s/5s", text)
		}
		offsets = append(offsets, d)
	}
	if alternates != (len(offsets) > 1) {
		return nil, fmt.Errorf("-clock is %q: give one offset, or several and how long each holds", text)
	}
	began := now()
	return func() time.Time {
		at := now()
		if !alternates {
			return at.Add(offsets[0])
		}
		return at.Add(offsets[int(at.Sub(began)/period)%len(offsets)])
	}, nil
}
