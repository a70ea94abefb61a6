package main

import (
	"fmt"
	"strings"
)

func (m *concluding) wrong(s concluded) string {
	switch {
	case s.wrong != "":
		return s.wrong
	case s.final && !s.truth.ended():
		return "the message is final, and not all scans have ended"
	case s.final && s.counts != s.truth:
		return "the message has other counts than the scans had"
	case !s.stored && !s.final:
		return "a message is removed that was not final"
	case s.truth.ended() && s.plan && !s.late && s.scans != s.truth:
		return "what was done is not done any more"
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
	names := [...]string{"open", "dead", "delivered", "skipped", "given up"}
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
