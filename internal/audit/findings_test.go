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
	"github.com/fanmail/fanmail/test/tamper/damage"
)

// remove removes the record of an entry of ben's.
func (w *world) remove(id message.ID) {
	w.t.Helper()
	w.damage(func(store damage.Store) error { return store.Remove(w.t.Context(), "ben", id) })
}

// double doubles the record of an entry of ben's.
func (w *world) double(id message.ID) {
	w.t.Helper()
	w.damage(func(store damage.Store) error { return store.Double(w.t.Context(), "ben", id) })
}

// fill delivers messages that name ben, and returns them.
func (w *world) fill(count int) []message.Message {
	w.t.Helper()
	var all []message.Message
	for n := range count {
		all = append(all, w.named(epoch.Add(time.Duration(n-count)*time.Millisecond), "ben"))
	}
	w.deliver(all...)
	return all
}

// finding is what a test expects of one: the Detail has ID for the id of the message.
type finding struct {
	kind     verdict.Kind
	detail   string
	repaired bool
	note     string
}

const (
	outOfPlace = "the slot has lost its record, and is counted all the same"
)

// TestFindings has each kind of finding, in each way of coming to it, and what a repair makes of it. Afterwards, an inbox in
// which everything was repaired reads as it should.
func TestFindings(t *testing.T) {
	t.Parallel()
	sent := epoch.Add(-10 * time.Minute)
	tests := map[string]struct {
		// damage damages ben's inbox, which holds the messages, and returns the message that the findings are about, and
		// what he is to read after a repair.
		damage func(w *world, all []message.Message) (about message.Message, after []message.Message)
		want   []finding
	}{
		"missing, never delivered": {
			damage: func(w *world, all []message.Message) (message.Message, []message.Message) {
				m := w.pass(w.toFollowers(sent))
				return m, append([]message.Message{m}, all...)
			},
			want: []finding{{
				kind: verdict.MissingEntry, repaired: true,
				detail: "the message, sent at 2026-01-02T02:54:05.000Z, is not in the inbox, although its fan-out in partition 1 has passed the user",
			}},
		},
		"missing, its record removed": {
			damage: func(w *world, all []message.Message) (message.Message, []message.Message) {
				w.remove(all[len(all)-1].ID)
				return all[len(all)-1], all
			},
			want: []finding{{
				kind: verdict.MissingEntry, repaired: true,
				detail: "the message, sent at 2026-01-02T03:04:04.999Z, is not in the inbox, although its fan-out in partition 1 has passed the user",
			}},
		},
		"missing where somebody else was given up": {
			damage: func(w *world, all []message.Message) (message.Message, []message.Message) {
				m := w.plan(w.toFollowers(sent))
				w.scan(m, ben, func(s progress.Scan) progress.Scan {
					return s.Join("").Advance("ben", false, progress.Counts{Delivered: 2})
				})
				w.scan(m, ben, func(s progress.Scan) progress.Scan { s.Dead = true; return s })
				return m, append([]message.Message{m}, all...)
			},
			want: []finding{{
				kind: verdict.MissingEntry, repaired: true,
				detail: "the message, sent at 2026-01-02T02:54:05.000Z, is not in the inbox, although its fan-out in partition 1 has passed the user",
			}},
		},
		"extra, there is no such message": {
			damage: func(w *world, all []message.Message) (message.Message, []message.Message) {
				m := message.Message{ID: w.id(sent), From: "ann", Body: "x"}
				w.append(m)
				return m, all
			},
			want: []finding{{kind: verdict.ExtraEntry, detail: "there is no such message", repaired: true}},
		},
		"extra, for somebody else": {
			damage: func(w *world, all []message.Message) (message.Message, []message.Message) {
				m := w.named(sent, "dora")
				w.append(m)
				return m, all
			},
			want: []finding{{kind: verdict.ExtraEntry, detail: "ID is not for ben: it is to a list, which does not name them", repaired: true}},
		},
		"extra, void": {
			damage: func(w *world, all []message.Message) (message.Message, []message.Message) {
				m := w.store(message.Message{ID: w.id(sent), From: "ann", To: []message.UserID{"ben"}, Body: "x"}, sent.Add(slack+time.Second))
				w.append(m)
				return m, all
			},
			want: []finding{{
				kind: verdict.ExtraEntry, repaired: true,
				detail: "ID is void and has no recipients: it was stored at 2026-01-02T02:56:06.000Z, 2m1s after it was sent, which was more than publish_slack",
			}},
		},
		"extra, followed too late": {
			damage: func(w *world, all []message.Message) (message.Message, []message.Message) {
				m := w.toFollowers(epoch.Add(-time.Hour - slack - time.Millisecond))
				w.append(m)
				return m, all
			},
			want: []finding{{
				kind: verdict.ExtraEntry, repaired: true,
				detail: "ID is not for ben: it was sent at 2026-01-02T02:02:04.999Z, and they began to follow ann at 2026-01-02T02:04:05.000Z, 2m0.001s later",
			}},
		},
		"different": {
			damage: func(w *world, all []message.Message) (message.Message, []message.Message) {
				m := w.pass(w.toFollowers(sent))
				other := m
				other.Body, other.ContentType = "something else", "text/plain"
				w.append(other)
				return m, append([]message.Message{m}, all...)
			},
			want: []finding{{
				kind: verdict.DifferentEntry, detail: "the entry has another body, content_type than the message",
				note: "not repaired: an entry is never rewritten, and the message cannot be appended while its id is in the inbox",
			}},
		},
		"double": {
			damage: func(w *world, all []message.Message) (message.Message, []message.Message) {
				w.double(all[3].ID)
				return all[3], all
			},
			want: []finding{{kind: verdict.DoubleEntry, detail: "the message is in bucket 0, slot 3 as well", repaired: true}},
		},
		"double and deleted": {
			damage: func(w *world, all []message.Message) (message.Message, []message.Message) {
				w.double(all[3].ID)
				require.NoError(w.t, w.db.Inbox().Blank(w.t.Context(), "ben", 1, 2, all[3].ID)) // makes it right,
				w.double(all[3].ID)                                                             // and wrong again
				require.NoError(w.t, w.db.Inbox().Delete(w.t.Context(), "ben", 1, all[3].ID))
				return all[3], append(all[:3:3], all[4:]...)
			},
			want: []finding{{kind: verdict.DoubleEntry, detail: "the message is in bucket 1, slot 3 as well", repaired: true}},
		},
		"a slot that lost its record": {
			damage: func(w *world, all []message.Message) (message.Message, []message.Message) {
				w.remove(all[7].ID)
				return all[7], all
			},
			want: []finding{
				{kind: verdict.OutOfOrder, detail: outOfPlace, repaired: true},
				{
					kind: verdict.MissingEntry, repaired: true,
					detail: "the message, sent at 2026-01-02T03:04:04.955Z, is not in the inbox, although its fan-out in partition 1 has passed the user",
				},
			},
		},
		"a full bucket that lost its last record": {
			damage: func(w *world, all []message.Message) (message.Message, []message.Message) {
				w.remove(all[bucket.Capacity-1].ID)
				return all[bucket.Capacity-1], all
			},
			want: []finding{
				{kind: verdict.OutOfOrder, detail: outOfPlace, repaired: true},
				{
					kind: verdict.MissingEntry, repaired: true,
					detail: "the message, sent at 2026-01-02T03:04:04.997Z, is not in the inbox, although its fan-out in partition 1 has passed the user",
				},
				{kind: verdict.OutOfOrder, detail: "the floor of bucket 1 is ID, and the last of the bucket below it is BELOW", repaired: true},
			},
		},
		"a gap that counts wrong": {
			damage: func(w *world, all []message.Message) (message.Message, []message.Message) {
				m := w.pass(w.toFollowers(sent))
				w.change(func(s *userstate.State) {
					s.Gaps = []userstate.Gap{{After: sent.Add(-time.Second), Before: sent.Add(time.Second), Messages: 2}}
				})
				return m, append([]message.Message{m}, all...)
			},
			want: []finding{{
				kind: verdict.GapCount, repaired: true,
				detail: "the gap after 2026-01-02T02:54:04.000Z and before 2026-01-02T02:54:06.000Z counts 2 where there are 1",
			}},
		},
		"a read mark that counts wrong in its gap": {
			damage: func(w *world, all []message.Message) (message.Message, []message.Message) {
				m, later := w.pass(w.toFollowers(sent)), w.pass(w.toFollowers(sent.Add(time.Millisecond)))
				w.change(func(s *userstate.State) {
					s.Gaps = []userstate.Gap{{After: sent.Add(-time.Second), Before: sent.Add(time.Second), Messages: 2}}
					s.ReadMark = bucket.ReadMark{UpTo: m.ID, Gaps: 1, InGap: 2}
				})
				return m, append([]message.Message{m, later}, all...)
			},
			want: []finding{{
				kind: verdict.GapCount, repaired: true,
				detail: "the read mark counts 2 as read in the gap after 2026-01-02T02:54:04.000Z and before 2026-01-02T02:54:06.000Z where there are 1",
			}},
		},
		"an entry in a gap": {
			damage: func(w *world, all []message.Message) (message.Message, []message.Message) {
				m := w.toFollowers(sent)
				w.deliver(m)
				w.change(func(s *userstate.State) {
					s.Gaps = []userstate.Gap{{After: sent.Add(-time.Second), Before: sent.Add(time.Second), Messages: 1}}
				})
				return m, append([]message.Message{m}, all...)
			},
			want: []finding{{
				kind: verdict.GapOverlap, note: "not repaired: it may be a delivery, and a tombstone would delete the message; if its user deletes it, it counts no more",
				detail: "the entry lies in the gap after 2026-01-02T02:54:04.000Z and before 2026-01-02T02:54:06.000Z, and so is counted twice",
			}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			all := w.fill(bucket.Capacity + 2)
			about, after := test.damage(w, all)

			found, summary := run(t.Context(), t, w.Service, audit.Request{})
			want := func(repaired bool) (want []finding) {
				for _, f := range test.want {
					f.detail = replaceIDs(f.detail, about.ID, all)
					if !repaired {
						f.repaired, f.note = false, ""
					}
					want = append(want, f)
				}
				return want
			}
			require.Equal(t, want(false), brief(found))
			require.Equal(t, summary.Found, summary.Remaining)
			require.Empty(t, summary.Repaired)

			found, summary = run(t.Context(), t, w.Service, audit.Request{User: "ben", Repair: true})
			require.Equal(t, want(true), brief(found))
			var remaining []finding
			for _, f := range test.want {
				if !f.repaired {
					f.detail, f.note = replaceIDs(f.detail, about.ID, all), ""
					remaining = append(remaining, f)
				}
			}
			require.Equal(t, len(remaining), total(summary.Remaining))
			found, _ = run(t.Context(), t, w.Service, audit.Request{User: "ben"})
			require.Equal(t, remaining, brief(found), "what is left after the repair")
			if len(remaining) == 0 {
				w.requireInbox(after)
			}
		})
	}
}

// TestFindingsKeepTheVerdict audits with another publish slack than the messages were stored with. A message that was accepted stays, and
// one that was void stays void.
func TestFindingsKeepTheVerdict(t *testing.T) {
	t.Parallel()
	sent := epoch.Add(-10 * time.Minute)
	for _, now := range []time.Duration{slack / 2, 2 * slack} {
		w := newWorld(t)
		all := w.fill(3)
		accepted := w.store(message.Message{ID: w.id(sent), From: "ann", To: []message.UserID{"ben"}, Body: "x"}, sent.Add(slack))
		w.deliver(accepted)
		void := w.pass(w.store(message.Message{ID: w.id(sent), From: "ann", To: []message.UserID{"ben"}, Body: "x"}, sent.Add(slack+time.Millisecond)))
		later := w.auditBy(w.db.Inbox(), func() userstate.Rules {
			r := rules()
			r.PublishSlack = now
			return r
		})
		found, summary := run(t.Context(), t, later, audit.Request{User: "ben", Repair: true})
		require.Empty(t, found, "with a slack of %v", now)
		require.Empty(t, summary.Repaired)
		w.requireInbox(append([]message.Message{accepted}, all...))
		for m, want := range map[message.ID]verdict.Verdict{accepted.ID: verdict.Delivered, void.ID: verdict.Void} {
			e, err := later.Explain(t.Context(), "ben", m)
			require.NoError(t, err)
			require.Equal(t, want, e.Verdict, e.Sentence)
		}
	}
}

// requireInbox requires that ben reads these messages, which are in the order in which they were sent.
func (w *world) requireInbox(want []message.Message) {
	t := w.t
	t.Helper()
	ids, count := w.read()
	require.EqualValues(t, len(want), count, "the inbox counts what it holds")
	require.Len(t, ids, len(want))
	for i, id := range ids {
		require.Equal(t, want[len(want)-1-i].ID, id)
	}
}

func brief(findings []audit.Finding) (all []finding) {
	for _, f := range findings {
		all = append(all, finding{f.Kind, f.Detail, f.Repaired, f.Note})
	}
	return all
}

func total(counts map[verdict.Kind]int64) (sum int) {
	for _, n := range counts {
		sum += int(n)
	}
	return sum
}
