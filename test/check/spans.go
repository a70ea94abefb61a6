package main

import (
	"errors"
	"slices"
	"time"
)

// spans are the times in which a user followed an author, as exactly as a client can know them. A change took effect between the
// request and its answer.
type spans []span

type span struct {
	from  moment
	until *moment // nil while the span is open
}

type moment struct{ asked, answered time.Time }

// before reports whether the moment was certainly at or before t, which has a resolution of milliseconds.
func (m moment) before(t time.Time) bool { return m.answered.Before(t) }

// after reports whether the moment was certainly after t, which has a resolution of milliseconds.
func (m moment) after(t time.Time) bool { return m.asked.After(t.Add(time.Millisecond)) }

// notBefore returns the later of two moments, as exactly as they are known.
func (m moment) notBefore(other moment) moment {
	return moment{asked: later(m.asked, other.asked), answered: later(m.answered, other.answered)}
}

// follow begins a span unless one is open. A clock may have been set back, but spans do not overlap.
func (s spans) follow(at moment) spans {
	if n := len(s); n > 0 {
		if s[n-1].until == nil {
			return s
		}
		at = at.notBefore(*s[n-1].until)
	}
	return append(slices.Clone(s), span{from: at})
}

// errNotFollowing means that the input ends a span although none is open.
var errNotFollowing = errors.New("a user unfollows an author without an edge")

// unfollow ends the open span. A span does not end before its begin.
func (s spans) unfollow(at moment) (spans, error) {
	n := len(s)
	if n == 0 || s[n-1].until != nil {
		return nil, errNotFollowing
	}
	s = slices.Clone(s)
	at = at.notBefore(s[n-1].from)
	s[n-1].until = &at
	return s, nil
}

// hold reports whether a span certainly contains a time. If holds is false, perhaps reports whether a span may contain it.
func (s spans) hold(t time.Time) (holds, perhaps bool) {
	for _, span := range s {
		switch {
		case span.from.after(t), span.until != nil && span.until.before(t):
		case span.from.before(t) && (span.until == nil || span.until.after(t)):
			return true, false
		default:
			perhaps = true
		}
	}
	return false, perhaps
}
