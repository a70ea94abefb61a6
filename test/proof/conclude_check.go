package main

import (
	"fmt"
	"strings"
)

func (m *concluding) wrong(s concluded) string {
	switch {
	case s.final && s.counts != s.first:
		return "the counts of a message that has ended have changed"
	case !s.stored && !s.final:
		return "a message is removed that has not ended"
	case !s.final:
		return ""
	}
	for p, result := range s.counts {
		switch {
		case !result.ended():
			return "the message has ended, and a recipient is not counted"
		case !s.decided[p].has(result):
			return "the message has ended, and a recipient is counted as what was never decided"
		}
	}
	return ""
}

func (m *concluding) stuck(s concluded) string {
	switch {
	case s.plan:
		return "the plan stays"
	case s.stored && !s.final:
		return "it comes to no end"
	}
	return ""
}

func (m *concluding) show(s concluded) string {
	var b strings.Builder
	names := [...]string{"open", "dead", "delivered", "skipped", "given up", "failed"}
	scans := func(r results) string { return names[r[0]] + ", " + names[r[1]] }
	switch {
	case !s.stored:
		b.WriteString("removed")
	case s.final:
		b.WriteString("final: " + scans(s.counts))
	default:
		b.WriteString("stored")
	}
	if s.plan {
		b.WriteString("; plan: " + scans(s.scans))
	}
	fmt.Fprintf(&b, "; %d events, tasks %v, letters %v", s.events, s.tasks, s.letters)
	return b.String()
}
