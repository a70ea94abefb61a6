package client

import (
	"context"
	"net/url"

	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/verdict"
)

// Subscriptions are the times in which a user was subscribed to a topic.
type Subscriptions struct {
	Topic message.Topic `json:"topic"`
	Spans []Span        `json:"spans"`
}

// Explanation is a verdict with the facts that led to it. Fields without a fact are empty.
type Explanation struct {
	User    message.UserID  `json:"user"`
	Message message.ID      `json:"message"`
	Verdict verdict.Verdict `json:"verdict"`
	// Sentence says the verdict in words, and what happens next.
	Sentence string `json:"sentence"`

	From     message.UserID   `json:"from,omitempty"`
	Sent     Time             `json:"sent,omitzero"`
	StoredAt Time             `json:"stored_at,omitzero"`
	Audience message.Audience `json:"audience,omitempty"`
	// Named reports whether the message names the user.
	Named bool `json:"named"`
	// Spans are the times in which the user followed the author.
	Spans []Span `json:"spans"`
	// Subscriptions are the times in which the user was subscribed to the topics of the message, and to those above them.
	Subscriptions []Subscriptions `json:"subscriptions,omitempty"`

	LastViewed Time   `json:"last_viewed,omitzero"`
	Horizon    Time   `json:"horizon,omitzero"`
	Mark       *Mark  `json:"mark,omitempty"`
	Sweep      *Sweep `json:"sweep,omitempty"`
	// Gap is the gap of the inbox that contains the message.
	Gap *Gap `json:"gap,omitempty"`

	Fanout *PartitionFanout `json:"fanout,omitempty"`
	Entry  *EntryPlace      `json:"entry,omitempty"`
	// Read and Archived are the state of the message; nil if it is not in the inbox.
	Read     *bool `json:"read,omitempty"`
	Archived *bool `json:"archived,omitempty"`
}

// Span is a time in which one user followed another: from Since (included) to Until (excluded). Until is zero while the span is
// open.
type Span struct {
	Since Time `json:"since"`
	Until Time `json:"until,omitzero"`
}

// Mark describes a rehydration that waits or runs. It recovers messages that were sent after From. It has been due since Since. A
// worker holds it until LeaseUntil.
type Mark struct {
	From       Time `json:"from,omitzero"`
	Since      Time `json:"since"`
	LeaseUntil Time `json:"lease_until"`
}

// Sweep describes a second search of a rehydration, for messages that were sent at From or later.
type Sweep struct {
	From Time `json:"from"`
}

// Gap is a part of an inbox without stored entries, which the server fills by fan-out on read. Both ends are excluded.
type Gap struct {
	After    Time  `json:"after,omitzero"`
	Before   Time  `json:"before"`
	Messages int64 `json:"messages"`
}

// PartitionFanout is the progress of a message's fan-out in the partition of a user. When its plan has been removed, Planned, Recipients, Passed
// and Done are true.
type PartitionFanout struct {
	Partition int `json:"partition"`
	// Planned reports whether the fan-out was planned, Recipients whether the plan has recipients in this partition.
	Planned    bool `json:"planned"`
	Recipients bool `json:"recipients"`
	// Passed reports whether the fan-out has passed the user, or the plan has no recipient in this partition.
	Passed bool `json:"passed"`
	Done   bool `json:"done"`
	// Dead reports whether the task of this partition is a dead letter, or was given up.
	Dead bool `json:"dead"`
	// At is the last recipient that the fan-out has reached.
	At message.UserID `json:"at,omitempty"`
}

// EntryPlace is the place of an entry in an inbox, or of the tombstone of a deleted entry.
type EntryPlace struct {
	Bucket    uint32 `json:"bucket"`
	Slot      int    `json:"slot"`
	Recovered bool   `json:"recovered"`
	Deleted   bool   `json:"deleted"`
}

// Explain returns why a user has a message or does not have it. Unknown users and messages are verdicts, not errors.
func (c *Client) Explain(ctx context.Context, user message.UserID, id message.ID) (Explanation, error) {
	query := url.Values{"user": {string(user)}, "message": {id.String()}}
	return get[Explanation](ctx, c, target{"/v1/admin/explain", user.Validate("user")}, query)
}
