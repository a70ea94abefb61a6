package client

import (
	"encoding/json"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

// TimeLayout is how times are written: RFC 3339, in UTC, to the millisecond.
const TimeLayout = "2006-01-02T15:04:05.000Z"

// Time is a time that is written in TimeLayout. Any RFC 3339 time can be read into it.
type Time struct{ time.Time }

// AppendText implements encoding.TextAppender.
func (t Time) AppendText(b []byte) ([]byte, error) { return t.UTC().AppendFormat(b, TimeLayout), nil }

// MarshalText implements encoding.TextMarshaler.
func (t Time) MarshalText() ([]byte, error) { return t.AppendText(nil) }

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, len(TimeLayout)+2)
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, TimeLayout)
	return append(b, '"'), nil
}

// Cursor is a place where a list goes on. It is empty at the end of a list, which is null in JSON.
type Cursor string

// MarshalJSON implements json.Marshaler.
func (c Cursor) MarshalJSON() ([]byte, error) {
	if c == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(c))
}

// Receipt tells under which id a message was published.
type Receipt struct {
	ID   message.ID     `json:"id"`
	From message.UserID `json:"from"`
	Sent Time           `json:"sent"`
}

// Answer is what became of one message of a batch.
type Answer struct {
	Receipt
	// Err is why the message was not published, a *Problem, or nil.
	Err error
}

// AnswerLine is one line of the answer to a batch of messages: a receipt, or a line of the request and what is wrong with it.
type AnswerLine struct {
	*Receipt
	Line  int      `json:"line,omitempty"`
	Error *Problem `json:"error,omitempty"`
}

// State is how far a message is on its way.
type State string

const (
	// StatePending is a message whose fan-out has not begun.
	StatePending State = "pending"
	// StateRunning is a message that is being fanned out.
	StateRunning State = "running"
	// StateDone is a message that every recipient has, but for those who are dormant.
	StateDone State = "done"
)

// Fanout is how far the fan-out of a message is. The counts are final when State is StateDone.
type Fanout struct {
	State State `json:"state"`
	// Recipients counts those who have been handled: the sum of Delivered and Skipped.
	Recipients int64 `json:"recipients"`
	// Delivered counts recipients who have the message in their inbox.
	Delivered int64 `json:"delivered"`
	// Skipped counts recipients who are dormant.
	Skipped int64 `json:"skipped"`
	// Audience is about how many recipients there are, as far as that is known before all have been handled. It is 0 unless it was
	// asked for (Client.Estimate).
	Audience int64 `json:"audience,omitempty"`
}

// Status is a message, and how far its fan-out is.
type Status struct {
	ID          message.ID       `json:"id"`
	From        message.UserID   `json:"from"`
	Sent        Time             `json:"sent"`
	To          []message.UserID `json:"to,omitempty"`
	Audience    message.Audience `json:"audience,omitempty"`
	Body        string           `json:"body"`
	ContentType string           `json:"content_type,omitempty"`
	Attrs       json.RawMessage  `json:"attrs,omitempty"`
	Fanout      Fanout           `json:"fanout"`
}

// Rejection is a line of a batch that was not accepted, and why.
type Rejection struct {
	// Line counts from 1.
	Line  int    `json:"line"`
	Error string `json:"error"`
}

// BatchResult is what became of a batch of edges or users.
type BatchResult struct {
	Accepted int         `json:"accepted"`
	Rejected []Rejection `json:"rejected"`
}

// UserPage is a stretch of a list of users.
type UserPage struct {
	Users []message.UserID `json:"users"`
	Next  Cursor           `json:"next"`
}

// Activity tells in which of its three states a user is.
type Activity string

const (
	// Active is a user whose inbox is kept warm.
	Active Activity = "active"
	// Dormant is a user who has been away for so long that nothing is copied into their inbox.
	Dormant Activity = "dormant"
	// Rehydrating is a user who has come back, and whose inbox is being rebuilt.
	Rehydrating Activity = "rehydrating"
)

// User is what there is to know of a user.
type User struct {
	User       message.UserID `json:"user"`
	State      Activity       `json:"state"`
	LastViewed Time           `json:"last_viewed"`
	// Total counts the messages in the user's inbox.
	Total int64 `json:"total"`
}

// Was is what a user was before they logged in.
type Was string

const (
	// WasActive is a user whose inbox was kept warm all the time.
	WasActive Was = "active"
	// WasDormant is a user whose inbox had to be rebuilt.
	WasDormant Was = "dormant"
	// WasNew is a user of whom there was no record.
	WasNew Was = "new"
)

// Login is the answer to a login.
type Login struct {
	User message.UserID `json:"user"`
	// State is Active, or Rehydrating if the wait was over before the inbox had been rebuilt.
	State Activity `json:"state"`
	Was   Was      `json:"was"`
	// Recovered counts the messages that the user had missed and were found. Everybody who waited for the same
	// rehydration gets the same count. It is left out, and 0, while State is Rehydrating.
	Recovered int64 `json:"recovered"`
}

// MarshalJSON implements json.Marshaler.
func (l Login) MarshalJSON() ([]byte, error) {
	type bare Login // without this method
	if l.State != Rehydrating {
		return json.Marshal(bare(l))
	}
	return json.Marshal(struct {
		bare
		Recovered *int64 `json:"recovered,omitempty"`
	}{bare: bare(l)})
}

// How long a login waits for an inbox to be rebuilt.
const (
	// DefaultLoginWait is how long it waits where nothing is said.
	DefaultLoginWait = 10 * time.Second
	// MaxLoginWait is the longest that it waits.
	MaxLoginWait = time.Minute
)

// Seen is when a user was seen last.
type Seen struct {
	User       message.UserID `json:"user"`
	LastViewed time.Time      `json:"last_viewed"`
}

// InboxMessage is a message in an inbox.
type InboxMessage struct {
	ID          message.ID      `json:"id"`
	From        message.UserID  `json:"from"`
	Sent        Time            `json:"sent"`
	Body        string          `json:"body"`
	ContentType string          `json:"content_type,omitempty"`
	Attrs       json.RawMessage `json:"attrs,omitempty"`
}

// InboxPage is a stretch of an inbox.
type InboxPage struct {
	// Messages are newest first. There may be fewer than were asked for, where some were deleted.
	Messages []InboxMessage `json:"messages"`
	Next     Cursor         `json:"next"`
	// Total counts the messages in the whole inbox, Unread those of them that are not marked read.
	Total  int64 `json:"total"`
	Unread int64 `json:"unread"`
	// Complete tells that the inbox holds everything that it should by now. Otherwise it is still loading: what the page
	// shows is right, and there may be more of it. Total and Unread count what is known by now.
	Complete bool `json:"complete"`
	// BucketsRead counts the buckets that the server read for this page. It comes in the header BucketsReadHeader.
	BucketsRead int `json:"-"`
}

// ReadMark asks for everything up to and including a message to be marked as read.
type ReadMark struct {
	UpTo message.ID `json:"up_to"`
}

const (
	// BucketsReadHeader is the header that tells how many buckets the server read for a page.
	BucketsReadHeader = "Fanmail-Buckets-Read"
	// IdempotencyKeyHeader is the header that carries an idempotency key. In a batch, the message on line n has the key
	// followed by '#' and n.
	IdempotencyKeyHeader = "Idempotency-Key"
	// RequestIDHeader is the header in which every answer tells under which id the server logs the request.
	RequestIDHeader = "X-Request-Id"
	// ContentJSON is the media type of a JSON document.
	ContentJSON = "application/json"
	// ContentNDJSON is the media type of a batch: one JSON object a line.
	ContentNDJSON = "application/x-ndjson"
	// ContentProblem is the media type of a problem document.
	ContentProblem = "application/problem+json"
)
