// Package messagetest holds every implementation of message.Store and message.KeyStore to what their comments
// say, and makes ids and messages for the tests of other packages.
package messagetest

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

// Epoch is when the messages of a test begin to be sent.
var Epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

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

// Harness is a freshly opened, empty backend. Its clock goes on from one call to the next.
type Harness struct {
	Messages message.Store
	Keys     message.KeyStore
	// Reopen lets the backend crash, or closes it where it cannot, and opens what it left behind. Nothing of the
	// old harness is used after that.
	Reopen func(t *testing.T) Harness
}

// Run holds a backend to the contracts of message.Store and message.KeyStore. Every test opens a backend of
// its own; open registers its closing with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	s := suite{open: open}
	t.Run("Insert/then Get returns the message and its time", s.insertThenGet)
	t.Run("Insert/returns times in the order of messages", s.insertReturnsTimesInOrder)
	t.Run("Insert/leaves a message that is there as it is", s.insertIsIdempotent)
	t.Run("Insert/of one id by many stores it once", s.insertConcurrently)
	t.Run("Insert/keeps no reference to the message", s.insertKeepsNoReference)
	t.Run("Insert/of nothing does nothing", s.insertNothing)
	t.Run("Get/by id alone", s.getByIDAlone)
	t.Run("Get/of an unknown message", s.getUnknown)
	t.Run("ToFollowers/in both orders up to limit", s.toFollowersInOrder)
	t.Run("ToFollowers/in several ranges of an author", s.toFollowersInRanges)
	t.Run("ToFollowers/keeps authors apart", s.toFollowersKeepsAuthorsApart)
	t.Run("ToFollowers/leaves messages to a list out", s.toFollowersOnly)
	t.Run("ToFollowers/of many authors", s.toFollowersOfMany)
	t.Run("ToFollowers/and counts at random", s.toFollowersAtRandom)
	t.Run("CountToFollowers/leaves void messages out", s.countLeavesVoidOut)
	t.Run("Naming/in both orders up to limit", s.namingInOrder)
	t.Run("Naming/keeps users apart", s.namingKeepsUsersApart)
	t.Run("Unfinished/ascends above after up to limit", s.unfinished)
	t.Run("Finish/takes messages out of Unfinished only", s.finish)
	t.Run("Finish/then Insert again leaves it finished", s.finishThenInsert)
	t.Run("Reopen/keeps what was inserted", s.reopenKeepsMessages)
	t.Run("Reserve/returns the key that holds", s.reserve)
	t.Run("Reserve/takes over an expired key", s.reserveExpired)
	t.Run("Reserve/keeps senders and keys apart", s.reserveKeepsApart)
	t.Run("Reserve/by many has one winner", s.reserveConcurrently)
	t.Run("Replace/only what is reserved", s.replace)
	t.Run("Replace/by many has one winner", s.replaceConcurrently)
	t.Run("Forget/expired keys up to limit", s.forget)
	t.Run("Reopen/keeps keys", s.reopenKeepsKeys)
}

type suite struct{ open func(t *testing.T) Harness }
