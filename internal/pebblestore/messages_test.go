package pebblestore_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/message"
)

// TestDamagedMessageFailsAlone reads a damaged record together with sound ones.
func TestDamagedMessageFailsAlone(t *testing.T) {
	t.Parallel()
	db, err := pebblestore.Open(t.Context(), t.TempDir(), options(t, nil))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	sound, damaged := messagetest.Message(1, "ann"), messagetest.Message(2, "ann")
	_, err = db.Messages().Insert(t.Context(), []message.Message{sound, damaged}, messagetest.AnyTime)
	require.NoError(t, err)
	require.NoError(t, db.Engine().Set(pebblestore.MessageKey(damaged.ID), []byte{2, 1}, pebble.Sync))
	found, err := db.Messages().GetMany(t.Context(), []message.Ref{damaged.Ref(), sound.Ref()})
	require.NoError(t, err)
	require.ErrorIs(t, found[0].Err, message.ErrCorrupt)
	require.ErrorContains(t, found[0].Err, damaged.ID.String())
	require.NoError(t, found[1].Err)
	require.Equal(t, sound, found[1].Stored.Message)
	fates, err := db.Messages().Endings(t.Context(), []message.Ref{damaged.Ref(), sound.Ref()})
	require.NoError(t, err)
	require.ErrorIs(t, fates[0].Err, message.ErrCorrupt)
	require.False(t, fates[0].Over())
	require.Equal(t, message.Fate{Ref: sound.Ref()}, fates[1])
}

// TestDamagedPlanFailsAlone lists a damaged plan together with a sound one.
func TestDamagedPlanFailsAlone(t *testing.T) {
	t.Parallel()
	db, err := pebblestore.Open(t.Context(), t.TempDir(), options(t, nil))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	ids := []message.ID{messagetest.ID(1), messagetest.ID(2), messagetest.ID(3)}
	for _, id := range ids {
		_, err := db.Progress().Plan(t.Context(), id, []int{0, 1}, messagetest.Epoch)
		require.NoError(t, err)
	}
	key, _ := pebblestore.ScanKey(ids[1], 0)
	require.NoError(t, db.Engine().Set(key, []byte{1, 0xff}, pebble.Sync))
	found, err := db.Progress().List(t.Context(), message.ID{}, message.MaxID, 10)
	require.NoError(t, err)
	require.Len(t, found, 3)
	for i, f := range found {
		require.Equal(t, ids[i], f.Fanout.ID)
		if i != 1 {
			require.NoError(t, f.Err)
			require.Len(t, f.Fanout.Scans, 2)
		}
	}
	require.ErrorIs(t, found[1].Err, message.ErrCorrupt)
}

// TestMessagesOfEarlierReleases reads messages that a release without verdicts stored. The settings judge them, by one side only.
func TestMessagesOfEarlierReleases(t *testing.T) {
	t.Parallel()
	db, err := pebblestore.Open(t.Context(), t.TempDir(), options(t, nil))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	everything := []message.Range{{From: "ann", Before: message.MaxID}}
	var all []message.Message
	for n, late := range []time.Duration{90 * time.Second, 0, -365 * 24 * time.Hour} {
		m := messagetest.Message(n, "ann")
		m.Attrs = json.RawMessage(`{"a":1}`)
		all = append(all, m)
		for _, r := range pebblestore.EarlierMessage(m, m.Sent().Add(late)) {
			require.NoError(t, db.Engine().Set(r.Key, r.Value, pebble.Sync))
		}
		stored, err := db.Messages().Get(t.Context(), m.Ref())
		require.NoError(t, err)
		require.Equal(t, message.Stored{Message: m, Stamp: message.Stamp{StoredAt: m.Sent().Add(late)}}, stored)
		require.Equal(t, late > 0, stored.Void(time.Minute))
		require.False(t, stored.Void(2*time.Minute))
	}
	for slack, want := range map[time.Duration]int64{time.Minute: 2, 2 * time.Minute: 3} {
		count, err := db.Messages().CountToFollowers(t.Context(), everything, slack)
		require.NoError(t, err)
		require.Equal(t, want, count)
	}
	before, err := db.Messages().ToFollowers(t.Context(), everything, message.OldestFirst, 10)
	require.NoError(t, err)
	stamps, err := db.Messages().Insert(t.Context(), all, message.Timing{})
	require.NoError(t, err)
	for i, stamp := range stamps {
		require.Equal(t, before[i].Stamp, stamp, "a repeated insert does not judge them")
	}
}

// TestEarlierReleasesAgree reads judged messages as a release without verdicts does: with every slack it comes to the same verdict.
func TestEarlierReleasesAgree(t *testing.T) {
	t.Parallel()
	db, err := pebblestore.Open(t.Context(), t.TempDir(), options(t, nil))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	for n, timing := range []message.Timing{messagetest.AnyTime, {Slack: -message.MaxSlack, Tolerance: message.MaxSlack}} {
		m := messagetest.Message(n, "ann")
		m.To, m.ContentType, m.Attrs = []message.UserID{"bob"}, "text/plain", json.RawMessage(`{"a":1}`)
		_, err := db.Messages().Insert(t.Context(), []message.Message{m}, timing)
		require.NoError(t, err)
		read, ofMessage, ofAuthor, err := pebblestore.ReadAsEarlier(db, m.Ref())
		require.NoError(t, err)
		require.Equal(t, m, read)
		require.Equal(t, ofMessage, ofAuthor)
		for _, slack := range []time.Duration{0, 24 * time.Hour, message.MaxSlack} {
			require.Equal(t, n == 1, ofMessage.Sub(m.Sent()) > slack)
		}
	}
}
