package fanout_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/fanout"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// resume resumes when nothing has moved for long enough, and returns how many messages were emitted.
func (w *world) resume(t *testing.T, resumer *fanout.Resumer) int {
	t.Helper()
	w.Clock.Advance(rig.ResumeAfter + time.Second)
	emitted, err := resumer.Resume(t.Context())
	require.NoError(t, err)
	return emitted
}

// A message whose event is on the bus is left alone, however long it waits. A message whose event was lost is not, although that one waits.
func TestResumerLeavesWhatIsOnTheBus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := usersOf(0, 2)
	w.see(t, users...)
	waits, lost := w.store(t, 1, "author", users...), w.store(t, 2, "author", users...)
	w.publish(t, waits)
	measured := w.measure()
	resumer := w.resumer()
	require.Equal(t, 1, w.resume(t, resumer))
	_, emitted := w.Bus.Emitted()
	require.Equal(t, lost.ID, emitted[len(emitted)-1].ID)
	require.Zero(t, w.resume(t, resumer), "both are on the bus now")
	received := w.fetch(t, 2)
	require.Zero(t, w.resume(t, resumer), "a router has them")
	require.InDelta(t, 3, counter(t, measured, "fanmail_resume_looks_total", "waiting"), 0)
	require.NoError(t, w.router().Route(t.Context(), received))
	require.Zero(t, w.resume(t, resumer))
	require.InDelta(t, 1, counter(t, measured, "fanmail_resume_looks_total", "done"), 0)
	w.requireDelivered(t, users, waits, lost)
}

// A message waits only for tasks of its own open scans.
func TestResumerLooksForTasksOfOpenScans(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, other := w.store(t, 1, "author", usersOf(0, 2)...), w.store(t, 2, "author", usersOf(0, 2)...)
	_, err := w.Progress.Plan(t.Context(), m.ID, "medium", []int{0, 1, rig.Partitions}, w.Clock.Now()) // no worker takes from the last
	require.NoError(t, err)
	w.put(t, m, 1, progress.Scan{Joined: true, Done: true})
	_, err = w.Progress.Plan(t.Context(), other.ID, "medium", []int{0}, w.Clock.Now())
	require.NoError(t, err)
	w.emit(t, event.Medium, 1, m)
	w.emit(t, event.Bulk, 0, other)
	require.Equal(t, 1, w.resume(t, w.resumer()))
	_, emitted := w.Bus.Emitted()
	require.Equal(t, m.ID, emitted[0].ID)
	w.emit(t, event.Bulk, 0, m)
	require.NoError(t, w.Bus.Lose(t.Context(), "FANMAIL_PUBLISHED", 0))
	require.Zero(t, w.resume(t, w.resumer()))
}

// queueOf is a bus that has published events of other messages, stored at one time, or more than a Resumer reads.
type queueOf struct {
	*rig.Bus
	events int
	stored time.Time
}

func (b queueOf) OldestPublished(_ context.Context, limit int) ([]event.Delivery, error) {
	oldest := make([]event.Delivery, min(b.events, limit))
	for i := range oldest {
		oldest[i].Stored = b.stored
	}
	return oldest, nil
}

// What may be further behind in a queue than a Resumer reads is left alone. What would be ahead of that was lost, and so was what a short queue lacks.
func TestResumerBehindOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.store(t, 1, "author", usersOf(0, 2)...)
	for _, test := range []struct {
		events int
		stored time.Time
		want   int
	}{{5000, m.Sent().Add(rig.Slack), 0}, {5000, m.Sent().Add(rig.Slack + time.Millisecond), 1}, {1, m.Sent().Add(-time.Hour), 1}} {
		require.Equal(t, test.want, w.resume(t, fanout.NewResumer(w.Stores(), queueOf{w.Bus, test.events, test.stored}, w.opts)))
	}
}

// A damaged plan is an error that names its message, and the other messages are resumed.
func TestResumerPastADamagedPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	damaged, planned, other := w.store(t, 1, "author", usersOf(0, 2)...), w.store(t, 2, "author", usersOf(0, 2)...), w.store(t, 3, "author", usersOf(0, 2)...)
	_, err := w.Progress.Plan(t.Context(), planned.ID, "medium", []int{0}, w.Clock.Now())
	require.NoError(t, err)
	stores := w.Stores()
	stores.Progress = damagedPlan{stores.Progress, damaged.ID}
	w.Clock.Advance(rig.ResumeAfter + time.Second)
	emitted, err := fanout.NewResumer(stores, w.Bus, w.opts).Resume(t.Context())
	require.ErrorIs(t, err, message.ErrCorrupt)
	require.ErrorContains(t, err, damaged.ID.String())
	require.Equal(t, 2, emitted)
	_, published := w.Bus.Emitted()
	require.Equal(t, []message.ID{planned.ID, other.ID}, []message.ID{published[0].ID, published[1].ID})
}

// damagedPlan is a progress.Store in which the plan of a message is damaged.
type damagedPlan struct {
	progress.Store
	id message.ID
}

func (s damagedPlan) GetMany(context.Context, []message.ID) ([]progress.Fanout, []bool, error) {
	return nil, nil, fmt.Errorf("plans: %w", message.ErrCorrupt)
}

func (s damagedPlan) Get(ctx context.Context, id message.ID) (progress.Fanout, error) {
	if id == s.id {
		return progress.Fanout{}, fmt.Errorf("plan: %w", message.ErrCorrupt)
	}
	return s.Store.Get(ctx, id)
}

// The elected process resumes, and so does every process while none can be elected.
func TestResumerIsElected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store(t, 1, "author", usersOf(0, 2)...)
	w.Clock.Advance(rig.ResumeAfter + time.Second)
	away := errors.New("the store is away")
	for _, test := range []struct {
		elected bool
		err     error
		want    int
	}{{false, nil, 0}, {false, away, 1}, {true, nil, 1}} {
		w.opts.Elected = func(context.Context) (bool, error) { return test.elected, test.err }
		emitted, err := w.resumer().Resume(t.Context())
		require.ErrorIs(t, err, test.err)
		require.Equal(t, test.want, emitted)
		if emitted > 0 {
			require.NoError(t, w.Bus.Lose(t.Context(), "FANMAIL_PUBLISHED", 0))
		}
	}
}
