package storetest

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// longest returns the nth user id of the greatest length.
func longest(n int) message.UserID {
	return message.UserID(fmt.Sprintf("%06d%s", n, strings.Repeat("x", message.MaxUserIDBytes-6)))
}

// WriteLargest writes one record of each kind to an empty database, as large as its bounds allow.
func WriteLargest(t *testing.T, db Database) {
	t.Helper()
	ctx, at, owner, other := t.Context(), messagetest.Epoch, longest(0), longest(1)

	m := message.Message{
		ID: messagetest.ID(1), From: owner, Audience: message.AudienceFollowers, Attrs: json.RawMessage(`{}`),
		Body: strings.Repeat("x", message.MaxTextBytes-2), ContentType: "text/" + strings.Repeat("x", 250),
	}
	for n := range message.MaxRecipients {
		m.To = append(m.To, longest(n))
	}
	segment := strings.Repeat("x", message.MaxSegmentBytes)
	deepest := message.Topic(strings.TrimSuffix(strings.Repeat(segment+"/", message.MaxTopicSegments), "/"))
	entry := bucket.EntryOf(m)
	entry.To, entry.Topics = m.To[:message.MaxNames], slices.Repeat([]message.Topic{deepest}, message.MaxTopics)
	_, err := db.Messages.Insert(ctx, []message.Message{m}, message.Timing{Slack: -message.MaxSlack})
	require.NoError(t, err)

	entries := make([]bucket.Entry, 1)
	for n := range bucket.Capacity { // one at a time, because together they are larger than a write may be
		entries[0] = entry
		entries[0].ID, entries[0].Recovered = messagetest.ID(n+1), true
		push := bucket.Push{Owner: owner, Sequence: math.MaxUint32, Entries: entries, Create: true, Floor: messagetest.ID(1000)}
		outcomes, err := db.Inbox.Push(ctx, []bucket.Push{push})
		require.NoError(t, err)
		require.True(t, outcomes[0].Applied)
	}

	state := userstate.State{
		User: owner, LastViewed: at, Horizon: at, Recovered: math.MaxInt64,
		Flagged: true, Seen: math.MaxInt64, Marks: math.MaxInt64, GapsMade: math.MaxInt64,
		Mark: &userstate.Mark{From: at, Bounded: true}, Sweep: &userstate.Sweep{From: at},
		Lease:    userstate.Lease{Token: strings.Repeat("x", 26) + "/" + strings.Repeat("x", 26), Until: at, Since: at},
		ReadMark: bucket.ReadMark{UpTo: m.ID, Sequence: math.MaxUint32, Slots: math.MaxInt64, Gaps: userstate.MaxGaps, Read: math.MaxInt64, InGap: math.MaxInt64},
		Purged:   m.ID, Oldest: math.MaxUint32,
		Keep: userstate.Retention{MaxAge: time.Hour, Newest: math.MaxInt64},
	}
	for n := range userstate.MaxGaps {
		after := at.Add(time.Duration(n) * time.Hour)
		state.Gaps = append(state.Gaps, userstate.Gap{After: after, Before: after.Add(time.Minute), Messages: math.MaxInt64})
	}
	stepped, err := db.Users.Step(ctx, []userstate.Step{{From: userstate.State{User: owner}, To: state}})
	require.NoError(t, err)
	require.True(t, stepped[0].Applied)
	require.NoError(t, db.Users.RaiseHeads(ctx, []bucket.Head{{Owner: owner, Hint: bucket.Hint{Sequence: math.MaxUint32, Floor: m.ID}}}))

	ended := follow.Subscription{Pair: follow.Pair{Follower: owner, Followee: deepest.Source()}, Number: math.MaxInt64}
	open := follow.Subscription{Pair: follow.Pair{Follower: other, Followee: deepest.Source()}, Number: math.MaxInt64}
	for n := range follow.MaxSpans {
		since := at.Add(time.Duration(n) * time.Hour)
		require.NoError(t, db.Edges.Unfollow(ctx, open.Pair, since))
		_, err := db.Edges.Subscribe(ctx, []follow.Subscription{ended, open}, since)
		require.NoError(t, err)
		require.NoError(t, db.Edges.Unfollow(ctx, ended.Pair, since.Add(time.Minute)))
	}

	require.NoError(t, db.Messages.Conclude(ctx, []message.Ending{{
		Ref: m.Ref(), Lane: "medium", Delivered: math.MaxInt64, Skipped: math.MaxInt64, GivenUp: partition.MaxCount, Closed: math.MaxInt64,
	}}))

	partitions := make([]int, partition.MaxCount)
	steps := make([]progress.Move, partition.MaxCount)
	for p := range partitions {
		partitions[p] = p
		steps[p] = progress.Move{ID: m.ID, Partition: p, To: progress.Scan{Joined: true, Start: owner, At: other, Delivered: math.MaxInt64, Skipped: math.MaxInt64, Dead: true, GivenUp: true}}
	}
	_, err = db.Progress.Plan(ctx, m.ID, "medium", partitions, at)
	require.NoError(t, err)
	_, err = db.Progress.Step(ctx, steps, at)
	require.NoError(t, err)

	_, err = db.Keys.Reserve(ctx, message.Key{From: owner, Key: strings.Repeat("x", 255), ID: m.ID, Digest: m.Digest(), Expires: at}, at)
	require.NoError(t, err)

	to := topic.Record{Topic: deepest, Number: math.MaxInt64, Parent: math.MaxInt64, InForce: true, Mark: math.MaxInt64}
	_, err = db.Topics.Step(ctx, []topic.Change{{From: topic.Record{Topic: deepest}, To: to}})
	require.NoError(t, err)

	written, err := db.Flags.Replace(ctx, largestFlags(owner))
	require.NoError(t, err)
	require.True(t, written)

	writeLargestIdentities(t, db.Identities)
}

// writeLargestIdentities gives a user as many identities as possible, as long as possible.
func writeLargestIdentities(t *testing.T, store identity.Store) {
	t.Helper()
	var records []identity.Record
	var items []identity.Item
	for n := range identity.MaxPerUser {
		id := identity.Identity{Kind: identity.URL, Value: fmt.Sprintf("https://%0*d/", identity.MaxValueBytes-len("https:///"), n)}
		records = append(records, identity.Record{Identity: id, User: longest(0), Form: math.MaxInt8, Since: messagetest.Epoch})
	}
	looked, err := store.Insert(t.Context(), records)
	require.NoError(t, err)
	for i, l := range looked {
		records[i] = l.Record
		items = append(items, identity.Item{Identity: l.Record.Identity, Number: l.Record.Number})
	}
	results, err := store.ReplaceLists(t.Context(), []identity.Change{{From: identity.List{User: longest(0)}, Items: items}})
	require.NoError(t, err)
	require.NoError(t, results[0])
	_, err = store.Confirm(t.Context(), records)
	require.NoError(t, err)
}

// Sizes is the greatest size of a record, in bytes with its key.
type Sizes struct{ Embedded, MongoDB int }

// DocumentedSizes returns the sizes that docs/data-model.md gives for the records of each collection. The caller is a package in internal.
func DocumentedSizes(t *testing.T) map[string]Sizes {
	t.Helper()
	text, err := os.ReadFile("../../docs/data-model.md")
	require.NoError(t, err)
	sizes := make(map[string]Sizes)
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		mongoDB, embedded, ok := strings.Cut(strings.ReplaceAll(strings.TrimSpace(cells[4]), ",", ""), " ")
		if !ok {
			continue
		}
		var s Sizes
		s.MongoDB, err = strconv.Atoi(mongoDB)
		require.NoError(t, err, line)
		s.Embedded, err = strconv.Atoi(strings.Trim(embedded, "()"))
		require.NoError(t, err, line)
		sizes[strings.Trim(cells[1], " `")] = s
	}
	require.Len(t, sizes, 11)
	return sizes
}
