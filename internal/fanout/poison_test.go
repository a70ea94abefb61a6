package fanout_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/fanout"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err    error
		action fanout.Action
	}{
		"nothing":              {nil, fanout.Acknowledge},
		"malformed event":      {event.ErrMalformed, fanout.DeadLetter},
		"unknown message":      {message.ErrNotFound, fanout.DeadLetter},
		"corrupt record":       {message.ErrCorrupt, fanout.DeadLetter},
		"entry too large":      {bucket.ErrTooLarge, fanout.DeadLetter},
		"contended inbox":      {bucket.ErrContended, fanout.Retry},
		"no entry":             {bucket.ErrNotFound, fanout.Retry},
		"foreign cursor":       {bucket.ErrCursor, fanout.Retry},
		"no plan":              {progress.ErrNotFound, fanout.Retry},
		"unknown user":         {userstate.ErrNotFound, fanout.Retry},
		"seen later":           {userstate.ErrBackwards, fanout.Retry},
		"following oneself":    {follow.ErrSelf, fanout.Retry},
		"invalid input":        {message.ErrInvalid, fanout.Retry},
		"key used again":       {message.ErrKeyReused, fanout.Retry},
		"key changed":          {message.ErrKeyChanged, fanout.Retry},
		"a full bus":           {event.ErrFull, fanout.Retry},
		"an outage":            {errors.New("no space left on device"), fanout.Retry},
		"what is not known of": {fmt.Errorf("x: %w", errors.New("y")), fanout.Retry},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.action, fanout.Classify(test.err))
			if test.err != nil {
				require.Equal(t, test.action, fanout.Classify(fmt.Errorf("wrapped: %w", test.err)))
				require.Equal(t, test.action, fanout.Classify(errors.Join(errors.New("joined"), test.err)))
			}
		})
	}
}

func encoded(t *testing.T, task event.Task) []byte {
	t.Helper()
	data, err := task.Encode()
	require.NoError(t, err)
	return data
}

// What cannot succeed is put among the dead letters with its reason, whatever stands around it, and the rest goes on.
func TestPoisonousTasks(t *testing.T) {
	t.Parallel()
	users := usersOf(0, 4)
	for name, test := range map[string]struct {
		reason string
		put    func(t *testing.T, w *world) []byte
	}{
		"not JSON": {"malformed", func(*testing.T, *world) []byte { return []byte("{") }},
		"another format": {"newer_version", func(*testing.T, *world) []byte {
			return []byte(`{"v":2}`)
		}},
		"a lane that does not exist": {"malformed", func(t *testing.T, w *world) []byte {
			t.Helper()
			return encoded(t, task("slow", 0, message.Message{ID: id(1), From: "author"}))
		}},
		"a partition that does not exist": {"malformed", func(t *testing.T, w *world) []byte {
			t.Helper()
			return encoded(t, task(event.Bulk, rig.Partitions, message.Message{ID: id(1), From: "author"}))
		}},
		"a message that does not exist": {"message_not_found", func(t *testing.T, w *world) []byte {
			t.Helper()
			m := message.Message{ID: id(1), From: "author"}
			_, err := w.Progress.Plan(t.Context(), m.ID, "medium", []int{0, 1}, w.Clock.Now())
			require.NoError(t, err)
			return encoded(t, task(event.Bulk, 0, m))
		}},
		"a message by somebody else": {"message_not_found", func(t *testing.T, w *world) []byte {
			t.Helper()
			m := w.store(t, 1, "author", users...)
			_, err := w.Progress.Plan(t.Context(), m.ID, "medium", []int{0}, w.Clock.Now())
			require.NoError(t, err)
			m.From = "somebody-else"
			return encoded(t, task(event.Bulk, 0, m))
		}},
		"an entry that is too large": {"too_large", func(t *testing.T, w *world) []byte {
			t.Helper()
			m := w.insert(t, message.Message{ID: id(1), From: "author", To: users, Body: strings.Repeat("x", bucket.MaxEntryBytes)})
			_, err := w.Progress.Plan(t.Context(), m.ID, "medium", []int{0}, w.Clock.Now())
			require.NoError(t, err)
			return encoded(t, task(event.Bulk, 0, m))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.see(t, users...)
			before, after := w.store(t, 0, "author", users...), w.store(t, 2, "author", users...)
			w.plan(t, event.Bulk, []int{0}, before)
			payload := test.put(t, w)
			require.NoError(t, w.Bus.Put(t.Context(), event.Bulk, 0, payload))
			w.plan(t, event.Bulk, []int{0}, after)
			w.drain(t)
			w.requireDelivered(t, users, before, after)
			w.requireDone(t, before, 4, 0)
			w.requireDone(t, after, 4, 0)
			letters := w.letters(t)
			require.Len(t, letters, 1)
			require.Equal(t, test.reason, letters[0].Reason)
			require.NotEmpty(t, letters[0].Error)
			require.Equal(t, payload, letters[0].Payload)
			require.Equal(t, "fanmail.v1.fanout.bulk.0", letters[0].Subject)
		})
	}
}

// A scan that was given up stays so: neither a repeated task nor the sweep brings it back, and it is not done.
func TestDeadScanStaysDead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := usersOf(0, 2)
	w.see(t, users...)
	m := w.insert(t, message.Message{ID: id(1), From: "author", To: users, Body: strings.Repeat("x", bucket.MaxEntryBytes)})
	w.publish(t, m)
	w.drain(t)
	require.True(t, w.scan(t, m, 0).Dead)
	w.emit(t, event.Medium, 0, m)
	w.publish(t, m)
	w.drain(t)
	w.Clock.Advance(2 * rig.ResumeAfter)
	swept, err := w.resumer().Resume(t.Context())
	require.NoError(t, err)
	require.Zero(t, swept)
	require.Len(t, w.letters(t), 1)
	require.False(t, w.scan(t, m, 0).Done)
	require.Equal(t, []message.Ref{m.Ref()}, w.unfinished(t))
	w.requireDelivered(t, users)
}

// If every worker that takes a task crashes, a worker at last works on it alone and then gives it up. Other tasks continue.
func TestTaskThatIsHandedOutTooOften(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opts.MaxAttempts = 3
	users := usersOf(0, 2)
	w.see(t, users...)
	culprit, other := w.store(t, 1, "author", users...), w.store(t, 2, "author", users...)
	w.plan(t, event.Bulk, []int{0}, culprit, other)
	for attempt := 1; attempt <= w.opts.MaxAttempts; attempt++ {
		held := w.take(t, event.Bulk, 0)
		require.Equal(t, attempt, held.First().Attempts)
		actor := w.start(t, held, rig.DieBefore, 1)
		require.True(t, actor.Died())
		alone := attempt > 2
		require.Equal(t, !alone, len(actor.Trace()) == 1 && actor.Trace()[0] == "Waiting", "%v", actor.Trace())
		require.NoError(t, held.Expire(t.Context()))
	}
	w.drain(t)
	w.requireDelivered(t, users, other)
	w.requireDone(t, other, 2, 0)
	letters := w.letters(t)
	require.Len(t, letters, 1)
	require.Equal(t, "attempts", letters[0].Reason)
	require.Equal(t, 4, letters[0].Attempts)
	require.True(t, w.scan(t, culprit, 0).Dead)
}

// What is a dead letter already when its batch fails does not become one again when that is repeated.
func TestDeadLetterIsFiledOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := usersOf(0, rig.BatchOwners+2)
	w.see(t, users...)
	w.follow(t, "author", users...)
	m := w.store(t, 1, "author")
	w.plan(t, event.Medium, []int{0}, m)
	require.NoError(t, w.Bus.Put(t.Context(), event.Medium, 0, []byte("nonsense")))
	d, held := w.deliverer(), w.take(t, event.Medium, 0)
	actor := rig.StartAt(t.Context(), rig.FailBefore, "EmitTasks", 0, func(ctx context.Context) error { return d.Deliver(ctx, held) })
	require.NoError(t, actor.Err())
	w.drain(t)
	w.requireDone(t, m, len(users), 0)
	require.Len(t, w.letters(t), 1)
	// The same once more is something else.
	require.NoError(t, w.Bus.Put(t.Context(), event.Medium, 0, []byte("nonsense")))
	w.drain(t)
	require.Len(t, w.letters(t), 2)
}

func TestPoisonousPublishedEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := usersOf(0, 2)
	w.see(t, users...)
	m := w.store(t, 2, "author", users...)
	unknown, err := json.Marshal(event.NewPublished(message.Ref{From: "author", ID: id(1)}))
	require.NoError(t, err)
	require.NoError(t, w.Bus.PutPublished(t.Context(), []byte("nonsense")))
	require.NoError(t, w.Bus.PutPublished(t.Context(), unknown))
	w.publish(t, m)
	w.drain(t)
	w.requireDelivered(t, users, m)
	letters := w.letters(t)
	require.Len(t, letters, 2)
	require.ElementsMatch(t, []string{"malformed", "message_not_found"}, []string{letters[0].Reason, letters[1].Reason})
	require.Equal(t, "fanmail.v1.published", letters[0].Subject)
}

// An operation that fails is tried again, whatever it had come to, and makes no dead letter.
func TestFailuresAreTriedAgain(t *testing.T) {
	t.Parallel()
	for _, fault := range []rig.Fault{rig.FailBefore, rig.FailAfter} {
		for after := 1; after < 12; after++ { // from the first operation behind Waiting to the last before Remove
			t.Run(fmt.Sprintf("fault %d after %d operations", fault, after), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				users := usersOf(0, rig.BatchOwners+2)
				w.see(t, users...)
				w.follow(t, "author", users...)
				m := w.store(t, 1, "author")
				w.plan(t, event.Medium, []int{0}, m)
				require.NoError(t, w.start(t, w.take(t, event.Medium, 0), fault, after).Err())
				w.drain(t)
				w.requireDelivered(t, users, m)
				w.requireDone(t, m, len(users), 0)
				require.Empty(t, w.letters(t))
			})
		}
	}
}
