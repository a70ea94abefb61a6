//go:build long

package e2e_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/testenv"
)

// TestClockIsFarOff sets the clocks of running programs ahead and back by days, further than messages are kept. While they are wrong, users look,
// and others return for the first time. No message that is young enough may expire, and what is old enough must when the clocks are right again.
func TestClockIsFarOff(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	offsets := []time.Duration{0, 3 * day, 0, -3 * day, 0, 40 * day, 0, -40 * day, 0}
	for _, on := range everyStoreAndApart() {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			ctx := bounded(t, 8*time.Minute)
			w := newWorld(ctx, t, on, expiring(on))
			w.site.Clocks = []string{clockText(offsets)}
			w.site.Provoked = append(w.site.Provoked, errClockAhead)
			server := w.start(ctx)
			c, clocks := w.client(), server.(clockSetter)
			require.NoError(t, c.SetRetention(ctx, "forgetful", client.Retention{MaxAge: (2 * on.tolerance()).String()}))

			last := w.send(ctx, 0, len(offsets))
			for i, offset := range offsets[1:] {
				clocks.StepClock(ctx)
				shown := offset
				if on == embedded {
					shown = max(shown, 0) // the store believes a clock that is set back
				}
				testenv.Eventually(ctx, t, "the processes know how far their clocks are off", func() bool {
					return w.furthest(ctx, clocks.URLs(), shown) < on.tolerance()
				})
				if offset == 0 {
					last = w.send(ctx, i+1, len(offsets))
					continue
				}
				w.requireInbox(ctx, "keen", i)
				if _, err := c.Login(ctx, message.UserID(guest(i)), 0); offset > -30*day { // otherwise they count as dormant
					require.NoError(t, err)
					w.requireInbox(ctx, guest(i), i)
				}
			}
			testenv.Eventually(ctx, t, "what is old enough has expired", func() bool {
				page, err := c.Inbox(ctx, "forgetful", client.InboxOptions{})
				require.NoError(t, err)
				return page.Complete && page.Total == 0
			})
			status, err := c.RetentionStatus(ctx)
			require.NoError(t, err)
			require.True(t, status.AsOf.After(last), "%v", status.AsOf)
			w.requireInbox(ctx, "keen", len(offsets)-1)
			for i, offset := range offsets[1:] {
				if offset != 0 {
					w.requireInbox(ctx, guest(i), len(offsets)-1)
				}
			}
			w.requireSoundInboxes(ctx)
			server.Stop(ctx)
		})
	}
}

// TestClockAfterAStopOfDays stops a server, and starts it when messages are older than they are kept: they expire. Its clock is behind at first, so
// that the test need not wait for days.
func TestClockAfterAStopOfDays(t *testing.T) {
	t.Parallel()
	ctx := bounded(t, 4*time.Minute)
	w := newWorld(ctx, t, embedded, expiring(embedded))
	w.site.Clocks = []string{"-72h"}
	server := w.start(ctx)
	w.send(ctx, 0, 0)
	w.requireInbox(ctx, "keen", 0)
	server.Stop(ctx)

	w.site.Clocks = nil
	server = w.start(ctx)
	testenv.Eventually(ctx, t, "what is old enough has expired", func() bool {
		page, err := w.client().Inbox(ctx, "keen", client.InboxOptions{})
		require.NoError(t, err)
		return page.Complete && page.Total == 0
	})
	w.send(ctx, 0, 0)
	w.requireInbox(ctx, "keen", 0)
	server.Stop(ctx)
}

// expiring returns settings with which messages are kept for a day, and rounds follow each other.
func expiring(on store) map[string]string {
	return impatient(map[string]string{
		"publish_slack": on.tolerance().String(), "clock_tolerance": on.tolerance().String(), "idempotency.ttl": on.tolerance().String(),
		"retention.max_age": "24h", "retention.every": "1s", "retention.hold": "2s",
	})
}

// guest is a user who first looks while the clocks show the offset with a number.
func guest(n int) string { return fmt.Sprintf("guest-%d", n) }

// send publishes a message, and returns when it was sent.
func (w *world) send(ctx context.Context, n, guests int) time.Time {
	w.Helper()
	to := []message.UserID{"keen", "forgetful"}
	for i := range guests {
		to = append(to, message.UserID(guest(i)))
	}
	receipt, err := w.client().Publish(ctx, message.Draft{From: "star", Body: fmt.Sprintf("message %d", n), To: to}, "")
	require.NoError(w, err)
	return receipt.ID.Time()
}

// requireInbox requires that an inbox shows each message up to that of a step: one for every step at which the clocks are right.
func (w *world) requireInbox(ctx context.Context, user string, step int) {
	w.Helper()
	var page client.InboxPage
	testenv.Eventually(ctx, w.T, "the inbox of "+user+" is complete", func() (complete bool) {
		var err error
		page, err = w.client().Inbox(ctx, message.UserID(user), client.InboxOptions{})
		require.NoError(w, err)
		return page.Complete && page.Total >= int64(step/2+1)
	})
	require.Len(w, page.Messages, step/2+1, user)
}

// furthest returns how far the clock of a process is from what it should show by the store's clock, in that process which is furthest.
func (w *world) furthest(ctx context.Context, urls []string, offset time.Duration) (most time.Duration) {
	w.Helper()
	for _, url := range urls {
		seconds := math.Inf(1)
		for _, line := range w.measured(ctx, url) {
			_, _ = fmt.Sscanf(line, `fanmail_clock_offset_seconds{server="store"} %g`, &seconds) // other lines leave it as it is
		}
		most = max(most, time.Duration(min(math.Abs(seconds-offset.Seconds()), math.MaxInt32)*float64(time.Second)))
	}
	return most
}
