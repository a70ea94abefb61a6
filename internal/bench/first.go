package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/internal/startstop"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// untilKnown is how long the benchmark waits after celebrities have viewed their inboxes. Fan-out hears of views within seconds.
	untilKnown = 2 * time.Second
	// directEvery is the time between two direct messages that are compared with head starts.
	directEvery = 20 * time.Millisecond
)

// spread returns n users of which each partition has about as many.
func (w *World) spread(prefix string, n int) []message.UserID {
	var spread []message.UserID
	for i := 0; len(spread) < n; i++ {
		if u := User(prefix, i); partition.Of(u, w.Config.Partitions) == len(spread)%w.Config.Partitions {
			spread = append(spread, u)
		}
	}
	return spread
}

// view lets users view their inboxes, so that fan-out knows them.
func (w *World) view(ctx context.Context, users []message.UserID) error {
	for _, u := range users {
		if _, err := w.Client.Inbox(ctx, u, client.InboxOptions{Limit: 1}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// head measures how long named recipients and following celebrities wait for messages with a large audience.
type head struct {
	*World
	named, celebrities []message.UserID

	busy                                   atomic.Bool // a message is fanned out
	ofNamed, ofCelebrities, ofDirect, laps Times
}

// first publishes messages to a large audience one after the other, each when the fan-out of the one before is done. Meanwhile it sends direct
// messages.
func (m mixed) first(ctx context.Context) (*head, error) {
	h := &head{World: m.World, named: m.spread("named", m.o.Named), celebrities: m.spread("star", m.o.Celebrities)}
	if err := m.See(ctx, m.Env.Now(), append(append([]message.UserID{"cleo"}, h.named...), h.celebrities...)); err != nil {
		return nil, err
	}
	if err := m.Follow(ctx, "celebrity", h.celebrities); err != nil {
		return nil, err
	}
	h.pushes.watch(append(append([]message.UserID{"cleo"}, h.named...), h.celebrities...)...)
	if err := h.view(ctx, h.celebrities); err != nil {
		return nil, err
	}
	// The router remembers for so long that none of them followed the author.
	startstop.Pause(ctx, max(untilKnown, m.Config.Fanout.ClassTTL))
	group, ctx := errgroup.WithContext(ctx)
	done := make(chan struct{})
	group.Go(func() error {
		defer close(done)
		for range m.o.Messages {
			if err := h.lap(ctx, m.o.Followers); err != nil {
				return err
			}
		}
		return nil
	})
	group.Go(func() error { return h.direct(ctx, done) })
	return h, group.Wait()
}

// lap publishes one message to the large audience and waits until its fan-out is done.
func (h *head) lap(ctx context.Context, followers int) error {
	if err := h.view(ctx, h.celebrities); err != nil {
		return err
	}
	draft := h.ToFollowers("celebrity")
	draft.To = h.named
	h.busy.Store(true)
	defer h.busy.Store(false)
	sent := time.Now() //nolint:forbidigo // what is measured is time
	receipt, err := h.Client.Publish(ctx, draft, "")
	if err != nil {
		return err
	}
	status, err := h.Client.WaitDone(ctx, receipt.ID, 0)
	if err != nil {
		return err
	}
	if want := int64(followers + len(h.named) + len(h.celebrities)); status.Fanout.Delivered != want || status.Fanout.Skipped != 0 {
		return fmt.Errorf("delivered %d and skipped %d, want %d and 0", status.Fanout.Delivered, status.Fanout.Skipped, want)
	}
	h.laps = append(h.laps, time.Since(sent))
	h.ofNamed = append(h.ofNamed, h.pushes.waits(h.named, receipt.ID, sent)...)
	h.ofCelebrities = append(h.ofCelebrities, h.pushes.waits(h.celebrities, receipt.ID, sent)...)
	return nil
}

// direct sends direct messages while a message is fanned out, until done.
func (h *head) direct(ctx context.Context, done <-chan struct{}) error {
	for ctx.Err() == nil {
		select {
		case <-done:
			return nil
		default:
		}
		if !h.busy.Load() {
			startstop.Pause(ctx, time.Millisecond)
			continue
		}
		sent := time.Now() //nolint:forbidigo // what is measured is time
		receipt, err := h.Client.Publish(ctx, message.Draft{From: "ann", To: []message.UserID{"cleo"}, Body: h.Env.body()}, "")
		if err != nil {
			return err
		}
		for !h.pushes.has("cleo", receipt.ID) && ctx.Err() == nil {
			startstop.Pause(ctx, time.Millisecond)
		}
		h.ofDirect = append(h.ofDirect, h.pushes.waits([]message.UserID{"cleo"}, receipt.ID, sent)...)
		startstop.Pause(ctx, directEvery)
	}
	return ctx.Err()
}

// rows returns the measured waits. A lap is the time of one scan.
func (h *head) rows() []Row {
	rows := []Row{
		{Case: "direct message beside these", Figures: Latency("in the inbox after", h.ofDirect)},
		{Case: "named beside the audience", Figures: append(Latency("in the inbox after", h.ofNamed),
			Figure{"times direct, p50", h.ofNamed.Percentile(50) / h.ofDirect.Percentile(50), ""},
			Figure{"times direct, p99", h.ofNamed.Percentile(99) / h.ofDirect.Percentile(99), ""})},
		{Case: "following celebrity", Figures: append(Latency("in the inbox after", h.ofCelebrities),
			Figure{"of a lap, p99", h.ofCelebrities.Percentile(99) / h.laps.Percentile(50), ""})},
		{Case: "lap of the scan", Figures: Latency("took", h.laps)},
	}
	return rows
}
