package fanout_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/event"
)

// A task and an event of a later version become dead letters, whole, that say so; they stand in nobody's way. The messages are not
// forgotten: the sweep sends them out again, in the words of this version. Redriving the letters after the upgrade is harmless.
func TestNewerVersionsAreLeftToNewerWorkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := usersOf(0, 3)
	w.see(t, users...)
	w.follow(t, "author", users...)
	inTask, inEvent, other := w.store(t, 1, "author"), w.store(t, 2, "author"), w.store(t, 3, "author")
	_, err := w.Progress.Plan(t.Context(), inTask.ID, "medium", []int{0}, w.Clock.Now())
	require.NoError(t, err)
	task := fmt.Sprintf(`{"v":2,"id":%q,"from":{"user":"author"},"lane":"bulk","partition":"0-of-4"}`, inTask.ID)
	require.NoError(t, w.Bus.Put(t.Context(), event.Bulk, 0, []byte(task)))
	published := fmt.Sprintf(`{"v":2,"id":%q,"from":"author"}`, inEvent.ID)
	require.NoError(t, w.Bus.Emit(t.Context(), event.DeadLetter{Subject: "fanmail.v1.published", Payload: []byte(published)}))
	w.publish(t, other)
	w.drain(t)

	w.requireDelivered(t, users, other)
	letters := w.letters(t)
	require.Len(t, letters, 2)
	payloads := map[string]string{}
	for _, letter := range letters {
		require.Equal(t, event.ReasonNewer, letter.Reason)
		payloads[letter.Subject] = string(letter.Payload)
	}
	require.Equal(t, map[string]string{"fanmail.v1.fanout.bulk.0": task, "fanmail.v1.published": published}, payloads)

	w.Clock.Advance(2 * w.opts.ResumeAfter)
	n, err := w.resumer().Resume(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, n)
	w.drain(t)
	w.requireDelivered(t, users, inTask, inEvent, other)
	w.requireDone(t, inTask, len(users), 0)
	w.requireDone(t, inEvent, len(users), 0)
}
