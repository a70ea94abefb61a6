package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// MessagesQuery says which messages Client.Messages returns.
type MessagesQuery struct {
	// State is that of the messages. Empty stands for all that are under way: StatePending and StateRunning. A message of which a part is a dead
	// letter is StateDead, and not among these.
	State message.State
	// From is the author; empty stands for all. A token with the scope publish has to name one.
	From message.UserID
	// After is the Next of an earlier page with the same State and From.
	After Cursor
	// Limit is the maximum number of messages on a page, up to 200; with 0 the server chooses.
	Limit int
}

// MessagePage is a page of messages: those that are done newest first, all others oldest first. It may be short or empty and have a Next, because
// the server looks at about 1,000 messages for a page.
type MessagePage struct {
	Messages []MessageProgress `json:"messages"`
	Next     Cursor            `json:"next"`
}

// MessageProgress is how far the fan-out of a message is. Its fields are those of Status and Fanout.
type MessageProgress struct {
	ID         message.ID         `json:"id"`
	From       message.UserID     `json:"from"`
	Sent       Time               `json:"sent"`
	State      message.State      `json:"state"`
	Lane       event.Lane         `json:"lane,omitempty"`
	Recipients int64              `json:"recipients"`
	Delivered  int64              `json:"delivered"`
	Skipped    int64              `json:"skipped"`
	WaitingFor message.WaitingFor `json:"waiting_for,omitempty"`
}

// Messages returns one page of messages and how far their fan-outs are. A page may be seconds old.
func (c *Client) Messages(ctx context.Context, q MessagesQuery) (MessagePage, error) {
	query := url.Values{}
	for name, value := range map[string]string{"state": string(q.State), "from": string(q.From), "after": string(q.After)} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if q.Limit != 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	return get[MessagePage](ctx, c, at("/v1/messages"), query)
}

// PartitionState is how far the fan-out of a message is in one partition of its recipients.
type PartitionState string

const (
	// PartitionWaiting is a partition that no worker has begun.
	PartitionWaiting PartitionState = "waiting"
	// PartitionRunning is a partition that a worker has begun.
	PartitionRunning PartitionState = "running"
	// PartitionDone is a partition whose recipients were all handled.
	PartitionDone PartitionState = "done"
	// PartitionDead is a partition whose rest is a dead letter.
	PartitionDead PartitionState = "dead"
	// PartitionGivenUp is a partition whose dead letter an operator has dropped.
	PartitionGivenUp PartitionState = "given_up"
)

// PartitionProgress is the progress in one partition.
type PartitionProgress struct {
	Partition int            `json:"partition"`
	State     PartitionState `json:"state"`
	Delivered int64          `json:"delivered"`
	Skipped   int64          `json:"skipped"`
}

// Partitions is Status with the progress in each partition of a message that is running. It is for the sender and for operators.
func (c *Client) Partitions(ctx context.Context, id message.ID) (Status, error) {
	return get[Status](ctx, c, at("/v1/messages/"+id.String()), url.Values{"partitions": {"true"}})
}
