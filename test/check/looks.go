package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// looks checks the answers and pages that returning users received, against the messages published at that time.
type looks struct {
	want  *expected
	opts  options
	found *report
}

func (l looks) check(in input) {
	for user, looks := range in.looks {
		if in.twins[user] {
			continue // another process sets twins as seen between these looks
		}
		// latest is the earliest time at which the user can have become dormant.
		latest := in.seen[user].Add(l.opts.dormantAfter)
		if in.seen[user].IsZero() {
			latest = time.Time{}
		}
		for i, look := range looks {
			l.found.Looks.add(look)
			seen := in.moment(look.Asked, look.Answered)
			if i == 0 && in.unlogged[user] { // the user may have looked before, so every message may have been in flight
				l.checkRead(look, look.Answered)
			} else {
				l.checkRead(look, latest)
			}
			if i == 0 && !in.unlogged[user] {
				l.checkFirst(look, seen, latest)
			}
			latest = later(latest, seen.answered.Add(l.opts.dormantAfter))
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// checkRead checks the pages that a user read. They must show the newest messages and omit none. A message that was sent before the
// horizon may still have been in flight. A page that is not complete must have every message that was accepted before the page was
// requested. A complete page must have every message that was accepted before the look began.
func (l looks) checkRead(look look, horizon time.Time) {
	by := look.Read.Asked
	if look.Read.Complete {
		by = look.Asked
	}
	belongs := make(map[string]belonging)
	for _, m := range l.want.inboxes[look.User] {
		belongs[m.ID] = m
	}
	shown := make(map[string]bool, len(look.Read.IDs))
	lowest := ""
	for i, id := range look.Read.IDs {
		switch {
		case shown[id]:
			l.found.add("look: double", "%s at %s: %s", look.User, look.Read.Asked, id)
		case i > 0 && id > lowest:
			l.found.add("look: out of order", "%s at %s: %s after %s", look.User, look.Read.Asked, id, lowest)
		}
		if _, ok := belongs[id]; !ok {
			l.found.add("look: extra", "%s at %s: %s", look.User, look.Read.Asked, id)
		}
		shown[id], lowest = true, id
	}
	for id, m := range belongs {
		reached := look.Read.End || id > lowest
		if reached && !shown[id] && m.certain() && m.sent.After(horizon) && m.acceptedBy(by) {
			l.found.add("look: missing", "%s at %s: %s, which was accepted at %s: %s", look.User, look.Read.Asked, id, m.Answered, look.story(horizon))
		}
	}
}

// story tells how a user looked. It shows whether a message can have been in flight.
func (k look) story(horizon time.Time) string {
	return fmt.Sprintf("%s from %s to %s, %d tries, was %s; read to %s: %d pages, %d messages, complete %t, to the end %t; dormant after %s at the latest",
		k.By, k.Asked, k.Answered, k.Tries, k.Was, k.Read.Answered, k.Read.Pages, len(k.Read.IDs), k.Read.Complete, k.Read.End, horizon)
}

func (b belonging) certain() bool { return !b.perhaps }

// acceptedBy reports whether the message was certainly stored at a time.
func (b belonging) acceptedBy(t time.Time) bool { return !b.Answered.IsZero() && !b.Answered.After(t) }

// askedBy reports whether the message may have been stored by a time, whatever the clock of its publisher showed.
func (b belonging) askedBy(t time.Time) bool { return !b.Asked.IsZero() && !b.Asked.After(t) }

// checkFirst checks the answers to a user's first look, for which the horizon is known. seen has the times of the look by the server's
// clock.
func (l looks) checkFirst(look look, seen moment, horizon time.Time) {
	settled := seen.asked.Add(-l.opts.settledAfter)
	var missed []belonging // the certain ones, ascending
	recovered := bounds{}
	for _, m := range l.want.inboxes[look.User] {
		if m.sent.After(horizon) || m.sent.After(settled) { // a sweep may be faster than fan-out
			certain := m.certain() && m.sent.After(horizon) && m.acceptedBy(look.Asked)
			if certain {
				missed = append(missed, m)
			}
			if !m.sent.After(seen.answered.Add(l.opts.clocksApart)) || m.askedBy(look.Answered) {
				recovered = recovered.andOne(certain)
			}
		}
	}
	dormant := seen.asked.After(horizon)
	if surely := seen.answered.Add(l.opts.settledAfter).Before(horizon); look.By == "login" && look.Tries == 1 && (dormant || surely) {
		was := map[bool]string{true: "dormant", false: "active"}[dormant]
		if dormant && horizon.IsZero() {
			was = "new"
		}
		if look.Was != was {
			l.found.add("look: wrong was", "%s was %s at %s: should be %s", look.User, look.Was, look.Asked, was)
		}
		l.found.Looks.Compared++
		if dormant && (look.Recovered == nil || !recovered.holds(*look.Recovered)) {
			l.found.add("look: wrong recovered", "%s at %s: recovered %s, should be %s", look.User, look.Asked, value(look.Recovered), recovered)
		}
	}
	if dormant {
		l.countGap(look, missed, settled)
	}
}

// countGap counts the messages that the rehydration must have left to a gap: all but the newest ones. It excludes times for which
// older messages could still arrive.
func (l looks) countGap(look look, missed []belonging, settled time.Time) {
	limit := l.opts.rehydrateLimit
	if limit == 0 || len(missed) <= limit {
		return
	}
	cut := missed[len(missed)-limit].sent
	if settled.Before(cut) {
		cut = settled
	}
	left, _ := slices.BinarySearchFunc(missed, cut, func(b belonging, t time.Time) int { return b.sent.Compare(t) })
	if left == 0 {
		return
	}
	gap := gap{messages: make(map[string]bool, left)}
	for _, m := range missed[:left] {
		gap.messages[m.ID] = true
	}
	l.found.gaps[look.User] = gap
	l.found.Gaps.Gaps++
	l.found.Gaps.Messages += left
}

// gap has the messages that a rehydration must have left out of the buckets.
type gap struct{ messages map[string]bool }

// countGapPages counts the pages that show messages of a gap, and the gaps that were read completely.
func (r *report) countGapPages(user string, entries []entry, size int) {
	g, ok := r.gaps[user]
	if !ok {
		return
	}
	pages := make(map[int]bool)
	for i, e := range entries {
		if g.messages[e.ID] {
			pages[i/size] = true
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Gaps.Paged++
	r.Gaps.Pages += len(pages)
}

func value(n *int64) any {
	if n == nil {
		return "nothing"
	}
	return cmp.Or(*n, 0)
}
