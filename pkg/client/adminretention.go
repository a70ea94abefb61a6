package client

import (
	"context"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

// RetentionStatus tells how far messages have expired.
type RetentionStatus struct {
	// OldestOverdue is by how much the oldest message may have outlived retention.max_age that has not expired yet, such as 12.5s. It is nil
	// as LowWater is.
	OldestOverdue *string `json:"oldest_overdue"`
	// AsOf is the time as of which messages expire by age. It is nil until a reading of the store's clock has stood for retention.hold.
	AsOf *time.Time `json:"as_of"`
	// LowWater is the low-water mark: every message with an id up to there has expired for every user. It is nil if messages of all users do
	// not expire, or no round through all users has ended since.
	LowWater *message.ID `json:"low_water"`
}

// RetentionStatus tells how far messages have expired. The server must have the role rehydrator.
func (c *Client) RetentionStatus(ctx context.Context) (RetentionStatus, error) {
	return get[RetentionStatus](ctx, c, at("/v1/admin/retention"), nil)
}
