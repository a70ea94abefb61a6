package publish_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/internal/telemetry/telemetrytest"
	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

func TestIDsAscendInABatch(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var requests []publish.Request
	for n := range 5000 { // more than there are ids in a millisecond
		requests = append(requests, request("", strconv.Itoa(n)))
	}
	results := d.Publish(t.Context(), requests)
	for i := 1; i < len(results); i++ {
		require.NoError(t, results[i].Err)
		require.True(t, results[i-1].Message.ID.Less(results[i].Message.ID))
	}
	require.Len(t, d.emitter.emitted, len(requests))
}

func TestEachRequestStandsAlone(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	results := d.Publish(t.Context(), []publish.Request{
		request("", "good"), request("", ""), request(strings.Repeat("k", 256), "body"), request("", "good too"),
	})
	require.NoError(t, results[0].Err)
	require.ErrorIs(t, results[1].Err, message.ErrInvalid)
	require.ErrorIs(t, results[2].Err, message.ErrInvalid)
	require.NoError(t, results[3].Err)
	require.Equal(t, []message.ID{results[0].Message.ID, results[3].Message.ID}, d.valid(t))
	require.Len(t, d.emitter.emitted, 2)
}

func TestKeyReturnsTheFirstMessage(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first := one(t, d.Publish(t.Context(), []publish.Request{request("key", "body")}))
	d.Clock.Advance(rig.KeyTTL - time.Second)
	require.Equal(t, first, one(t, d.colleague(0).Publish(t.Context(), []publish.Request{request("key", "body")})))
	results := d.Publish(t.Context(), []publish.Request{request("key", "another body")})
	require.ErrorIs(t, results[0].Err, message.ErrKeyReused)
	require.Equal(t, []message.ID{first.ID}, d.valid(t))

	d.Clock.Advance(2 * time.Second)
	require.NotEqual(t, first.ID, one(t, d.Publish(t.Context(), []publish.Request{request("key", "body")})).ID)
}

// One request in two spellings is one message, and two requests that look alike are not.
func TestARepeatInAnotherSpelling(t *testing.T) {
	t.Parallel()
	for _, spelled := range []struct {
		first, again string
		same         bool
	}{
		{`{"a":1,"b":{"c":"é","d":2}}`, `{ "b": {"d":2.0, "c":"\u00e9"}, "a":1e0 }`, true},
		{`{}`, ``, true},
		{`null`, `{ }`, true},
		{`{"a":9007199254740993}`, `{"a":9007199254740992}`, false},
		{`{"a":[1,2]}`, `{"a":[2,1]}`, false},
		{`{"a":1}`, `{"a":"1"}`, false},
		{`{"a":null}`, `{}`, false},
		{`{"a":1,"a":2}`, `{"a":1,"a":2}`, true},
		{`{"a":1,"a":2}`, `{"a":2,"a":1}`, false},
		{`{"a":"\ud800"}`, `{"a":"\ud801"}`, false},
	} {
		t.Run(spelled.first+" and "+spelled.again, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			asked := request("key", "body")
			asked.Draft.Attrs, asked.Draft.ContentType = json.RawMessage(spelled.first), "text/plain; charset=utf-8"
			first := one(t, d.Publish(t.Context(), []publish.Request{asked}))
			asked.Draft.Attrs, asked.Draft.ContentType = json.RawMessage(spelled.again), "Text/Plain;charset=\"utf-8\""
			again := d.Publish(t.Context(), []publish.Request{asked})[0]
			if spelled.same {
				require.NoError(t, again.Err)
				require.Equal(t, first.ID, again.Message.ID)
			} else {
				require.ErrorIs(t, again.Err, message.ErrKeyReused)
			}
		})
	}
}

// No text of a key is that of a line of a batch.
func TestKeysOfLines(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	seen := make(map[message.ID]bool)
	for _, key := range []string{"day", "day#1", "#day", "1#day", "1", "#1", "1#1"} {
		for line := range 12 {
			asked := request(key, "body")
			asked.Line = line
			id := one(t, d.Publish(t.Context(), []publish.Request{asked})).ID
			require.NotContains(t, seen, id, "%s, line %d", key, line)
			seen[id] = true
			require.Equal(t, id, one(t, d.colleague(0).Publish(t.Context(), []publish.Request{asked})).ID)
		}
	}
}

func TestOneKeyTwiceInABatch(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	results := d.Publish(t.Context(), []publish.Request{request("key", "body"), request("key", "body"), request("key", "other")})
	ids := make(map[message.ID]bool)
	reused := 0
	for _, r := range results {
		if r.Err == nil {
			ids[r.Message.ID] = true
			continue
		}
		require.ErrorIs(t, r.Err, message.ErrKeyReused)
		reused++
	}
	require.Len(t, ids, 1)
	require.Positive(t, reused)
	require.Len(t, d.valid(t), 1)
}

// A publisher fails at any operation. Its client tries again, at once or when the reserved id is too old. Exactly one message is
// published.
func TestRetryAfterADeath(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{0, rig.Slack - time.Millisecond, rig.Slack, rig.Slack + time.Millisecond, rig.KeyTTL / 2} {
		for _, fault := range []rig.Fault{rig.DieBefore, rig.DieAfter, rig.FailBefore, rig.FailAfter} {
			for after := range 3 {
				t.Run(fmt.Sprintf("fault %d after %d operations, again after %v", fault, after, wait), func(t *testing.T) {
					t.Parallel()
					d := newDesk(t)
					rig.Start(t.Context(), fault, after, func(ctx context.Context) error {
						d.Publish(ctx, []publish.Request{request("key", "body")})
						return nil
					})
					d.Clock.Advance(wait)
					again := one(t, d.colleague(0).Publish(t.Context(), []publish.Request{request("key", "body")}))
					require.Equal(t, []message.ID{again.ID}, d.valid(t))
				})
			}
		}
	}
}

// Two publishers use the same key. The first stalls at any operation, and both clocks may be wrong. Exactly one message is published,
// and both publishers return it.
func TestTwoPublishersWithOneKey(t *testing.T) {
	t.Parallel()
	for _, fault := range []rig.Fault{rig.StallBefore, rig.StallAfter} {
		for after := range 3 {
			for _, wait := range []time.Duration{0, rig.Slack - time.Second, rig.Slack, rig.Slack + time.Millisecond, 2 * rig.Slack} {
				for _, skew := range []time.Duration{-time.Second, 0, time.Second} {
					t.Run(fmt.Sprintf("fault %d after %d operations, %v later by a clock ahead by %v", fault, after, wait, skew), func(t *testing.T) {
						t.Parallel()
						d := newDesk(t)
						var slow []publish.Result
						actor := rig.Start(t.Context(), fault, after, func(ctx context.Context) error {
							slow = d.Publish(ctx, []publish.Request{request("key", "body")})
							return nil
						})
						d.Clock.Advance(wait)
						quick := one(t, d.colleague(skew).Publish(t.Context(), []publish.Request{request("key", "body")}))
						actor.Resume(rig.None, 0)
						require.Equal(t, quick.ID, one(t, slow).ID)
						require.Equal(t, []message.ID{quick.ID}, d.valid(t))
					})
				}
			}
		}
	}
}

// A void message waits for a new id for so long that its key expires, and another client reserves the key for another message. The first
// client is told so, and does not get the id of that message.
func TestExpiredKeyOfAnotherMessage(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.store.delays = []time.Duration{rig.Slack + time.Millisecond}
	var slow []publish.Result
	actor := rig.StartAt(t.Context(), rig.StallBefore, "Replace", 0, func(ctx context.Context) error {
		slow = d.Publish(ctx, []publish.Request{request("key", "body")})
		return nil
	})
	d.Clock.Advance(rig.KeyTTL)
	other := one(t, d.colleague(0).Publish(t.Context(), []publish.Request{request("key", "another body")}))
	actor.Resume(rig.None, 0)
	require.Len(t, slow, 1)
	require.ErrorIs(t, slow[0].Err, message.ErrKeyReused)
	require.Equal(t, []message.ID{other.ID}, d.valid(t))
}

// A message that was stored too late is void. Publish stores it again under a new id.
func TestVoidIsPublishedAgain(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "key"} {
		t.Run("key "+key, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.store.delays = []time.Duration{rig.Slack + time.Millisecond}
			published := one(t, d.Publish(t.Context(), []publish.Request{request(key, "body")}))
			require.Equal(t, []message.ID{published.ID}, d.valid(t))
			require.Len(t, d.emitter.emitted, 1)
			require.Equal(t, published.ID, d.emitter.emitted[0].ID)
			if key != "" {
				require.Equal(t, published.ID, one(t, d.Publish(t.Context(), []publish.Request{request(key, "body")})).ID)
			}
		})
	}
}

// A publisher whose clock is ahead by more than the tolerance publishes nothing. It stores one void message for each request, and leaves no
// unfinished work.
func TestClockAhead(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{rig.ClockTolerance + time.Millisecond, 365 * 24 * time.Hour} {
		for _, key := range []string{"", "key"} {
			t.Run(fmt.Sprintf("by %v, key %q", skew, key), func(t *testing.T) {
				t.Parallel()
				d := newDesk(t)
				log := &telemetrytest.Buffer{}
				ahead := d.logged(skew, log)
				results := ahead.Publish(t.Context(), []publish.Request{request(key, "body"), request("", "another")})
				everything := []message.Range{{From: "author", Before: message.MaxID}}
				stored, err := d.Messages.ToFollowers(t.Context(), everything, message.OldestFirst, 1000)
				require.NoError(t, err)
				require.Len(t, stored, 2, "no message is stored again under another id of the same clock")
				for _, r := range results {
					require.ErrorIs(t, r.Err, publish.ErrAhead)
				}
				require.Empty(t, d.valid(t))
				require.Empty(t, d.emitter.emitted)
				unfinished, err := d.Messages.Unfinished(t.Context(), message.ID{}, message.MaxID, 10)
				require.NoError(t, err)
				require.Empty(t, unfinished)
				reporter := publish.NewReporter(d.Messages, d.Progress, d.Edges, d.Users, publish.ReporterOptions{Partitions: rig.Partitions, Waits: progress.Waits{ResumeAfter: rig.ResumeAfter}, Now: d.Clock.Now})
				_, err = reporter.Status(t.Context(), stored[0].ID)
				require.ErrorIs(t, err, message.ErrNotFound)
				require.Equal(t, 1, strings.Count(log.String(), "\n"), "one line for the call: %s", log)
				for _, m := range stored {
					require.Contains(t, log.String(), m.ID.String())
				}
				require.Contains(t, log.String(), fmt.Sprintf(`"ahead":%q`, skew))

				// The clock is correct now.
				m := one(t, d.Publish(t.Context(), []publish.Request{request(key, "body")}))
				require.Equal(t, []message.ID{m.ID}, d.valid(t))
				require.Len(t, d.emitter.emitted, 1)
				if key != "" && skew < rig.KeyTTL { // otherwise that clock finds the key expired
					require.Equal(t, m.ID, one(t, d.Publish(t.Context(), []publish.Request{request(key, "body")})).ID)
					require.Equal(t, m.ID, one(t, ahead.Publish(t.Context(), []publish.Request{request(key, "body")})).ID, "every publisher returns the first result")
				}
			})
		}
	}
}

// The answer of a publisher whose clock is far behind names the clock. That of a slow store does not: see TestAlwaysTooLate.
func TestClockBehind(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	log := &telemetrytest.Buffer{}
	for _, r := range d.logged(-10*time.Minute, log).Publish(t.Context(), []publish.Request{request("", "body"), request("key", "body")}) {
		require.ErrorIs(t, r.Err, publish.ErrBehind)
		require.ErrorIs(t, r.Err, publish.ErrLate)
	}
	require.Contains(t, log.String(), `"behind_seconds":600`)
	require.Empty(t, d.valid(t))
}

func TestClockAheadByTheTolerance(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	m := one(t, d.colleague(rig.ClockTolerance).Publish(t.Context(), []publish.Request{request("key", "body")}))
	require.Equal(t, []message.ID{m.ID}, d.valid(t))
	require.Len(t, d.emitter.emitted, 1)
}

// A client repeats a key while the clock is ahead, twice in each request. Each request tries the reserved message, and stores at most one
// new message.
func TestClockStaysAhead(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ahead := d.colleague(rig.KeyTTL / 2)
	const repeats = 5
	for range repeats {
		for _, r := range ahead.Publish(t.Context(), []publish.Request{request("key", "body"), request("key", "body")}) {
			require.ErrorIs(t, r.Err, publish.ErrAhead)
		}
		d.Clock.Advance(time.Second)
	}
	stored, err := d.Messages.ToFollowers(t.Context(), []message.Range{{From: "author", Before: message.MaxID}}, message.OldestFirst, 1000)
	require.NoError(t, err)
	require.LessOrEqual(t, len(stored), repeats)
	d.Clock.Advance(2 * time.Hour) // past the ids of that clock
	m := one(t, d.Publish(t.Context(), []publish.Request{request("key", "body")}))
	require.Equal(t, []message.ID{m.ID}, d.valid(t))
}

// A publisher whose clock is ahead reserves a key and stalls. Another publisher finds the reserved id, replaces it, and publishes.
func TestKeyReservedByAClockAhead(t *testing.T) {
	t.Parallel()
	for after := range 3 {
		t.Run(fmt.Sprintf("after %d operations", after), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			var slow []publish.Result
			actor := rig.Start(t.Context(), rig.StallBefore, after, func(ctx context.Context) error {
				slow = d.colleague(rig.KeyTTL/2).Publish(ctx, []publish.Request{request("key", "body")})
				return nil
			})
			quick := one(t, d.Publish(t.Context(), []publish.Request{request("key", "body")}))
			actor.Resume(rig.None, 0)
			if err := slow[0].Err; err != nil {
				require.ErrorIs(t, err, publish.ErrAhead)
			} else {
				require.Equal(t, quick.ID, slow[0].Message.ID)
			}
			require.Equal(t, []message.ID{quick.ID}, d.valid(t))
			require.Equal(t, quick.ID, one(t, d.colleague(rig.KeyTTL/2).Publish(t.Context(), []publish.Request{request("key", "body")})).ID)
		})
	}
}

func TestStoredJustInTime(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.store.delays = []time.Duration{rig.Slack}
	one(t, d.Publish(t.Context(), []publish.Request{request("", "body")}))
	require.Len(t, d.valid(t), 1)
}

// If the store is always too slow, no message is published.
func TestAlwaysTooLate(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for range 10 {
		d.store.delays = append(d.store.delays, 2*rig.Slack)
	}
	results := d.Publish(t.Context(), []publish.Request{request("", "body"), request("key", "body")})
	require.ErrorIs(t, results[0].Err, publish.ErrLate)
	require.ErrorIs(t, results[1].Err, publish.ErrLate)
	require.NotErrorIs(t, results[0].Err, publish.ErrBehind)
	require.NotErrorIs(t, results[1].Err, publish.ErrBehind)
	require.Empty(t, d.valid(t))
	require.Empty(t, d.emitter.emitted)
}

// If the bus refuses events, the publisher accepts the messages that it has stored. Then it refuses messages for a while.
func TestBusyGate(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.emitter.err = errors.New("full")
	first := one(t, d.Publish(t.Context(), []publish.Request{request("", "stored")}))
	results := d.Publish(t.Context(), []publish.Request{request("", "refused"), request("key", "refused")})
	require.ErrorIs(t, results[0].Err, publish.ErrBusy)
	require.ErrorIs(t, results[1].Err, publish.ErrBusy)
	require.Equal(t, []message.ID{first.ID}, d.valid(t))

	d.emitter.err = nil
	d.Clock.Advance(publish.RetryAfter)
	second := one(t, d.Publish(t.Context(), []publish.Request{request("", "accepted")}))
	require.Equal(t, []message.ID{first.ID, second.ID}, d.valid(t))
	require.Len(t, d.emitter.emitted, 1)
}

// The bus refuses events, and then the clock is set back by an hour. The publisher does not wait for that hour.
func TestBusyGateOfAClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.Clock.Advance(time.Hour)
	d.emitter.err = errors.New("full")
	one(t, d.Publish(t.Context(), []publish.Request{request("", "stored")}))
	require.ErrorIs(t, d.Publish(t.Context(), []publish.Request{request("", "refused")})[0].Err, publish.ErrBusy)
	d.emitter.err = nil
	d.Clock.Advance(-time.Hour)
	one(t, d.Publish(t.Context(), []publish.Request{request("", "accepted")}))
}

// The event of a stored message is emitted even if the client disconnects.
func TestHangingUp(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ctx, hangUp := context.WithCancel(t.Context())
	actor := rig.Start(ctx, rig.StallAfter, 0, func(ctx context.Context) error {
		d.Publish(ctx, []publish.Request{request("", "body")})
		return nil
	})
	hangUp()
	actor.Resume(rig.None, 0)
	require.Len(t, d.emitter.emitted, 1)
}

func TestStatus(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	reporter := publish.NewReporter(d.Messages, d.Progress, d.Edges, d.Users, publish.ReporterOptions{Partitions: rig.Partitions, Waits: progress.Waits{ResumeAfter: rig.ResumeAfter}, Now: d.Clock.Now})
	m := one(t, d.Publish(t.Context(), []publish.Request{request("", "body")}))
	status, err := reporter.Status(t.Context(), m.ID)
	require.NoError(t, err)
	require.Equal(t, publish.Status{Message: m, State: message.StatePending, WaitingFor: "router"}, status)
	_, err = d.Progress.Plan(t.Context(), m.ID, "medium", []int{0, 1}, d.Clock.Now())
	require.NoError(t, err)
	status, err = reporter.Status(t.Context(), m.ID)
	require.NoError(t, err)
	require.Equal(t, publish.Status{
		Message: m, State: message.StateRunning, Lane: "medium", Scans: map[int]progress.Scan{0: {}, 1: {}}, Moved: d.Clock.Now().UTC(),
	}, status)

	for _, test := range []struct {
		scan  progress.Scan
		waits message.WaitingFor
		until time.Duration
	}{
		{progress.Scan{}, "worker", 0},
		{progress.Scan{}.Join("m"), "lost-worker", rig.ResumeAfter},
		{progress.Scan{}.Join("m").Miss("p", false), "store", 0},
		{progress.Scan{Dead: true}, "dead-letter", 0},
	} {
		m := one(t, d.Publish(t.Context(), []publish.Request{request("", "body")}))
		d.record(t, m.ID, test.scan, progress.Scan{Done: true})
		moved := d.Clock.Now()
		d.Clock.Advance(10 * time.Second)
		status, err := reporter.Status(t.Context(), m.ID)
		require.NoError(t, err)
		require.Equal(t, test.waits, status.WaitingFor)
		if test.until > 0 {
			require.Equal(t, moved.Add(test.until).UnixMilli(), status.Until.UnixMilli())
		}
	}

	room := false
	reporter = publish.NewReporter(d.Messages, d.Progress, d.Edges, d.Users, publish.ReporterOptions{Partitions: rig.Partitions, Waits: progress.Waits{Room: func() bool { return room }}, Now: d.Clock.Now})
	for lane, waits := range map[string]message.WaitingFor{"medium": "worker", "bulk": "room"} {
		m := one(t, d.Publish(t.Context(), []publish.Request{request("", "body")}))
		_, err = d.Progress.Plan(t.Context(), m.ID, lane, []int{0, 1}, d.Clock.Now())
		require.NoError(t, err)
		d.Clock.Advance(10 * time.Second)
		room = false
		status, err = reporter.Status(t.Context(), m.ID)
		require.NoError(t, err)
		require.Equal(t, waits, status.WaitingFor)
		room = true
		status, err = reporter.Status(t.Context(), m.ID)
		require.NoError(t, err)
		require.EqualValues(t, "worker", status.WaitingFor)
	}

	estimate, err := reporter.Estimate(t.Context(), message.Message{From: "author", To: []message.UserID{"a", "b"}})
	require.NoError(t, err)
	require.EqualValues(t, 2, estimate)
	for _, followers := range []int{3, 2600} { // few followers are counted in all partitions, many in one
		author := message.UserID(fmt.Sprintf("author-%d", followers))
		pairs := make([]follow.Pair, followers)
		for i := range pairs {
			pairs[i] = follow.Pair{Follower: message.UserID(fmt.Sprintf("follower-%d", i)), Followee: author.Source()}
		}
		_, err := d.Edges.Follow(t.Context(), pairs, rig.Epoch)
		require.NoError(t, err)
		require.NoError(t, d.Edges.Unfollow(t.Context(), pairs[0], rig.Epoch.Add(time.Second)))
		estimate, err := reporter.Estimate(t.Context(), message.Message{From: author, Audience: message.AudienceFollowers})
		require.NoError(t, err)
		require.InDelta(t, followers-1, estimate, float64(followers)/10)
	}

	void := message.Message{ID: message.MinID(d.Clock.Now().Add(-2 * rig.Slack)), From: "author", Audience: message.AudienceFollowers, Body: "x"}
	_, err = d.Messages.Insert(t.Context(), []message.Message{void}, rig.Rules().Timing())
	require.NoError(t, err)
	for _, id := range []message.ID{void.ID, message.MinID(d.Clock.Now())} {
		_, err = reporter.Status(t.Context(), id)
		require.ErrorIs(t, err, message.ErrNotFound)
	}
}

// Of the users that a message names, those count who have no record, or one without a view. A message may name many.
func TestNeverSeen(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	reporter := publish.NewReporter(d.Messages, d.Progress, d.Edges, d.Users, publish.ReporterOptions{Partitions: rig.Partitions, Waits: progress.Waits{ResumeAfter: rig.ResumeAfter}, Now: d.Clock.Now})
	_, err := d.Users.View(t.Context(), []userstate.View{rig.Rules().View("seen", d.Clock.Now(), d.Clock.Now())})
	require.NoError(t, err)
	states, err := d.Users.Lookup(t.Context(), []message.UserID{"seen"})
	require.NoError(t, err)
	if !states[0].State.Known() { // a view of a user without a record is a step
		_, err = d.Users.Step(t.Context(), []userstate.Step{{
			From: states[0].State, To: rig.Rules().Arrive(states[0].State, d.Clock.Now(), d.Clock.Now(), userstate.Lease{}),
		}})
		require.NoError(t, err)
	}
	for to, want := range map[string]int64{"": 0, "seen": 0, "new": 1, "new seen newer": 2, "new new": 1} {
		var m message.Message
		for user := range strings.FieldsSeq(to) {
			m.To = append(m.To, message.UserID(user))
		}
		got, err := reporter.NeverSeen(t.Context(), m)
		require.NoError(t, err)
		require.Equal(t, want, got, to)
	}
	var many message.Message
	for i := range 150 {
		many.To = append(many.To, message.UserID(fmt.Sprintf("user-%d", i)))
	}
	got, err := reporter.NeverSeen(t.Context(), many)
	require.NoError(t, err)
	require.EqualValues(t, 100, got)
}

// A subscriber may see a message to the topic, or to a topic below it, if the subscription held when it was sent. It is estimated with its
// author's followers.
func TestForSubscribers(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	reporter := publish.NewReporter(d.Messages, d.Progress, d.Edges, d.Users, publish.ReporterOptions{Partitions: rig.Partitions, Waits: progress.Waits{ResumeAfter: rig.ResumeAfter}, Now: d.Clock.Now})
	edges := []follow.Pair{
		{Follower: "ann", Followee: message.Topic("go").Source()},
		{Follower: "ben", Followee: message.Topic("go/fmt").Source()},
		{Follower: "cid", Followee: message.Topic("go/errors").Source()},
		{Follower: "dan", Followee: "author"},
	}
	_, err := d.Edges.Follow(t.Context(), edges, rig.Epoch)
	require.NoError(t, err)
	m := message.Message{ID: message.MinID(rig.Epoch), From: "author", To: []message.UserID{"eve"}, Topics: []message.Topic{message.Topic("go/fmt")}}
	for user, want := range map[message.UserID]bool{"ann": true, "ben": true, "cid": false, "dan": false, "eve": true, "author": false} {
		got, err := reporter.For(t.Context(), m, user)
		require.NoError(t, err)
		require.Equal(t, want, got, user)
	}
	estimate, err := reporter.Estimate(t.Context(), m)
	require.NoError(t, err)
	require.EqualValues(t, 3, estimate)
	m.Audience = message.AudienceFollowers
	estimate, err = reporter.Estimate(t.Context(), m)
	require.NoError(t, err)
	require.EqualValues(t, 4, estimate)
	m.ID = message.MinID(rig.Epoch.Add(-time.Millisecond))
	got, err := reporter.For(t.Context(), m, "ann")
	require.NoError(t, err)
	require.False(t, got, "subscribed later")
}

// A message to a topic that does not exist is refused, and the others of the request are stored.
func TestUnknownTopics(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	options := d.options(0, nil, zerolog.Nop())
	asked := 0
	options.Unknown = func(_ context.Context, topics []message.Topic) (unknown []message.Topic, _ error) {
		asked++
		return slices.DeleteFunc(topics, func(t message.Topic) bool { return t == "go" }), nil
	}
	service := publish.New(d.store, d.Keys, d.emitter, options)
	draft := func(topics ...message.Topic) publish.Request {
		return publish.Request{Draft: message.Draft{From: "author", Body: "x", Topics: topics}}
	}
	results := service.Publish(t.Context(), []publish.Request{draft("go"), draft("go", "maps"), draft("go"), request("", "y")})
	require.Equal(t, 1, asked)
	require.NoError(t, results[0].Err)
	require.EqualError(t, results[1].Err, `topics[1] is "maps", and there is no such topic: create it first`)
	require.NoError(t, results[2].Err)
	require.NoError(t, results[3].Err)
	require.Len(t, d.emitter.emitted, 3)
	for i, e := range d.emitter.emitted {
		require.Equal(t, results[[]int{0, 2, 3}[i]].Message.ID, e.ID)
	}
}

// A repeat returns the receipt of the first request, although the topic is gone.
func TestARepeatIgnoresWhatBecameOfATopic(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	options := d.options(0, nil, zerolog.Nop())
	gone := false
	options.Unknown = func(_ context.Context, topics []message.Topic) ([]message.Topic, error) {
		return slices.DeleteFunc(topics, func(message.Topic) bool { return !gone }), nil
	}
	service := publish.New(d.store, d.Keys, d.emitter, options)
	draft := func(key string) publish.Request {
		return publish.Request{Key: key, Draft: message.Draft{From: "author", Body: "x", Topics: []message.Topic{"go"}}}
	}
	first := one(t, service.Publish(t.Context(), []publish.Request{draft("key")}))
	gone = true
	results := service.Publish(t.Context(), []publish.Request{draft("key"), draft("another"), draft("")})
	require.Equal(t, first, one(t, results[:1]))
	require.ErrorIs(t, results[1].Err, message.ErrInvalid)
	require.ErrorIs(t, results[2].Err, message.ErrInvalid)
	other := draft("another")
	other.Draft.Topics, gone = []message.Topic{"news"}, false
	one(t, service.Publish(t.Context(), []publish.Request{other})) // the refused request has reserved no key
}

// A message whose value of a declared attribute has another type is refused, and reserves no key. A repeat returns the receipt of a message from
// before the declaration.
func TestDeclaredAttributes(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	options := d.options(0, nil, zerolog.Nop())
	var declared attribute.Set
	options.Attributes = func() attribute.Set { return declared }
	service := publish.New(d.store, d.Keys, d.emitter, options)
	draft := func(key, attrs string) publish.Request {
		return publish.Request{Key: key, Draft: message.Draft{From: "author", To: []message.UserID{"ben"}, Attrs: json.RawMessage(attrs)}}
	}
	first := one(t, service.Publish(t.Context(), []publish.Request{draft("key", `{"total":"many"}`)}))
	declared = attribute.NewSet(1, []attribute.Declaration{{Name: "total", Type: attribute.Number, Number: 1}})
	results := service.Publish(t.Context(), []publish.Request{
		draft("key", `{"total":"many"}`), draft("another", `{"total":"many"}`), draft("", `{"total":1,"total":1}`), draft("", `{"total":1}`), draft("", `{"other":"many"}`),
	})
	require.Equal(t, first, one(t, results[:1]))
	require.EqualError(t, results[1].Err, "attrs.total is declared as number, and is not a number")
	require.EqualError(t, results[2].Err, "attrs.total is there twice, and is declared to be filtered by: leave one out")
	require.NoError(t, results[3].Err)
	require.NoError(t, results[4].Err)
	require.Len(t, d.emitter.emitted, 4, "the repeat among them")
	one(t, service.Publish(t.Context(), []publish.Request{draft("another", `{"total":2}`)})) // the refused request has reserved no key
}
