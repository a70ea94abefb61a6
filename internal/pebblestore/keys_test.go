package pebblestore_test

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/internal/tally"
	"github.com/fanmail/fanmail/pkg/bucket"
	flags "github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
	"github.com/fanmail/fanmail/pkg/userstate"
)

var update = flag.Bool("update", false, "write the golden file of a new format version")

// TestRecordsAreGolden holds keys and values to the bytes that stores out there consist of. A change here needs a
// new format version.
func TestRecordsAreGolden(t *testing.T) {
	t.Parallel()
	at := messagetest.Epoch
	m := message.Message{
		ID: messagetest.ID(1), From: "ada", To: []message.UserID{"bob", "eve"}, Audience: message.AudienceFollowers,
		Body: "Hello", ContentType: "text/plain", Attrs: json.RawMessage(`{"a":1}`),
	}
	state := userstate.State{
		User: "bob", LastViewed: at, Horizon: at.Add(30 * 24 * time.Hour), Head: bucket.Hint{Sequence: 2, Floor: messagetest.ID(2)},
		ReadMark: bucket.ReadMark{UpTo: messagetest.ID(3), Sequence: 1, Slots: 70, Gaps: 2, Read: 60, InGap: 9},
	}
	rehydrating := userstate.State{
		User: "bob", LastViewed: at, Horizon: state.Horizon, Head: state.Head, ReadMark: state.ReadMark, Recovered: 11,
		Mark: &userstate.Mark{From: at.Add(-time.Hour), Bounded: true}, Sweep: &userstate.Sweep{From: at.Add(-time.Minute)},
		Lease: userstate.Lease{Token: "token", Until: at.Add(time.Minute), Since: at},
		Gaps:  []userstate.Gap{{After: at.Add(-4 * time.Hour), Before: at.Add(-3 * time.Hour), Messages: 12}, {After: at.Add(-2 * time.Hour), Before: at.Add(-time.Hour), Messages: 13}},
	}
	edge := follow.Edge{Follower: "bob", Followee: "ada", Spans: []follow.Span{{Since: at, Until: at.Add(time.Hour)}, {Since: at.Add(2 * time.Hour)}}}
	scan := progress.Scan{Joined: true, Start: "bob", At: "eve", Delivered: 5, Skipped: 6}
	key := message.Key{From: "ada", Key: "once", ID: messagetest.ID(9), Digest: m.Digest(), Expires: at.Add(24 * time.Hour)}

	requireGolden(t, "testdata/keys-1.golden", pebblestore.Records(m, state, rehydrating, edge, scan, key, at))
	var judged []pebblestore.Record
	for _, void := range []bool{false, true} {
		judged = append(judged, pebblestore.JudgedMessage(message.Stored{Message: m, Stamp: message.Stamp{StoredAt: at, Void: void}})...)
	}
	requireGolden(t, "testdata/keys-1-verdict.golden", judged)
	topical := message.Stored{Message: m, Stamp: message.Stamp{StoredAt: at}}
	topical.Blocked = 3
	topical.Topics = []message.Topic{message.Topic("go/errors"), message.Topic("news")}
	requireGolden(t, "testdata/keys-1-topical.golden", pebblestore.TopicalMessage(topical))
	requireGolden(t, "testdata/keys-1-walk.golden", []pebblestore.Record{pebblestore.RoundRecord(retention.Round{
		Revision: 7, Began: at, Partition: 3, After: "名前", Token: "host-1", Until: at.Add(time.Minute),
		Number: 7, Target: messagetest.ID(1), Missed: true, AsOf: at.Add(time.Second), Reading: at.Add(2 * time.Second), LowWater: messagetest.ID(4),
		Proven: 5, Users: retention.Census{Active: 3, Dormant: 4}, Counted: retention.Census{Active: 5, Dormant: 6},
	})})
	state.Purged, state.Oldest = messagetest.ID(4), 1
	requireGolden(t, "testdata/keys-1-purged.golden", []pebblestore.Record{{Name: "user with a purge point", Value: pebblestore.EncodeState(state)}})
	state.Keep = userstate.Retention{MaxAge: 90 * 24 * time.Hour, Newest: 100}
	requireGolden(t, "testdata/keys-1-kept.golden", []pebblestore.Record{
		{Name: "user with a retention", Value: pebblestore.EncodeState(state)},
		{Name: "user never seen, with a retention", Value: pebblestore.EncodeState(userstate.State{User: "bob", Keep: userstate.Retention{Newest: 1}})},
	})
	requireGolden(t, "testdata/keys-1-ending.golden", []pebblestore.Record{
		pebblestore.EndingRecord(m.ID, message.Ending{Delivered: 5, Skipped: 6, GivenUp: 1, Closed: 7}),
		pebblestore.EndingRecord(m.ID, message.Ending{}),
	})
	requireGolden(t, "testdata/keys-1-identities.golden", pebblestore.IdentityRecords(
		identity.Record{Identity: identity.Identity{Kind: identity.Email, Value: "zoë@example.com"}, User: "bob", Number: identity.Number{1, 2, 3}, Form: 1, Since: at}))
	requireGolden(t, "testdata/keys-1-topics.golden", []pebblestore.Record{
		pebblestore.TopicRecord(topic.Record{Topic: "news", Number: 1 << 62, InForce: true, Mark: 7}),
		pebblestore.TopicRecord(topic.Record{Topic: "news/名前", Number: 5, Parent: 1 << 62}),
	})
	counters := tally.Of([]int64{1, 0, 1 << 40})
	requireGolden(t, "testdata/keys-1-counts.golden", pebblestore.CountsRecords(
		settings.Process{
			Name: "host-1", Role: "publisher", Host: "host", Version: "v1", Address: "[::1]:80", State: settings.Running, Started: at, Seen: at.Add(time.Second),
			Counters: counters,
		},
		settings.Totals{Revision: 7, Base: counters, Taken: map[string]tally.Counters{"host-1": {Accepted: 1}, "a": {}}},
	))
	requireGolden(t, "testdata/keys-1-flags.golden", []pebblestore.Record{
		pebblestore.FlagsRecord(flags.Record{
			Owner: "bob", Revision: 7, MessagesAt: 6, DroppedAt: 5,
			Buckets:  []flags.Bucket{{Sequence: 2, At: 4, Read: 1, Archived: 3}, {Sequence: 258, At: 7, Unread: 1 << 63}},
			Messages: []flags.Message{{ID: messagetest.ID(1), Flags: flags.Read | flags.Archived}},
		}),
		{Name: "user with flags", Value: pebblestore.EncodeState(userstate.State{User: "bob", LastViewed: at, Horizon: at, Flagged: true})},
		{Name: "user who has seen", Value: pebblestore.EncodeState(userstate.State{User: "bob", LastViewed: at, Horizon: at, Seen: 70, Marks: 3, GapsMade: 2})},
	})
	edge.Followee, edge.Number = message.Topic("news/名前").Source(), 1<<62
	requireGolden(t, "testdata/keys-1-subscription.golden", pebblestore.EdgeRecords(edge))
	scan.Dead = true
	requireGolden(t, "testdata/keys-1-given-up.golden", []pebblestore.Record{pebblestore.ScanRecord(m.ID, scan.GiveUp())})
}

func requireGolden(t *testing.T, golden string, records []pebblestore.Record) {
	t.Helper()
	var got strings.Builder
	for _, r := range records {
		fmt.Fprintf(&got, "%s\n  key   %x\n  value %x\n", r.Name, r.Key, r.Value)
	}
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())
}

// TestEmptiedRecordsAreGolden holds what emptying leaves to its bytes.
func TestEmptiedRecordsAreGolden(t *testing.T) {
	t.Parallel()
	records := pebblestore.EmptiedRecords(messagetest.ID(1), messagetest.ID(2), messagetest.ID(3), "bob")
	requireGolden(t, "testdata/keys-1-emptied.golden", records)
	value := records[1].Value
	again, err := pebblestore.ParseRemoved(value)
	require.NoError(t, err)
	require.Equal(t, value, again)
	for n := range value {
		_, err := pebblestore.ParseRemoved(value[:n])
		require.ErrorIs(t, err, pebblestore.ErrCorrupt, "%d bytes", n)
	}
	_, err = pebblestore.ParseRemoved(append(value, 0))
	require.ErrorIs(t, err, pebblestore.ErrCorrupt)
	require.ErrorContains(t, err, "in removed")
}

// TestEarlierFormatIsRefused opens a store with the records of version 1.
func TestEarlierFormatIsRefused(t *testing.T) {
	t.Parallel()
	lines, err := os.ReadFile("testdata/keys.golden")
	require.NoError(t, err)
	dir := t.TempDir()
	db, err := pebble.Open(dir, pebblestore.EngineOptions(options(t, nil)))
	require.NoError(t, err)
	records := 0
	for record := range strings.SplitSeq(string(lines), "\n  key ") {
		key, value, ok := strings.Cut(record, "\n  value ")
		if !ok {
			continue
		}
		value, _, _ = strings.Cut(value, "\n")
		require.NoError(t, db.Set(unhex(t, key), unhex(t, value), pebble.NoSync))
		records++
	}
	require.Equal(t, 18, records)
	require.NoError(t, db.Close())
	_, err = pebblestore.Open(t.Context(), dir, options(t, nil))
	require.ErrorIs(t, err, pebblestore.ErrFormat)
	require.ErrorContains(t, err, "made by another version of Fanmail")
}

func unhex(t *testing.T, digits string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.TrimSpace(digits))
	require.NoError(t, err)
	return b
}

// userID returns s as far as it can be a user id: without the zero bytes that end one in a key.
func userID(s string) message.UserID {
	s = strings.ReplaceAll(s, "\x00", "")
	return message.UserID(s[:min(len(s), message.MaxUserIDBytes)])
}

func FuzzEntryKeys(f *testing.F) {
	f.Add(1, "a", uint32(0), byte(3), 1, "ab", uint32(1), byte(0))
	f.Add(255, "é", uint32(1<<31), byte(49), 1, "z", uint32(255), byte(7))
	f.Fuzz(func(t *testing.T, p1 int, o1 string, q1 uint32, s1 byte, p2 int, o2 string, q2 uint32, s2 byte) {
		p1, p2 = p1&0xff, p2&0xff
		x := pebblestore.EntryKey(p1, userID(o1), q1, int(s1))
		y := pebblestore.EntryKey(p2, userID(o2), q2, int(s2))
		want := cmp.Or(cmp.Compare(p1, p2), cmp.Compare(userID(o1), userID(o2)), cmp.Compare(q1, q2), cmp.Compare(s1, s2))
		require.Equal(t, want, bytes.Compare(x, y), "keys sort as what they stand for")
		sequence, slot := pebblestore.PlaceOf(x)
		require.Equal(t, q1, sequence)
		require.Equal(t, int(s1), slot)
	})
}

func FuzzFollowerKeys(f *testing.F) {
	f.Add("ada", 1, "bob", "ad", 2, "abob")
	f.Fuzz(func(t *testing.T, e1 string, p1 int, r1, e2 string, p2 int, r2 string) {
		p1, p2 = p1&0xff, p2&0xff
		x := pebblestore.FollowerKey(userID(e1).Source(), p1, userID(r1))
		y := pebblestore.FollowerKey(userID(e2).Source(), p2, userID(r2))
		want := cmp.Or(cmp.Compare(userID(e1), userID(e2)), cmp.Compare(p1, p2), cmp.Compare(userID(r1), userID(r2)))
		require.Equal(t, want, bytes.Compare(x, y), "keys sort as what they stand for")
	})
}

func FuzzMessageKeys(f *testing.F) {
	f.Add("ada", []byte("0123456789abcdef"), 3, int64(0), "once", int64(-5))
	f.Fuzz(func(t *testing.T, from string, b []byte, p int, expires int64, key string, other int64) {
		var id message.ID
		copy(id[:], b)
		_, read := pebblestore.AuthorKey(userID(from), id)
		require.Equal(t, id, read)
		_, read = pebblestore.NamingKey(userID(from), id)
		require.Equal(t, id, read)
		_, partition := pebblestore.ScanKey(id, p&0xff)
		require.Equal(t, p&0xff, partition)
		x := pebblestore.ExpiryKey(time.UnixMilli(expires), userID(from), key)
		y := pebblestore.ExpiryKey(time.UnixMilli(other), userID(from), key)
		require.Equal(t, cmp.Compare(expires, other), bytes.Compare(x, y), "keys sort as what they stand for")
	})
}

func FuzzLeaseKeys(f *testing.F) {
	f.Add(int64(5), "bob", int64(-5), "ada")
	f.Fuzz(func(t *testing.T, u1 int64, o1 string, u2 int64, o2 string) {
		x, user := pebblestore.LeaseKey(time.UnixMilli(u1), userID(o1))
		require.Equal(t, userID(o1), user)
		y, _ := pebblestore.LeaseKey(time.UnixMilli(u2), userID(o2))
		want := cmp.Or(cmp.Compare(u1, u2), cmp.Compare(userID(o1), userID(o2)))
		require.Equal(t, want, bytes.Compare(x, y), "keys sort as what they stand for")
	})
}

// FuzzParseState requires that no bytes make the parser panic, and that the parser returns the written state.
func FuzzParseState(f *testing.F) {
	f.Add([]byte{})
	f.Add(pebblestore.EncodeState(userstate.State{Recovered: 7, Mark: &userstate.Mark{Bounded: true}, Gaps: make([]userstate.Gap, 2)}))
	f.Add(append([]byte{1, 1, 0xff}, bytes.Repeat([]byte{0, 0, 0, 1}, 60)...))
	f.Add(append([]byte{1, 0, 0x20}, bytes.Repeat([]byte{0xff}, 60)...))
	f.Add(pebblestore.EncodeState(userstate.State{ReadMark: bucket.ReadMark{Gaps: 1, InGap: 2}}))
	f.Add(pebblestore.EncodeState(userstate.State{Recovered: 7, Purged: messagetest.ID(1), Oldest: 2}))
	f.Add(pebblestore.EncodeState(userstate.State{Keep: userstate.Retention{MaxAge: time.Hour}}))
	f.Add(pebblestore.EncodeState(userstate.State{Flagged: true, Seen: 7, Marks: 8}))
	f.Fuzz(func(t *testing.T, b []byte) {
		st, err := pebblestore.ParseState("ann", b)
		if err != nil {
			return
		}
		again := pebblestore.EncodeState(st)
		got, err := pebblestore.ParseState("ann", again)
		require.NoError(t, err)
		require.Equal(t, st, got)
	})
}

// TestDamagedStates makes sure that a state that is cut off anywhere, or goes on too long, is reported.
func TestDamagedStates(t *testing.T) {
	t.Parallel()
	whole := userstate.State{
		User: "ann", LastViewed: messagetest.Epoch, Recovered: 1, Mark: &userstate.Mark{From: messagetest.Epoch},
		Sweep: &userstate.Sweep{From: messagetest.Epoch}, Gaps: make([]userstate.Gap, 2),
		ReadMark: bucket.ReadMark{UpTo: messagetest.ID(1)},
	}
	b := pebblestore.EncodeState(whole)
	whole.Purged, whole.Oldest = messagetest.ID(1), 7
	purged := pebblestore.EncodeState(whole)
	whole.Purged, whole.Oldest, whole.Keep.Newest = message.ID{}, 0, 7
	kept := pebblestore.EncodeState(whole)
	whole.Keep.Newest, whole.Flagged, whole.Marks = 0, true, 7
	flagged := pebblestore.EncodeState(whole)
	for _, b := range [][]byte{b, purged, kept, flagged} {
		for n := range b {
			_, err := pebblestore.ParseState("ann", b[:n])
			require.ErrorIs(t, err, pebblestore.ErrCorrupt, "%d bytes of %d", n, len(b))
			require.ErrorIs(t, err, message.ErrCorrupt)
			require.ErrorContains(t, err, "in users")
		}
	}
	_, err := pebblestore.ParseState("ann", append(b, 0))
	require.ErrorIs(t, err, pebblestore.ErrCorrupt)
	b[1] |= 0x80
	_, err = pebblestore.ParseState("ann", b)
	require.ErrorIs(t, err, pebblestore.ErrCorrupt, "a part that is not known")
	_, err = pebblestore.ParseState("ann", append([]byte{1, 0, 0x20}, make([]byte, 8+8+4+16+4)...))
	require.ErrorIs(t, err, pebblestore.ErrCorrupt, "gaps that are none")
}

// FuzzTopicKeys requires that a topic precedes all topics below it, which are one range of keys.
func FuzzTopicKeys(f *testing.F) {
	f.Add("news", "news/a", "news!")
	f.Add("news", "newspaper", "ne")
	f.Fuzz(func(t *testing.T, under, x, y string) {
		topics := []message.Topic{message.Topic(under), message.Topic(x), message.Topic(y)}
		slices.Sort(topics)
		keys := make([][]byte, len(topics))
		for i, x := range topics {
			if x.Validate("topic") != nil {
				return
			}
			keys[i] = pebblestore.TopicRecord(topic.Record{Topic: x}).Key
		}
		require.True(t, slices.IsSortedFunc(keys, bytes.Compare), "keys sort as topics")
		if above := message.Topic(under); topics[2].In(above) && topics[0].In(above) && topics[0] != above {
			require.True(t, topics[1].In(above))
		}
	})
}

// TestDamagedTopics makes sure that a record that is cut off anywhere, or says what cannot be, is reported.
func TestDamagedTopics(t *testing.T) {
	t.Parallel()
	r := topic.Record{Topic: "news", Number: 1 << 62, Parent: 3, InForce: true, Mark: 1 << 61}
	value := pebblestore.TopicRecord(r).Value
	got, err := pebblestore.ParseTopic("news", value)
	require.NoError(t, err)
	require.Equal(t, r, got)
	for n := range value {
		_, err := pebblestore.ParseTopic("news", value[:n])
		require.ErrorIs(t, err, pebblestore.ErrCorrupt, "%d bytes", n)
	}
	_, err = pebblestore.ParseTopic("news", pebblestore.TopicRecord(topic.Record{InForce: true}).Value)
	require.ErrorIs(t, err, pebblestore.ErrCorrupt)
	require.ErrorContains(t, err, "in topics")
}

func FuzzAfter(f *testing.F) {
	f.Add([]byte("a"), []byte("b"))
	f.Add([]byte{'a', 0xff, 0xff}, []byte{0xff})
	f.Fuzz(func(t *testing.T, prefix, key []byte) {
		end := pebblestore.After(prefix)
		if end == nil {
			require.Empty(t, bytes.Trim(prefix, "\xff"), "only above what is all ones, there is nothing")
			return
		}
		inside := bytes.Compare(prefix, key) <= 0 && bytes.Compare(key, end) < 0
		require.Equal(t, bytes.HasPrefix(key, prefix), inside)
	})
}

func FuzzEntryRecords(f *testing.F) {
	f.Add(false, true, []byte("0123456789abcdef"), []byte("0"), []byte("1"), "content")
	f.Add(true, false, []byte("1"), []byte{}, []byte("1"), "")
	f.Fuzz(func(t *testing.T, deleted, recovered bool, id, floor, last []byte, content string) {
		r := pebblestore.EntryRecord{Deleted: deleted, Recovered: recovered, Content: content}
		copy(r.ID[:], id)
		copy(r.Floor[:], floor)
		copy(r.Last[:], last)
		b, size := r.Encode()
		require.Len(t, b, size)
		got, err := pebblestore.ParseEntry(b)
		require.NoError(t, err)
		require.Equal(t, r, got)
	})
}

// FuzzParseEntry requires that no bytes make the parser panic, and that the parser returns the written entry.
func FuzzParseEntry(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 15, 0})
	f.Add(append([]byte{1, 6}, make([]byte, 48)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := pebblestore.ParseEntry(b)
		if err != nil {
			return
		}
		again, _ := r.Encode()
		got, err := pebblestore.ParseEntry(again)
		require.NoError(t, err)
		require.Equal(t, r, got)
	})
}
