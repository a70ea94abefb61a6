// Package event defines the events that Fanmail's roles send each other over the bus, and their encoding: JSON objects with a
// format version.
//
// A role ignores the fields that it does not know, so an older release can read the events of a newer one. An event with a later format version
// is refused with ErrNewer; a newer release can read it.
package event

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fanmail/fanmail/pkg/message"
)

// Version is the format version that this package writes.
const Version = 1

// ErrMalformed means that an event cannot be decoded. Trying again does not help.
var ErrMalformed = errors.New("malformed event")

// ErrFull means that a stream of the bus, or its disk, has no room for a new event. The stream still holds all earlier events.
var ErrFull = errors.New("the bus is full")

// ErrNewer means that an event has a later format version than this program reads. It wraps ErrMalformed. A newer program can read
// the event.
var ErrNewer = fmt.Errorf("%w: sent by a newer program", ErrMalformed)

// Lane is a class of fan-out work, by the size of the audience.
type Lane string

const (
	// Direct is for small audiences. The router delivers to them, so there are no tasks.
	Direct Lane = "direct"
	// Medium is for audiences that are scanned, and small enough to finish quickly.
	Medium Lane = "medium"
	// Bulk is for all larger audiences.
	Bulk Lane = "bulk"
)

// Lanes returns all lanes, fastest first.
func Lanes() []Lane { return []Lane{Medium, Bulk} }

// Published announces that a message is stored. The routers start its fan-out.
type Published struct {
	Version int            `json:"v"`
	ID      message.ID     `json:"id"`
	From    message.UserID `json:"from"`
	// Memory is what the message takes: see message.Message.Memory. Zero means that the sender does not know it.
	Memory int `json:"memory,omitempty"`
	// Trace travels in headers, not in the payload.
	Trace Trace `json:"-"`
}

// NewPublished returns the event for a message.
func NewPublished(ref message.Ref) Published {
	return Published{Version: Version, ID: ref.ID, From: ref.From}
}

// Ref returns the message's Ref.
func (p Published) Ref() message.Ref { return message.Ref{From: p.From, ID: p.ID} }

// Task is a unit of fan-out work: one message in one partition. The progress record holds the position of its scan; a task
// never does.
type Task struct {
	Version   int            `json:"v"`
	ID        message.ID     `json:"id"`
	From      message.UserID `json:"from"`
	Lane      Lane           `json:"lane"`
	Partition int            `json:"partition"`
	// Trace travels in headers, not in the payload. A continuation has the trace of the task that it continues.
	Trace Trace `json:"-"`
}

// Ref returns the message's Ref.
func (t Task) Ref() message.Ref { return message.Ref{From: t.From, ID: t.ID} }

// Login announces that a user has opened their inbox. A login service or another system outside Fanmail sends it. {"user":"ann"} is
// a complete login: without a version it has version 1.
type Login struct {
	User message.UserID `json:"user"`
}

// Rehydrated announces that the inbox of a user who returned is complete again. The bus does not store it, so a program that is not
// subscribed misses it.
type Rehydrated struct {
	Version int            `json:"v"`
	User    message.UserID `json:"user"`
	// Recovered is the number of messages that the rehydration found for the user.
	Recovered int64 `json:"recovered"`
	// Trace travels in headers, not in the payload.
	Trace Trace `json:"-"`
}

// NewRehydrated returns the event for a user.
func NewRehydrated(user message.UserID, recovered int64) Rehydrated {
	return Rehydrated{Version: Version, User: user, Recovered: recovered}
}

// Encode returns the encoded event.
func (p Published) Encode() ([]byte, error) { return json.Marshal(p) }

// Encode returns the encoded event.
func (t Task) Encode() ([]byte, error) { return json.Marshal(t) }

// Encode returns the encoded event.
func (l Login) Encode() ([]byte, error) { return json.Marshal(l) }

// Encode returns the encoded event.
func (r Rehydrated) Encode() ([]byte, error) { return json.Marshal(r) }

// DecodePublished decodes the result of Published.Encode. Every error is an ErrMalformed.
func DecodePublished(data []byte) (Published, error) {
	var p Published
	if err := decode(data, &p, &p.Version); err != nil {
		return Published{}, err
	}
	if err := check(p.Ref()); err != nil {
		return Published{}, err
	}
	return p, nil
}

// DecodeTask decodes the result of Task.Encode. Every error is an ErrMalformed.
func DecodeTask(data []byte) (Task, error) {
	var t Task
	if err := decode(data, &t, &t.Version); err != nil {
		return Task{}, err
	}
	if err := check(t.Ref()); err != nil {
		return Task{}, err
	}
	if err := checkPlace(t.Lane, t.Partition); err != nil {
		return Task{}, err
	}
	return t, nil
}

// DecodeLogin decodes a login from any system. Every error is an ErrMalformed.
func DecodeLogin(data []byte) (Login, error) {
	versioned := struct {
		Version int `json:"v"`
		Login
	}{Version: Version}
	if err := decode(data, &versioned, &versioned.Version); err != nil {
		return Login{}, err
	}
	if err := checkUser(versioned.User); err != nil {
		return Login{}, err
	}
	return versioned.Login, nil
}

// DecodeRehydrated decodes the result of Rehydrated.Encode. Every error is an ErrMalformed.
func DecodeRehydrated(data []byte) (Rehydrated, error) {
	var r Rehydrated
	if err := decode(data, &r, &r.Version); err != nil {
		return Rehydrated{}, err
	}
	if err := checkUser(r.User); err != nil {
		return Rehydrated{}, err
	}
	if r.Recovered < 0 {
		return Rehydrated{}, fmt.Errorf("%w: recovered is %d", ErrMalformed, r.Recovered)
	}
	return r, nil
}

func decode(data []byte, event any, version *int) error {
	err := json.Unmarshal(data, event)
	if err != nil { // a later version may have other types of fields
		*version = versionOf(data)
	}
	switch {
	case *version > Version:
		return fmt.Errorf("%w: format version is %d, this program reads %d", ErrNewer, *version, Version)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	case *version != Version:
		return fmt.Errorf("%w: format version is %d, this program reads %d", ErrMalformed, *version, Version)
	default:
		return nil
	}
}

// versionOf returns the format version of an event whose other fields cannot be decoded, or 0.
func versionOf(data []byte) int {
	var only struct {
		Version int `json:"v"`
	}
	if json.Unmarshal(data, &only) != nil {
		return 0
	}
	return only.Version
}

func check(ref message.Ref) error {
	if ref.ID.IsZero() {
		return fmt.Errorf("%w: there is no id", ErrMalformed)
	}
	if err := ref.From.Validate("from"); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

func checkPlace(lane Lane, partition int) error {
	if !slices.Contains(Lanes(), lane) {
		return fmt.Errorf("%w: lane %q is unknown", ErrMalformed, string(lane))
	}
	if partition < 0 {
		return fmt.Errorf("%w: partition is %d", ErrMalformed, partition)
	}
	return nil
}

// checkUser refuses an invalid user id. It also refuses U+FFFD, which the JSON decoder puts in place of invalid text, because
// the result could be the id of another user.
func checkUser(user message.UserID) error {
	if err := user.Validate("user"); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if strings.ContainsRune(string(user), utf8.RuneError) {
		return fmt.Errorf("%w: user is not valid UTF-8", ErrMalformed)
	}
	return nil
}

// Delivery is an event that the bus has handed out.
type Delivery struct {
	// Sequence is the sequence number of the event in its stream.
	Sequence uint64
	// Subject is the subject of the event on the bus.
	Subject string
	// Payload is the encoded event. It is shared: do not change it.
	Payload []byte
	// Trace is the trace that the emitter sent in the headers.
	Trace Trace
	// Attempts is how often the bus has handed out the event, including this time; 0 if unknown.
	Attempts int
	// Stored is when the bus stored the event, by the bus's own clock, in UTC.
	Stored time.Time
}
