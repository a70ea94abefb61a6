package main

import (
	"encoding/json"
	"time"
)

// setClock says that the clock of a server may have been off by an offset, from one time by the driver's clock until another.
type setClock struct {
	since, until time.Time
	offset       time.Duration
}

// readClock reads a line such as {"since":"…","until":"…","offset":"1h0m0s"}.
func (in *input) readClock(line []byte) error {
	var text struct {
		Since  time.Time `json:"since"`
		Until  time.Time `json:"until"`
		Offset string    `json:"offset"`
	}
	if err := json.Unmarshal(line, &text); err != nil {
		return err
	}
	offset, err := time.ParseDuration(text.Offset)
	in.clocks = append(in.clocks, setClock{text.Since, text.Until, offset})
	return err
}

// moment returns the least and the greatest time that a server's clock can have shown between a request and its answer. For times of which
// the input says nothing, the clocks were right.
func (in *input) moment(asked, answered time.Time) moment {
	var least, greatest time.Duration
	known := false
	for _, c := range in.clocks {
		if c.since.After(answered) || c.until.Before(asked) {
			continue
		}
		if !known {
			least, greatest, known = c.offset, c.offset, true
		}
		least, greatest = min(least, c.offset), max(greatest, c.offset)
	}
	return moment{asked: asked.Add(least), answered: answered.Add(greatest)}
}
