package audit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/internal/following"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/verdict"
)

// TestFollowThatDiedByAClockBehind repeats a follow whose process had a clock far behind, and died before it caught up. The repeat finds the
// messages up to the slack after the span began, and a repair the others that fan-out had passed.
func TestFollowThatDiedByAClockBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	behind := epoch.Add(-10 * time.Minute)
	w.follow("ben", "eve", behind)
	send := func(at time.Time) message.Message {
		return w.pass(w.store(message.Message{ID: w.id(at), From: "eve", Audience: message.AudienceFollowers, Body: "x"}, at))
	}
	found, missed := send(behind.Add(slack)), send(behind.Add(slack+time.Millisecond))
	service := following.New(w.db.Edges(), w.db.Messages(), w.db.Users(), w.appender,
		following.Options{Partitions: partitions, Rules: rules, Now: func() time.Time { return epoch }})
	require.NoError(t, service.Follow(t.Context(), []follow.Pair{{Follower: "ben", Followee: "eve"}}))
	w.requireInbox([]message.Message{found})

	findings, summary := run(t.Context(), t, w.Service, audit.Request{User: "ben", Repair: true})
	require.Equal(t, []verdict.Kind{verdict.MissingEntry}, kindsOf(findings))
	require.Empty(t, summary.Remaining)
	w.requireInbox([]message.Message{found, missed})
}
