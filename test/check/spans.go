package main

import (
	"errors"
	"time"
)

// spans are the times when a user followed an author, as far as a client can know: a change took effect at some moment between
// the request and its answer.
type spans []span

type span struct {
	from  moment
	until *moment // nil while it has not ended
}

type moment struct{ asked, answered time.Time }

// before reports whether the moment was surely at or before a time, which is in milliseconds.
func (m moment) before(t time.Time) bool { return m.answered.Before(t) }

// after reports whether the moment was surely after a time, which is in milliseconds.
func (m moment) after(t time.Time) bool { return m.asked.After(t.Add(time.Millisecond)) }

// follow begins a span, if none is open.
func (s spans) follow(at moment) spans {
	if n := len(s); n > 0 && s[n-1].until == nil {
		return s
	}
	return append(s, span{from: at})
}

// errNotFollowing says that the end of a span is recorded where none is open.
var errNotFollowing = errors.New("somebody is unfollowed who was not followed")

// unfollow ends the open span.
func (s spans) unfollow(at moment) error {
	n := len(s)
	if n == 0 || s[n-1].until != nil {
		return errNotFollowing
	}
	s[n-1].until = &at
	return nil
}

// hold reports whether one of the spans surely holds a time, and otherwise whether one may hold it.
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
