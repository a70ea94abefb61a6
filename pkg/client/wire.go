package client

import (
	"encoding/json"
	"time"

	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// TimeLayout is the format of times on the wire: RFC 3339 in UTC, with milliseconds.
const TimeLayout = "2006-01-02T15:04:05.000Z"

// Time is a time that is written in TimeLayout. Decoding accepts every RFC 3339 time.
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

// Cursor is the place where the next page of a list begins. It is empty, and null in JSON, at the end of the list.
type Cursor string

// MarshalJSON implements json.Marshaler.
func (c Cursor) MarshalJSON() ([]byte, error) {
	if c == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(c))
}

// Receipt confirms a published message. ID is its id.
type Receipt struct {
	ID   message.ID     `json:"id"`
	From message.UserID `json:"from"`
	Sent Time           `json:"sent"`
}

// Answer is the result of one message of a batch.
type Answer struct {
	Receipt
	// Err is a *Problem if the message was not published, or nil.
	Err error
}

// AnswerLine is one line of the answer to a batch of messages: a receipt, or an error and the number of the line in the request.
type AnswerLine struct {
	*Receipt
	Line  int      `json:"line,omitempty"`
	Error *Problem `json:"error,omitempty"`
}

// Fanout is the progress of a message's fan-out. The counts are final when State is StateDone.
type Fanout struct {
	State message.State `json:"state"`
	// Lane is how the message is delivered: by the size of its audience. It is empty until a router has decided.
	Lane event.Lane `json:"lane,omitempty"`
	// WaitingFor is what a message that is not done, and does not move, waits for. If Until is known, it goes on about then.
	WaitingFor message.WaitingFor `json:"waiting_for,omitempty"`
	Until      *Time              `json:"until,omitempty"`
	// About is true if Until is an estimate.
	About bool `json:"about,omitempty"`
	// Recipients counts the handled recipients: the sum of Delivered and Skipped.
	Recipients int64 `json:"recipients"`
	// Delivered counts recipients who have the message in their inbox.
	Delivered int64 `json:"delivered"`
	// Skipped counts recipients who are dormant or were never seen. They get the message when they look. It also counts Blocked.
	Skipped int64 `json:"skipped"`
	// NeverSeen counts those of the first 100 users in To who have never been seen until now, if the message is done and some were skipped. A
	// user becomes known by looking, logging in, following, SetSeen or an import of users.
	NeverSeen int64 `json:"never_seen,omitempty"`
	// Blocked counts users whom the request named, and who blocked the author. The message leaves them out. Only its author is told.
	Blocked int64 `json:"blocked,omitempty"`
	// GivenUp counts the partitions in which an operator gave the fan-out up. Recipients there may lack the message.
	GivenUp int64 `json:"given_up,omitempty"`
	// Audience estimates the final number of recipients. Only Client.Estimate sets it.
	Audience int64 `json:"audience,omitempty"`
	// Partitions are ascending, and Moved is when one of them moved last, while the message is running. Only Client.Partitions sets them.
	Partitions []PartitionProgress `json:"partitions,omitempty"`
	Moved      *Time               `json:"moved,omitempty"`
}

// Status is a message and the progress of its fan-out.
type Status struct {
	ID          message.ID       `json:"id"`
	From        message.UserID   `json:"from"`
	Sent        Time             `json:"sent"`
	To          []message.UserID `json:"to,omitempty"`
	Audience    message.Audience `json:"audience,omitempty"`
	Topics      []message.Topic  `json:"topics,omitempty"`
	Body        string           `json:"body"`
	ContentType string           `json:"content_type,omitempty"`
	Attrs       json.RawMessage  `json:"attrs,omitempty"`
	Fanout      Fanout           `json:"fanout"`
}

// Rejection is a line of a batch that was not accepted.
type Rejection struct {
	// Line counts from 1.
	Line  int    `json:"line"`
	Error string `json:"error"`
}

// BatchResult is the result of a batch of edges or users.
type BatchResult struct {
	Accepted int         `json:"accepted"`
	Rejected []Rejection `json:"rejected"`
}

// UserPage is one page of a list of users.
type UserPage struct {
	Users []message.UserID `json:"users"`
	Next  Cursor           `json:"next"`
}

// Activity is the state of a user.
type Activity string

const (
	// Active is a user whose inbox receives copies of new messages.
	Active Activity = "active"
	// Dormant is a user who has not looked for so long that their inbox receives no copies.
	Dormant Activity = "dormant"
	// Rehydrating is a user who has returned, and whose inbox is being rebuilt.
	Rehydrating Activity = "rehydrating"
)

// User is the record of a user.
type User struct {
	User       message.UserID `json:"user"`
	State      Activity       `json:"state"`
	LastViewed Time           `json:"last_viewed"`
	// Total counts the messages in the user's inbox.
	Total int64 `json:"total"`
}

// Was is the state of a user before a login.
type Was string

const (
	// WasActive is a user who was active until the login.
	WasActive Was = "active"
	// WasDormant is a user whose inbox had to be rebuilt.
	WasDormant Was = "dormant"
	// WasNew is a user without a record.
	WasNew Was = "new"
)

// Login is the answer to a login.
type Login struct {
	User message.UserID `json:"user"`
	// State is Active. It is Rehydrating if the wait ended before the inbox was rebuilt.
	State Activity `json:"state"`
	Was   Was      `json:"was"`
	// Recovered counts the missed messages that the rehydration found. All logins that wait for the same rehydration get the same
	// count. It is 0, and not in the JSON, while State is Rehydrating.
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

// These constants limit how long a login waits for a rehydration.
const (
	// DefaultLoginWait is the wait of a request that names none.
	DefaultLoginWait = 10 * time.Second
	// MaxLoginWait is the longest wait that a request may name.
	MaxLoginWait = time.Minute
)

// Seen is the time at which a user was last seen.
type Seen struct {
	User       message.UserID `json:"user"`
	LastViewed time.Time      `json:"last_viewed"`
}

// InboxMessage is a message in an inbox. To, ToCount, Audience and Topics are those of the published message. They are empty if it was removed
// since.
type InboxMessage struct {
	ID   message.ID     `json:"id"`
	From message.UserID `json:"from"`
	Sent Time           `json:"sent"`
	// To are the users whom the message names, if these are at most 16 and the reader is one of them or the author. ToCount counts all whom the
	// message names.
	To          []message.UserID `json:"to,omitempty"`
	ToCount     int              `json:"to_count,omitempty"`
	Audience    message.Audience `json:"audience,omitempty"`
	Topics      []message.Topic  `json:"topics,omitempty"`
	Body        string           `json:"body"`
	ContentType string           `json:"content_type,omitempty"`
	Attrs       json.RawMessage  `json:"attrs,omitempty"`
	Read        bool             `json:"read"`
	Archived    bool             `json:"archived,omitempty"`
}

// InboxPage is one page of an inbox.
type InboxPage struct {
	// Messages are newest first. Deleted messages make a page shorter than its limit, and large ones end it early.
	Messages []InboxMessage `json:"messages"`
	Next     Cursor         `json:"next"`
	// Cursor stands for what the page knew, for Client.MarkAllRead and Client.Seen. Only a first page has one.
	Cursor string `json:"cursor,omitempty"`
	// Tally counts the whole inbox.
	Tally
	// ReadUpTo is the message up to which everything was marked as read; nil if nothing was.
	ReadUpTo *message.ID `json:"read_up_to,omitempty"`
	// Version is that of a Frame.
	Version []int64 `json:"version"`
	// Complete is false while a rehydration rebuilds the inbox. Then the page is correct, but later pages may have more messages,
	// and Total and Unread count only the known ones.
	Complete bool `json:"complete"`
	// BucketsRead counts the buckets that the server read for this page. It comes from the header BucketsReadHeader.
	BucketsRead int `json:"-"`
	// MessagesRead counts the messages that a filter had the server read outside of buckets. It comes from the header MessagesReadHeader.
	MessagesRead int `json:"-"`
}

// Tally is how many messages an inbox has that are not archived, how many of them are unread, and how many the user has not seen: see Client.Seen.
// Archived counts those that are archived.
type Tally struct {
	Total    int64 `json:"total"`
	Unread   int64 `json:"unread"`
	Unseen   int64 `json:"unseen"`
	Archived int64 `json:"archived"`
}

// MaxChangesWait is the longest wait of Client.Changes.
const MaxChangesWait = time.Minute

// Frame says how an inbox has changed since a cursor. A client that keeps messages applies Reset, Messages, Flags, Older, Gone and ExpiredUpTo in
// this order. All other fields replace those of the frame before.
type Frame struct {
	// Messages are new, in the order of arrival. A message that is known already takes the state that it has here. With Reset, they are the first page.
	Messages []InboxMessage `json:"messages,omitempty"`
	// Gone are messages that were deleted, now or earlier.
	Gone []message.ID `json:"gone,omitempty"`
	// Flags are the states of messages whose state may have changed.
	Flags []MessageState `json:"flags,omitempty"`
	// Older says that other messages may have changed, which neither Messages nor Flags names. Fetch their pages before they are shown again.
	Older bool `json:"older,omitempty"`
	// All messages up to ExpiredUpTo have expired, also on a page that was asked for earlier, and all up to ReadUpTo were marked as read; nil if
	// there are none.
	ExpiredUpTo *message.ID `json:"expired_up_to,omitempty"`
	ReadUpTo    *message.ID `json:"read_up_to,omitempty"`
	// Tally and Complete are those of InboxPage.
	Tally

	Complete bool `json:"complete"`
	// Version has numbers that only rise until a Reset. A page with one that is lower is older than the frame: fetch it again.
	Version []int64 `json:"version"`
	// Reset says that all messages from before are to be forgotten.
	Reset bool `json:"reset,omitempty"`
	// Cursor stands for what the frame and those before it knew. It has no end: Client.Events can begin there after months.
	Cursor string `json:"cursor"`
}

// MessageState is whether a message is read and archived.
type MessageState struct {
	ID       message.ID `json:"id"`
	Read     bool       `json:"read"`
	Archived bool       `json:"archived"`
}

// MaxCountedUsers is the greatest number of users of one CountsRequest.
const MaxCountedUsers = 1000

// CountsRequest names the users whose inboxes are to be counted.
type CountsRequest struct {
	Users []message.UserID `json:"users"`
}

// InboxCounts are the answer to a CountsRequest, in its order.
type InboxCounts struct {
	Counts []InboxCount `json:"counts"`
}

// InboxCount is how many messages the inbox of a user has.
type InboxCount struct {
	User message.UserID `json:"user,omitempty"`
	// Tally and Complete are those of InboxPage. A user who was never seen has zeros and false.
	Tally

	Complete bool `json:"complete"`
}

// ValueCounts are how many of the newest 1,000 messages of an inbox have each author, or each value of an attribute.
type ValueCounts struct {
	// Counts are ordered by Total, descending, and then by Value. At most 1,000 values are there.
	Counts []ValueCount `json:"counts"`
	// Counted counts the messages. A message with a list of strings counts once for each of its strings.
	Counted int `json:"counted"`
	// Complete reports whether these are all messages of the inbox, with all their values.
	Complete bool `json:"complete"`
}

// ValueCount is how many messages have a value.
type ValueCount struct {
	// Value is a string, also for a time, a float64 or a bool. It is nil for messages without the attribute.
	Value any `json:"value"`
	// Total counts the messages, Unread those of them that are not marked as read.
	Total  int64 `json:"total"`
	Unread int64 `json:"unread"`
}

// Purge lets all messages of an inbox expire that were sent at Until or before.
type Purge struct {
	// Until counts to the millisecond. It is not in the future.
	Until Time `json:"until"`
	// DryRun makes the server only count.
	DryRun bool `json:"dry_run,omitempty"`
}

// Purged is the answer to a Purge.
type Purged struct {
	// Purged counts the messages in the inbox that expire. Each is counted by one purge only.
	Purged int64 `json:"purged"`
}

// ReadMark marks all messages up to and including UpTo as read, or all that a page with a cursor knew.
type ReadMark struct {
	UpTo   *message.ID `json:"up_to,omitempty"`
	All    bool        `json:"all,omitempty"`
	Cursor string      `json:"cursor,omitempty"`
}

// SeenMark says that a user has seen all messages that a page with a cursor knew, or all that are there.
type SeenMark struct {
	Cursor string `json:"cursor,omitempty"`
}

// MaxMarks is how many messages MessageMarks name at most.
const MaxMarks = 200

// MessageMarks change whether messages are read and archived. Nil leaves them as they are; one of both is set.
type MessageMarks struct {
	IDs      []message.ID `json:"ids"`
	Read     *bool        `json:"read,omitempty"`
	Archived *bool        `json:"archived,omitempty"`
}

// Marked is the answer to MessageMarks.
type Marked struct {
	// Changed counts the messages that are read or archived now and were not, or the reverse.
	Changed int `json:"changed"`
	// Missing are the ids that are not in the inbox, or not any more.
	Missing []message.ID `json:"missing"`
}

const (
	// BucketsReadHeader is the header with the number of buckets that the server read for a page.
	BucketsReadHeader = "Fanmail-Buckets-Read"
	// MessagesReadHeader is the header with the number of messages that a filter had the server read outside of buckets.
	MessagesReadHeader = "Fanmail-Messages-Read"
	// IdempotencyKeyHeader is the header with the idempotency key of a request. In a batch with the key k, the message on line n
	// has the key k#n.
	IdempotencyKeyHeader = "Idempotency-Key"
	// RequestIDHeader is the header with the id under which the server logs the request. Every answer has it.
	RequestIDHeader = "X-Request-Id"
	// ContentJSON is the media type of a JSON document.
	ContentJSON = "application/json"
	// ContentNDJSON is the media type of a batch: one JSON object per line.
	ContentNDJSON = "application/x-ndjson"
	// ContentProblem is the media type of a problem document.
	ContentProblem = "application/problem+json"
)
