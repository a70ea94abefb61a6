package client

import (
	"context"
	"net/url"

	"github.com/fanmail/fanmail/pkg/message"
)

// StoredInbox is an inbox as the store holds it, and what is recorded of its owner. Its parts were read one after another.
type StoredInbox struct {
	// Buckets are newest first, at most 200. A bucket that is missing below others was lost.
	Buckets []StoredBucket `json:"buckets"`
	Next    Cursor         `json:"next"`
	Gaps    []Gap          `json:"gaps"`
	// Horizon is until when fan-out copies messages for the user.
	Horizon Time `json:"horizon"`
	// ReadMark is nil if the user has marked nothing as read.
	ReadMark *StoredReadMark `json:"read_mark,omitempty"`
	// SeenMark is how many slots of the inbox the user has seen.
	SeenMark int64 `json:"seen_mark"`
	// Purged is the id up to which every message has expired; nil if nothing has.
	Purged *message.ID `json:"purged,omitempty"`
	// Mark and Sweep describe the rehydration that is due or runs; nil if none does.
	Mark  *Mark  `json:"mark,omitempty"`
	Sweep *Sweep `json:"sweep,omitempty"`
}

// StoredBucket describes a bucket of an inbox.
type StoredBucket struct {
	Sequence uint32 `json:"sequence"`
	// Slots counts the taken slots.
	Slots int `json:"slots"`
	// First and Last are the least and the greatest id in the bucket; zero if it is a stub.
	First message.ID `json:"first,omitzero"`
	Last  message.ID `json:"last,omitzero"`
	// Tombstones counts deleted messages, Expired those that have expired and lost their contents. Both are zero in a stub.
	Tombstones int `json:"tombstones"`
	Expired    int `json:"expired"`
	// Flags counts the messages that are marked one by one, or archived.
	Flags int `json:"flags"`
	// Stub says that all messages of the bucket have expired, and that it holds none of them. The lowest stub may stand for all buckets below.
	Stub bool `json:"stub,omitempty"`
}

// StoredReadMark says what is read: messages at or below UpTo that were in the inbox when the mark was set.
type StoredReadMark struct {
	UpTo message.ID `json:"up_to"`
	// Sequence is a bucket below which all entries are read.
	Sequence uint32 `json:"sequence"`
	// Slots counts the slots, and Gaps the gaps, of the whole inbox when the mark was set. Read counts those slots that the mark covers.
	Slots int64 `json:"slots"`
	Gaps  int   `json:"gaps"`
	Read  int64 `json:"read"`
	// InGap counts the read messages of the gap that UpTo lies in.
	InGap int64 `json:"in_gap"`
}

// StoredInbox returns an inbox as it is stored: its newest buckets, or those after a page that ended with the cursor before. It is no visit of
// the user. If the user was never seen, it returns a *Problem of the type ProblemNotFound.
func (c *Client) StoredInbox(ctx context.Context, user message.UserID, before Cursor) (StoredInbox, error) {
	query := url.Values{}
	if before != "" {
		query.Set("before", string(before))
	}
	return get[StoredInbox](ctx, c, target{"/v1/admin/users/" + url.PathEscape(string(user)) + "/inbox:stored", user.Validate("user")}, query)
}
