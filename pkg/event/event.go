// Package event holds what Fanmail's roles tell each other over the bus, and how it is written: JSON objects with a
// format version. Fields that are not known are passed over, so that an older role can read what a newer one
// writes; a task hands them on to its continuation (Task.Rest). A later version is refused as ErrNewer, for somebody newer to read.
package event

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fanmail/fanmail/pkg/message"
)

// Version is the format version that this package writes.
const Version = 1

// ErrMalformed says that an event cannot be read. Trying again does not help.
var ErrMalformed = errors.New("malformed event")

// ErrFull says that a stream of the bus, or the disk below it, has no room. Nothing that was in it has been dropped.
var ErrFull = errors.New("the bus is full")

// ErrNewer says that an event has a later format version than this program reads. It is an ErrMalformed that a newer program can read.
var ErrNewer = fmt.Errorf("%w: sent by a newer program", ErrMalformed)

// Lane is a class of fan-out work, by the size of the audience.
type Lane string

const (
	// Express is for audiences so small that tasks carry their recipients.
	Express Lane = "express"
	// Medium is for audiences that are scanned, and small enough to be done in a moment.
	Medium Lane = "medium"
	// Bulk is for all larger ones.
	Bulk Lane = "bulk"
)

// Lanes returns all lanes, the fastest first.
func Lanes() []Lane { return []Lane{Express, Medium, Bulk} }

// Published tells that a message has been stored and is to be fanned out.
type Published struct {
	Version int            `json:"v"`
	ID      message.ID     `json:"id"`
	From    message.UserID `json:"from"`
	// Trace travels beside the payload.
	Trace Trace `json:"-"`
}

// NewPublished returns the event for a message.
func NewPublished(ref message.Ref) Published {
	return Published{Version: Version, ID: ref.ID, From: ref.From}
}

// Ref returns the message's Ref.
func (p Published) Ref() message.Ref { return message.Ref{From: p.From, ID: p.ID} }

// Task is a unit of fan-out work: one message in one partition. Where its scan stands is in the progress
// record, never in the task.
type Task struct {
	Version   int            `json:"v"`
	ID        message.ID     `json:"id"`
	From      message.UserID `json:"from"`
	Lane      Lane           `json:"lane"`
	Partition int            `json:"partition"`
	// Recipients, ascending, each once, are the whole audience in this partition; in the express lane only.
	Recipients []message.UserID `json:"recipients,omitempty"`
	// Rest are the fields that this program does not know, as they came from a newer one. Whoever sends the task on sends them with it.
	Rest map[string]json.RawMessage `json:"-"`
	// Trace travels beside the payload. A continuation has that of the task which it continues.
	Trace Trace `json:"-"`
}

// Ref returns the message's Ref.
func (t Task) Ref() message.Ref { return message.Ref{From: t.From, ID: t.ID} }

// Login says that a user has opened their inbox. A system that knows this, such as a login service, sends it. {"user":"ann"} is
// a complete login: without a version it has version 1.
type Login struct {
	User message.UserID `json:"user"`
}

// Rehydrated tells that a user came back, and that their inbox is complete again. Nobody stores it: who does not listen
// misses it.
type Rehydrated struct {
	Version int            `json:"v"`
	User    message.UserID `json:"user"`
	// Recovered counts the messages that were found for the user.
	Recovered int64 `json:"recovered"`
	// Trace travels beside the payload.
	Trace Trace `json:"-"`
}

// NewRehydrated returns the event for a user.
func NewRehydrated(user message.UserID, recovered int64) Rehydrated {
	return Rehydrated{Version: Version, User: user, Recovered: recovered}
}

// Encode returns the event as it is sent.
func (p Published) Encode() ([]byte, error) { return json.Marshal(p) }

// Encode returns the event as it is sent.
func (l Login) Encode() ([]byte, error) { return json.Marshal(l) }

// Encode returns the event as it is sent.
func (r Rehydrated) Encode() ([]byte, error) { return json.Marshal(r) }

// DecodePublished reads what Published.Encode wrote. Every error is an ErrMalformed.
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

// DecodeTask reads what Task.Encode wrote. Every error is an ErrMalformed.
func DecodeTask(data []byte) (Task, error) {
	var t Task
	if err := decode(data, &t, &t.Version); err != nil {
		return Task{}, err
	}
	if err := check(t.Ref()); err != nil {
		return Task{}, err
	}
	switch t.Lane {
	case Express, Medium, Bulk:
	default:
		return Task{}, fmt.Errorf("%w: lane %q is unknown", ErrMalformed, string(t.Lane))
	}
	if t.Partition < 0 {
		return Task{}, fmt.Errorf("%w: partition is %d", ErrMalformed, t.Partition)
	}
	for i, user := range t.Recipients {
		if user.Validate("recipients") != nil || i > 0 && t.Recipients[i-1] >= user {
			return Task{}, fmt.Errorf("%w: recipients are not ascending user ids", ErrMalformed)
		}
	}
	var err error
	t.Rest, err = rest(data)
	return t, err
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

// DecodeRehydrated reads what Rehydrated.Encode wrote. Every error is an ErrMalformed.
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
	if err != nil { // in another version, fields may be of other types
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

// versionOf returns the version of something of which nothing else can be read, or 0.
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

// Delivery is an event as the bus hands it out.
type Delivery struct {
	// Sequence is its place in the stream.
	Sequence uint64
	// Subject is the one it came on.
	Subject string
	// Payload is the event as it was sent. Nobody may change it.
	Payload []byte
	// Trace is what its emitter has sent beside it.
	Trace Trace
	// Attempts counts how often it was handed out, this time included; 0 if that is not known.
	Attempts int
	// Stored is when the bus stored it, by the bus's own clock, in UTC.
	Stored time.Time
}
