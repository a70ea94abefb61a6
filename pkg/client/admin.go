package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/fanmail/fanmail/pkg/message"
)

// Verdict is why a user has, or has not, a message.
type Verdict string

// The verdicts. There are no others.
const (
	// VerdictDelivered is a message that is in the inbox.
	VerdictDelivered Verdict = "delivered"
	// VerdictRecovered is a message that a rehydration put into the inbox.
	VerdictRecovered Verdict = "recovered"
	// VerdictInGap is a message that is found by fan out on read whenever the inbox is paged.
	VerdictInGap Verdict = "in_gap"
	// VerdictDeleted is a message that was deleted from the inbox.
	VerdictDeleted Verdict = "deleted"
	// VerdictDormant is a message that a rehydration recovers when the user looks again.
	VerdictDormant Verdict = "dormant"
	// VerdictRehydrating is a message that a rehydration which is due or under way recovers.
	VerdictRehydrating Verdict = "rehydrating"
	// VerdictInFlight is a message whose fan-out has yet to come to the user.
	VerdictInFlight Verdict = "in_flight"
	// VerdictDeadLettered is a message whose fan-out was given up before it came to the user.
	VerdictDeadLettered Verdict = "dead_lettered"
	// VerdictNotFollowedThen is a message that was sent when the user did not follow its author any more, or never had.
	VerdictNotFollowedThen Verdict = "not_followed_then"
	// VerdictNotFollowedYet is a message that was sent before the user began to follow its author.
	VerdictNotFollowedYet Verdict = "not_followed_yet"
	// VerdictNotAddressed is a message to others.
	VerdictNotAddressed Verdict = "not_addressed"
	// VerdictVoid is a message that was stored too late, so it is delivered to no user.
	VerdictVoid Verdict = "void"
	// VerdictUnknownMessage is an id under which no message is stored.
	VerdictUnknownMessage Verdict = "unknown_message"
	// VerdictMissing is a message that should be in the inbox and is not.
	VerdictMissing Verdict = "missing"
)

// Explanation is why a user has, or has not, a message, and what tells it. What there is none of is left out.
type Explanation struct {
	User    message.UserID `json:"user"`
	Message message.ID     `json:"message"`
	Verdict Verdict        `json:"verdict"`
	// Sentence says it in words, with what is going to happen next.
	Sentence string `json:"sentence"`

	From     message.UserID   `json:"from,omitempty"`
	Sent     Time             `json:"sent,omitzero"`
	StoredAt Time             `json:"stored_at,omitzero"`
	Audience message.Audience `json:"audience,omitempty"`
	// Named tells that the message names the user.
	Named bool `json:"named"`
	// Spans are when the user followed the author.
	Spans []Span `json:"spans"`

	LastViewed Time   `json:"last_viewed,omitzero"`
	Horizon    Time   `json:"horizon,omitzero"`
	Mark       *Mark  `json:"mark,omitempty"`
	Sweep      *Sweep `json:"sweep,omitempty"`
	// Gap is the gap of the inbox that the message lies in.
	Gap *Gap `json:"gap,omitempty"`

	Fanout *PartitionFanout `json:"fanout,omitempty"`
	Entry  *EntryPlace      `json:"entry,omitempty"`
}

// Span is a stretch of time in which a user followed another: from Since, included, to Until, excluded, or until now.
type Span struct {
	Since Time `json:"since"`
	Until Time `json:"until,omitzero"`
}

// Mark describes a rehydration that is due or under way. It recovers messages that were sent after From, and it has been due
// since Since. A worker holds it until LeaseUntil.
type Mark struct {
	From       Time `json:"from,omitzero"`
	Since      Time `json:"since"`
	LeaseUntil Time `json:"lease_until"`
}

// Sweep says that a rehydration searches once more for messages that were sent at From or later.
type Sweep struct {
	From Time `json:"from"`
}

// Gap is a stretch of an inbox that is answered by fan out on read. Both ends are excluded.
type Gap struct {
	After    Time  `json:"after,omitzero"`
	Before   Time  `json:"before"`
	Messages int64 `json:"messages"`
}

// PartitionFanout is how far the fan-out of a message is in the partition of a user.
type PartitionFanout struct {
	Partition int `json:"partition"`
	// Planned tells that it is known in which partitions there are recipients, Recipients that there are any in this one.
	Planned    bool `json:"planned"`
	Recipients bool `json:"recipients"`
	// Passed tells that it has come to the user, or never had to.
	Passed bool `json:"passed"`
	Done   bool `json:"done"`
	// Dead tells that it was given up.
	Dead bool `json:"dead"`
	// At is the last recipient that was come to.
	At message.UserID `json:"at,omitempty"`
}

// EntryPlace is where the entry for a message is in an inbox, or the tombstone that deleting it left.
type EntryPlace struct {
	Bucket    uint32 `json:"bucket"`
	Slot      int    `json:"slot"`
	Recovered bool   `json:"recovered"`
	Deleted   bool   `json:"deleted"`
}

// Explain tells why a user has, or has not, a message. Users and messages that are not known are verdicts, not errors.
func (c *Client) Explain(ctx context.Context, user message.UserID, id message.ID) (Explanation, error) {
	if err := user.Validate("user"); err != nil {
		return Explanation{}, err
	}
	query := url.Values{"user": {string(user)}, "message": {id.String()}}
	var e Explanation
	err := c.do(ctx, call{method: http.MethodGet, path: "/v1/admin/explain", query: query, idempotent: true, read: jsonInto(&e)})
	return e, err
}
