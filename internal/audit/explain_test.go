package audit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/pkg/verdict"
)

// pass records that the fan-out of a message has come to its end in all partitions.
func (w *world) pass(m message.Message) message.Message {
	w.t.Helper()
	w.plan(m)
	for p := range partitions {
		w.scan(m, p, func(progress.Scan) progress.Scan {
			return progress.Scan{Joined: true, Done: true, Delivered: 1}
		})
	}
	return m
}

// scan moves the scan of a message in a partition.
func (w *world) scan(m message.Message, p int, to func(progress.Scan) progress.Scan) {
	t := w.t
	t.Helper()
	scans, ok, err := w.db.Progress().Scans(t.Context(), p, []message.ID{m.ID})
	require.NoError(t, err)
	require.True(t, ok[0])
	if to(scans[0]).Same(scans[0]) {
		return
	}
	stepped, err := w.db.Progress().Step(t.Context(), []progress.Move{{ID: m.ID, Partition: p, From: scans[0], To: to(scans[0])}}, w.now)
	require.NoError(t, err)
	require.True(t, stepped[0].Applied)
}

func (w *world) delete(id message.ID) {
	t := w.t
	t.Helper()
	require.NoError(t, bucket.Delete(t.Context(), w.db.Inbox(), "ben", bucket.Hint{}, id))
}

// TestExplain has each verdict, in each way of coming to it, and the sentence that goes with it.
func TestExplain(t *testing.T) {
	t.Parallel()
	sent := epoch.Add(-10 * time.Minute)
	tests := map[string]struct {
		// arrange returns the message that is asked about, for ben.
		arrange  func(w *world) message.Message
		verdict  verdict.Verdict
		sentence string // with ID for the id of the message
	}{
		"delivered": {
			arrange: func(w *world) message.Message {
				m := w.toFollowers(sent)
				w.deliver(m)
				return m
			},
			verdict: verdict.Delivered, sentence: `ben has ID: it was delivered into bucket 0, slot 0 of their inbox.`,
		},
		"delivered, and named": {
			arrange: func(w *world) message.Message {
				w.deliver(w.toFollowers(sent))
				m := w.named(sent, "ben", "dora")
				w.deliver(m)
				return m
			},
			verdict: verdict.Delivered, sentence: `ben has ID: it was delivered into bucket 0, slot 1 of their inbox.`,
		},
		"delivered to somebody who had just left": {
			arrange: func(w *world) message.Message {
				w.unfollow("ben", "ann", sent.Add(-time.Second))
				m := w.toFollowers(sent)
				w.deliver(m)
				return m
			},
			verdict: verdict.Delivered,
			sentence: `ben has ID: it was delivered into bucket 0, slot 0 of their inbox. But ID is not for ben: it was sent at 2026-01-02T02:54:05.000Z, ` +
				`and they had ended following ann at 2026-01-02T02:54:04.000Z, 1s before: 'fanmail audit --user ben' says whether that is tolerated.`,
		},
		"recovered": {
			arrange: func(w *world) message.Message {
				m := w.pass(w.toFollowers(epoch.Add(2 * dormantAfter)))
				w.back(epoch.Add(day), 0)
				return m
			},
			verdict:  verdict.Recovered,
			sentence: `ben has ID: a rehydration recovered it into bucket 0, slot 0 of their inbox.`,
		},
		"in a gap": {
			arrange: func(w *world) message.Message {
				m := w.pass(w.toFollowers(epoch.Add(2 * dormantAfter)))
				w.pass(w.toFollowers(epoch.Add(3 * dormantAfter)))
				w.back(epoch.Add(day), 1)
				return m
			},
			verdict: verdict.InGap,
			sentence: `ben has ID by fan out on read: it was sent at 2026-01-02T05:04:05.000Z, in the gap after 2026-01-02T04:04:05.000Z and before ` +
				`2026-01-02T06:04:05.000Z, which a rehydration left to be read from the canonical store whenever the inbox is paged.`,
		},
		"deleted": {
			arrange: func(w *world) message.Message {
				m := w.toFollowers(sent)
				w.deliver(m)
				w.delete(m.ID)
				return m
			},
			verdict: verdict.Deleted, sentence: `ben had ID and does not any more: it was deleted from their inbox, and the tombstone in bucket 0, slot 0 keeps it from coming back.`,
		},
		"dormant": {
			arrange: func(w *world) message.Message {
				return w.pass(w.toFollowers(epoch.Add(dormantAfter + time.Millisecond)))
			},
			verdict: verdict.Dormant,
			sentence: `ben does not have ID yet: it was sent at 2026-01-02T04:04:05.001Z, after their horizon, which is 2026-01-02T04:04:05.000Z ` +
				`(last viewed at 2026-01-02T03:04:05.000Z); a rehydration recovers it when a view raises the horizon.`,
		},
		"rehydrating": {
			arrange: func(w *world) message.Message {
				m := w.pass(w.toFollowers(epoch.Add(2 * dormantAfter)))
				w.now = epoch.Add(day)
				_, err := w.rehydrator(0).Arrive(w.t.Context(), "ben", w.now)
				require.NoError(w.t, err)
				return m
			},
			verdict: verdict.Rehydrating,
			sentence: `ben does not have ID yet: it was sent at 2026-01-02T05:04:05.000Z, after the horizon that they had when they came back, which was ` +
				`2026-01-02T04:04:05.000Z, and the rehydration that is due since 2026-01-03T03:04:05.000Z appends it; until then, reading the inbox finds it by fan out on read.`,
		},
		"rehydrating, swept": {
			arrange: func(w *world) message.Message {
				m := w.pass(w.toFollowers(sent))
				w.change(func(s *userstate.State) { s.Sweep = &userstate.Sweep{From: sent} })
				return m
			},
			verdict: verdict.Rehydrating,
			sentence: `ben does not have ID yet: it was sent at 2026-01-02T02:54:05.000Z, and the rehydration that is about to finish looks once more for ` +
				`everything sent since 2026-01-02T02:54:05.000Z.`,
		},
		"not planned": {
			arrange: func(w *world) message.Message { return w.toFollowers(sent) },
			verdict: verdict.InFlight,
			sentence: `ben does not have ID yet: its fan-out has not been planned since it was stored at 2026-01-02T02:54:05.000Z; it is as soon as the router ` +
				`comes to it, and is emitted again if that takes too long.`,
		},
		"in flight": {
			arrange: func(w *world) message.Message {
				m := w.plan(w.toFollowers(sent))
				w.scan(m, ben, func(s progress.Scan) progress.Scan {
					return s.Join("").Advance("aaron", false, progress.Counts{Delivered: 1})
				})
				return m
			},
			verdict: verdict.InFlight, sentence: `ben does not have ID yet: its fan-out in their partition, 1, stands at "aaron" and has yet to come to them.`,
		},
		"not planned, without a worker": {
			arrange:  func(w *world) message.Message { w.workerless = true; return w.toFollowers(sent) },
			verdict:  verdict.InFlight,
			sentence: `ben does not have ID yet: its fan-out has not been planned since it was stored at 2026-01-02T02:54:05.000Z; no fan-out worker runs: start one.`,
		},
		"in flight, without a worker": {
			arrange: func(w *world) message.Message {
				m := w.plan(w.toFollowers(sent))
				w.workerless, w.now = true, w.now.Add(30*time.Second)
				return m
			},
			verdict:  verdict.InFlight,
			sentence: `ben does not have ID yet: its fan-out in their partition, 1, stands at the beginning and has yet to come to them; no fan-out worker runs: start one.`,
		},
		"in flight, with busy workers": {
			arrange: func(w *world) message.Message {
				m := w.plan(w.toFollowers(sent))
				w.now = w.now.Add(30 * time.Second)
				return m
			},
			verdict:  verdict.InFlight,
			sentence: `ben does not have ID yet: its fan-out in their partition, 1, stands at the beginning and has yet to come to them; it waits for: worker.`,
		},
		"in flight, with a lost worker": {
			arrange: func(w *world) message.Message {
				m := w.plan(w.toFollowers(sent))
				w.scan(m, ben, func(s progress.Scan) progress.Scan { return s.Join("") })
				w.now = w.now.Add(30 * time.Second)
				return m
			},
			verdict: verdict.InFlight,
			sentence: `ben does not have ID yet: its fan-out in their partition, 1, stands at the beginning and has yet to come to them; it waits for: lost-worker, ` +
				`until about 2026-01-02T03:05:05.000Z.`,
		},
		"dead-lettered": {
			arrange: func(w *world) message.Message {
				m := w.plan(w.toFollowers(sent))
				w.scan(m, ben, func(s progress.Scan) progress.Scan { s.Dead = true; return s })
				return m
			},
			verdict: verdict.DeadLettered,
			sentence: `ben does not have ID: its fan-out in their partition, 1, was given up at the beginning: unless its dead letter ` +
				`was dropped, 'fanmail dlq redrive' lets it go on.`,
		},
		"never followed": {
			arrange: func(w *world) message.Message {
				return w.store(message.Message{ID: w.id(sent), From: "eve", Audience: message.AudienceFollowers, Body: "x"}, sent)
			},
			verdict: verdict.NotFollowedThen, sentence: `ID is not for ben: it is to the followers of eve, whom they have never followed.`,
		},
		"unfollowed": {
			arrange: func(w *world) message.Message {
				w.unfollow("ben", "ann", sent)
				return w.pass(w.toFollowers(sent))
			},
			verdict:  verdict.NotFollowedThen,
			sentence: `ID is not for ben: it was sent at 2026-01-02T02:54:05.000Z, and they had ended following ann at 2026-01-02T02:54:05.000Z, 0s before.`,
		},
		"unfollowed, and following again": {
			arrange: func(w *world) message.Message {
				w.unfollow("ben", "ann", sent.Add(-time.Minute))
				w.follow("ben", "ann", sent.Add(time.Minute))
				return w.pass(w.toFollowers(sent))
			},
			verdict: verdict.NotFollowedThen,
			sentence: `ID is not for ben: it was sent at 2026-01-02T02:54:05.000Z, and they had ended following ann at 2026-01-02T02:53:05.000Z, 1m0s before, ` +
				`and began again only at 2026-01-02T02:55:05.000Z.`,
		},
		"not followed yet": {
			arrange: func(w *world) message.Message {
				return w.pass(w.toFollowers(epoch.Add(-time.Hour - time.Millisecond)))
			},
			verdict: verdict.NotFollowedYet,
			sentence: `ID is not for ben: it was sent at 2026-01-02T02:04:04.999Z, and they began to follow ann at ` +
				`2026-01-02T02:04:05.000Z, 1ms later.`,
		},
		"not addressed": {
			arrange: func(w *world) message.Message { return w.pass(w.named(sent, "dora")) },
			verdict: verdict.NotAddressed, sentence: `ID is not for ben: it is to a list, which does not name them.`,
		},
		"blocked": {
			arrange: func(w *world) message.Message {
				return w.store(message.Message{ID: w.id(sent), From: "ann", Blocked: 2, Body: "x"}, sent)
			},
			verdict:  verdict.NotAddressed,
			sentence: `ID is not for ben: it is to a list, which does not name them; and it leaves out users who blocked ann, 2 of them, perhaps this one.`,
		},
		"one's own": {
			arrange: func(w *world) message.Message {
				return w.store(message.Message{ID: w.id(sent), From: "ben", Audience: message.AudienceFollowers, Body: "x"}, sent)
			},
			verdict: verdict.NotAddressed, sentence: `ID is not for ben: they sent it to their followers, and it does not name them.`,
		},
		"void": {
			arrange: func(w *world) message.Message {
				m := message.Message{ID: w.id(sent), From: "ann", To: []message.UserID{"ben"}, Body: "late"}
				return w.store(m, sent.Add(slack+time.Millisecond))
			},
			verdict: verdict.Void,
			sentence: `ID is void and has no recipients: it was stored at 2026-01-02T02:56:05.001Z, 2m0.001s after it was sent, which was more than publish_slack; ` +
				`its publisher was told, and publishes it again under another id.`,
		},
		"void, from the future": {
			arrange: func(w *world) message.Message {
				m := message.Message{ID: w.id(sent), From: "ann", To: []message.UserID{"ben"}, Body: "early"}
				return w.store(m, sent.Add(-tolerance-time.Millisecond))
			},
			verdict: verdict.Void,
			sentence: `ID is void and has no recipients: it was stored at 2026-01-02T02:54:02.999Z, 2.001s before the time in its id, which was more than ` +
				`clock_tolerance; its publisher was told that it was not published.`,
		},
		"unknown": {
			arrange: func(w *world) message.Message { return message.Message{ID: w.id(sent)} },
			verdict: verdict.UnknownMessage, sentence: `There is no message ID: check the id.`,
		},
		"unknown, and in the inbox": {
			arrange: func(w *world) message.Message {
				m := message.Message{ID: w.id(sent), From: "ann", Body: "x"}
				w.append(m)
				return m
			},
			verdict:  verdict.UnknownMessage,
			sentence: `There is no message ID, although the inbox of ben has an entry of that id in bucket 0, slot 0: 'fanmail audit --user ben --repair' removes it.`,
		},
		"missing": {
			arrange: func(w *world) message.Message { return w.pass(w.toFollowers(sent)) },
			verdict: verdict.Missing,
			sentence: `ben should have ID and does not: it was sent at 2026-01-02T02:54:05.000Z, before their horizon, which is 2026-01-02T04:04:05.000Z, ` +
				`and its fan-out in their partition, 1, has passed them; 'fanmail audit --user ben --repair' appends it.`,
		},
		"missing since just now": {
			arrange: func(w *world) message.Message {
				m := w.pass(w.toFollowers(epoch.Add(-time.Hour + slack)))
				w.now = m.Sent()
				return m
			},
			verdict: verdict.Missing,
			sentence: `ben should have ID and does not yet: it was sent at 2026-01-02T02:06:05.000Z, when their edge to ann had just begun. The request that began it appends it ` +
				`if fan-out did not; unless it is there in a moment, 'fanmail audit --user ben --repair' appends it.`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			m := test.arrange(w)
			got, err := w.Explain(t.Context(), "ben", m.ID)
			require.NoError(t, err)
			require.Equal(t, test.verdict, got.Verdict, got.Sentence)
			require.Equal(t, replaceID(test.sentence, m.ID), got.Sentence)
			require.Equal(t, []any{message.UserID("ben"), m.ID}, []any{got.User, got.Message})
		})
	}
}

// TestExplainToUsersNeverSeen asks about users of whom there is no record.
func TestExplainToUsersNeverSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.pass(w.named(epoch, "nobody"))
	got, err := w.Explain(t.Context(), "nobody", m.ID)
	require.NoError(t, err)
	require.Equal(t, verdict.Dormant, got.Verdict)
	require.Equal(t, replaceID(`nobody does not have ID yet: nobody was never seen, so that nothing is copied for them; a rehydration recovers `+
		`it when they look for the first time.`, m.ID), got.Sentence)
	w.now = epoch.Add(time.Minute)
	_, err = w.rehydrator(0).Arrive(t.Context(), "nobody", w.now)
	require.NoError(t, err)
	got, err = w.Explain(t.Context(), "nobody", m.ID)
	require.NoError(t, err)
	require.Equal(t, verdict.Rehydrating, got.Verdict)
	require.Contains(t, got.Sentence, "and they had no horizon, for they had never been seen, and the rehydration that is due since")
}

// TestExplainFindsEntriesFarDown asks about the first entries of an inbox of many buckets, one of which came late.
func TestExplainFindsEntriesFarDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var all []message.Message
	for n := range 20*bucket.Capacity + 3 {
		all = append(all, w.named(epoch.Add(time.Duration(n)*time.Millisecond), "ben"))
	}
	late := all[5]
	w.deliver(append(all[:5:5], all[6:]...)...)
	w.deliver(late)
	for i, place := range map[int]audit.Place{0: {}, 4: {Slot: 4}, 6: {Slot: 5}, 5: {Sequence: 20, Slot: 2}, 1002: {Sequence: 20, Slot: 1}} {
		got, err := w.Explain(t.Context(), "ben", all[i].ID)
		require.NoError(t, err)
		require.Equal(t, verdict.Delivered, got.Verdict)
		require.Equal(t, place, got.At, "message %d", i)
	}
}
