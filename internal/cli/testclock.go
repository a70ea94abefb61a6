package cli

import (
	"fmt"
	"strings"
	"time"
)

// testClockEnv says how wrong the clock of a process is, for tests of many processes whose clocks disagree: "30s" is ahead by so much,
// "-30s" behind, and "30s,-20s/5s" goes from one to the other and back every five seconds.
const testClockEnv = "FANMAIL_TEST_CLOCK"

// testClock returns the clock that a process is to have.
func testClock(text string, now func() time.Time) (func() time.Time, error) {
	if text == "" {
		return now, nil
	}
	offsets, every, jumps := strings.Cut(text, "/")
	period := time.Duration(0)
	if jumps {
		var err error
		if period, err = time.ParseDuration(every); err != nil || period <= 0 {
			return nil, fmt.Errorf("%s is %q: give offsets and a positive duration, such as 30s,-20s/5s", testClockEnv, text)
		}
	}
	var wrong []time.Duration
	for offset := range strings.SplitSeq(offsets, ",") {
		d, err := time.ParseDuration(offset)
		if err != nil {
			return nil, fmt.Errorf("%s is %q: give offsets such as 30s, or 30s,-20s/5s", testClockEnv, text)
		}
		wrong = append(wrong, d)
	}
	if jumps != (len(wrong) > 1) {
		return nil, fmt.Errorf("%s is %q: give one offset, or several and how long each holds", testClockEnv, text)
	}
	began := now()
	return func() time.Time {
		at := now()
		if !jumps {
			return at.Add(wrong[0])
		}
		return at.Add(wrong[int(at.Sub(began)/period)%len(wrong)])
	}, nil
}
