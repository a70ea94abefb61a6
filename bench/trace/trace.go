package trace

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/fanmail/fanmail/internal/jsonfields"
	"github.com/fanmail/fanmail/pkg/message"
)

// Event is what happens in one inbox: a message arrives, or its owner looks.
type Event struct {
	At   time.Time
	View bool
}

// Inbox is all that happens in the inbox of one user, the oldest first.
type Inbox []Event

// Trace is a period of time in many inboxes.
type Trace struct {
	Inboxes map[message.UserID]Inbox
	Begin   time.Time
	End     time.Time
	// Views and Copies are the numbers of views, and of copies of messages in inboxes.
	Views, Copies int
}

// line is a line of a recorded trace.
type line struct {
	View    message.UserID   `json:"view"`
	Publish message.UserID   `json:"publish"`
	To      []message.UserID `json:"to"`
	Time    time.Time        `json:"time"`
}

// New returns a trace without events.
func New() *Trace { return &Trace{Inboxes: make(map[message.UserID]Inbox)} }

// AddLine adds the event of a line, which is a JSON object:
//
//	{"view":"ben","time":"2026-01-02T15:04:05Z"}
//	{"publish":"ann","to":["ben","cy"],"time":"2026-01-02T15:04:05Z"}
//
// The lines need not be in the order of their times. After the last one, call Sort. An error changes nothing.
func (t *Trace) AddLine(text []byte) error {
	l, err := parse(text)
	if err != nil {
		return err
	}
	if l.View != "" {
		t.Add(l.View, Event{At: l.Time, View: true})
	}
	slices.Sort(l.To)
	for _, user := range slices.Compact(l.To) {
		t.Add(user, Event{At: l.Time})
	}
	return nil
}

func parse(text []byte) (l line, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&l); err != nil {
		return l, fmt.Errorf("is not a view or a message: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return l, errors.New("has more than one JSON object: expected one per line")
	}
	if err := jsonfields.Check(text, &l); err != nil {
		return l, err
	}
	switch {
	case (l.View == "") == (l.Publish == ""):
		return l, errors.New(`has to have either "view" or "publish"`)
	case l.View != "" && l.To != nil:
		return l, errors.New(`"to" belongs to "publish"`)
	case l.Publish != "" && len(l.To) == 0:
		return l, errors.New(`"publish" needs users in "to"`)
	case l.Time.IsZero():
		return l, errors.New(`"time" is missing`)
	}
	for _, user := range append(slices.Clone(l.To), cmp.Or(l.View, l.Publish)) {
		if err := user.Validate("user"); err != nil {
			return l, err
		}
	}
	return l, nil
}

// Add adds an event to the inbox of a user. After the last one, call Sort.
func (t *Trace) Add(user message.UserID, e Event) {
	t.Inboxes[user] = append(t.Inboxes[user], e)
	if e.View {
		t.Views++
	} else {
		t.Copies++
	}
	if t.Begin.IsZero() || e.At.Before(t.Begin) {
		t.Begin = e.At
	}
	if e.At.After(t.End) {
		t.End = e.At
	}
}

// Sort brings the events of every inbox into order. Of two events at the same time, the message is before the view.
func (t *Trace) Sort() {
	for _, events := range t.Inboxes {
		slices.SortStableFunc(events, func(a, b Event) int {
			if c := a.At.Compare(b.At); c != 0 || a.View == b.View {
				return c
			}
			if a.View {
				return 1
			}
			return -1
		})
	}
}

// Middle is the time half way.
func (t *Trace) Middle() time.Time { return t.Begin.Add(t.End.Sub(t.Begin) / 2) }
