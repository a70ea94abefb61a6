// Package messagetest makes message ids and messages for tests.
package messagetest

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

// Epoch is the time of the first message id of the series that ID returns.
var Epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// AnyTime makes every message valid, whatever the store's clock says.
var AnyTime = message.Timing{Slack: message.MaxSlack, Tolerance: message.MaxSlack}

// ID returns the nth id of a series. Ids ascend with n, and each is sent a millisecond after the one before.
func ID(n int) message.ID {
	id := message.MinID(Epoch.Add(time.Duration(n) * time.Millisecond))
	id[6], id[8] = 0x70, 0x80
	binary.BigEndian.PutUint32(id[12:], uint32(n)) //nolint:gosec // a test counts from 0
	return id
}

// Message returns a message by from to its followers with the nth id of the series.
func Message(n int, from message.UserID) message.Message {
	return message.Message{ID: ID(n), From: from, Audience: message.AudienceFollowers, Body: fmt.Sprintf("message %d", n)}
}
