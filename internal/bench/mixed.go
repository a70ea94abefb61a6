package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/startstop"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// MixedOptions configure Env.Mixed.
type MixedOptions struct {
	// Followers is the size of the audience in the bulk lane. Medium is the size of the audience in the medium lane: users of the large
	// audience, at most all of them, whose inboxes lie between those of the others.
	Followers, Medium int
	// Probes is the number of direct messages, sent one after the other, and the number of messages published in each way.
	Probes int
}

// Mixed measures the delivery of direct messages and of messages to a medium audience, while messages are fanned out to a large audience.
// It also measures how long publishing takes during this time, to the large audience and to one user.
func (e Env) Mixed(ctx context.Context, o MixedOptions) (_ Report, err error) {
	w, err := e.Open(ctx)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, w.Close(ctx)) }()
	if err := w.Audience(ctx, []message.Source{"celebrity"}, o.Followers, 0); err != nil {
		return Report{}, err
	}
	friends := Users("friend", 0, besideAudience)
	if err := w.See(ctx, e.Now(), append(friends, "ben")); err != nil {
		return Report{}, err
	}
	if err := w.Follow(ctx, "local", everyNth(Users("user", 0, o.Followers), 0, o.Followers/o.Medium)[:o.Medium]); err != nil {
		return Report{}, err
	}
	if err := w.Follow(ctx, "club", friends); err != nil {
		return Report{}, err
	}
	if err := w.settle(ctx); err != nil {
		return Report{}, err
	}
	m := mixed{w, o}
	e.Tell("sending direct messages, idle")
	idle, err := m.Direct(ctx, o.Probes, nil)
	if err != nil {
		return Report{}, err
	}
	quiet, err := m.medium(ctx)
	if err != nil {
		return Report{}, err
	}
	e.Tell("sending direct messages beside messages to a thousand")
	beside, err := m.beside(ctx)
	if err != nil {
		return Report{}, err
	}
	e.Tell("sending direct messages while a message is fanned out")
	busy, mediums, err := m.meanwhile(ctx)
	if err != nil {
		return Report{}, err
	}
	e.Tell("sending direct messages while messages to both audiences are fanned out")
	both, err := m.underBoth(ctx)
	if err != nil {
		return Report{}, err
	}
	e.Tell("publishing while messages are fanned out")
	large, one, err := m.publishing(ctx)
	if err != nil {
		return Report{}, err
	}
	return Report{Benchmark: "mixed", Store: e.Config.Store, Rows: []Row{
		{Case: "direct message, idle", Figures: Latency("readable after", idle)},
		{Case: fmt.Sprintf("direct message, beside %d a second to %d each", besideRate, besideAudience), Figures: Latency("readable after", beside)},
		{Case: "direct message, during the fan-out", Figures: Latency("readable after", busy)},
		{Case: "direct message, during the fan-out and smaller ones", Figures: Latency("readable after", both)},
		{Case: fmt.Sprintf("to %d, idle", o.Medium), Figures: Latency("done after", Times{quiet})},
		{Case: fmt.Sprintf("to %d, during the fan-out", o.Medium), Figures: Latency("done after", mediums)},
		{Case: "publishing to one", Figures: Latency("accepted after", one)},
		{Case: fmt.Sprintf("publishing to %d", o.Followers), Figures: append(Latency("accepted after", large),
			Figure{"times one, p50", large.Percentile(50) / one.Percentile(50), ""},
			Figure{"times one, p99", large.Percentile(99) / one.Percentile(99), ""})},
	}}, nil
}

type mixed struct {
	*World
	o MixedOptions
}

// Direct sends n direct messages to ben one after the other, but none after goOn, unless it is nil, returns false. For each message, it returns the
// time from the answer until ben could read it.
func (w *World) Direct(ctx context.Context, n int, goOn func() bool) (took Times, err error) {
	for len(took) < n && (goOn == nil || goOn()) {
		receipt, err := w.Client.Publish(ctx, w.toBen(), "")
		if err != nil {
			return nil, err
		}
		accepted := time.Now() //nolint:forbidigo // what is measured is time
		for {
			page, err := w.Client.Inbox(ctx, "ben", client.InboxOptions{Limit: 1, Peek: true})
			if err != nil {
				return nil, err
			}
			if len(page.Messages) > 0 && page.Messages[0].ID == receipt.ID {
				break
			}
		}
		took = append(took, time.Since(accepted))
	}
	return took, nil
}

// toBen returns a direct message.
func (w *World) toBen() message.Draft {
	return message.Draft{From: "ann", To: []message.UserID{"ben"}, Body: w.Env.body()}
}

// medium publishes a message to a medium audience. It returns the time from the answer until the fan-out was done.
func (m mixed) medium(ctx context.Context) (time.Duration, error) {
	receipt, err := m.Client.Publish(ctx, m.ToFollowers("local"), "")
	if err != nil {
		return 0, err
	}
	accepted := time.Now() //nolint:forbidigo // what is measured is time
	status, err := m.Client.WaitDone(ctx, receipt.ID, time.Millisecond)
	if err == nil && status.Fanout.Delivered != int64(m.o.Medium) {
		err = fmt.Errorf("delivered to %d of %d", status.Fanout.Delivered, m.o.Medium)
	}
	return time.Since(accepted), err
}

// The messages beside which beside sends direct ones: how many a second, and the size of their audience, which the router delivers to.
const besideRate, besideAudience = 20, 1000

// beside sends direct messages while others are sent to a small audience.
func (m mixed) beside(ctx context.Context) (took Times, err error) {
	var sent atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for sent.Load() < int64(m.o.Probes) {
			if _, err := m.Client.Publish(ctx, m.ToFollowers("club"), ""); err != nil {
				return err
			}
			sent.Add(1)
			startstop.Pause(ctx, time.Second/besideRate)
		}
		return nil
	})
	group.Go(func() (err error) {
		took, err = m.Direct(ctx, math.MaxInt, func() bool { return sent.Load() < int64(m.o.Probes) })
		return err
	})
	return took, group.Wait()
}

// meanwhile sends direct messages, and messages to a medium audience, while a message is fanned out to a large audience.
func (m mixed) meanwhile(ctx context.Context) (direct, medium Times, err error) {
	const together = 20
	for len(direct) < m.o.Probes { // one fan-out may be done before all probes are sent
		receipt, err := m.Client.Publish(ctx, m.ToFollowers("celebrity"), "")
		if err != nil {
			return nil, nil, err
		}
		for {
			status, err := m.Client.Status(ctx, receipt.ID)
			if err != nil {
				return nil, nil, err
			}
			if status.Fanout.State == message.StateDone || len(direct) >= m.o.Probes && len(medium) > 0 {
				break
			}
			some, err := m.Direct(ctx, together, nil)
			if err != nil {
				return nil, nil, err
			}
			direct = append(direct, some...)
			took, err := m.medium(ctx)
			if err != nil {
				return nil, nil, err
			}
			medium = append(medium, took)
		}
	}
	return direct, medium, nil
}

// underBoth sends direct messages while messages to the large and to the medium audience are fanned out, one after another in each.
func (m mixed) underBoth(ctx context.Context) (direct Times, err error) {
	var probed atomic.Bool
	group, ctx := errgroup.WithContext(ctx)
	for author, size := range map[message.UserID]int{"celebrity": m.o.Followers, "local": m.o.Medium} {
		group.Go(func() error {
			for !probed.Load() {
				ids, err := m.Publish(ctx, m.ToFollowers(author))
				if err != nil {
					return err
				}
				total, err := m.Await(ctx, ids)
				if err == nil && total.Delivered != int64(size) {
					err = fmt.Errorf("delivered to %d of %d", total.Delivered, size)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	group.Go(func() (err error) {
		direct, err = m.Direct(ctx, m.o.Probes, nil)
		probed.Store(true)
		return err
	})
	return direct, group.Wait()
}

// publishing publishes alternately to a large audience and to one user, while the messages to the large audience are fanned out.
func (m mixed) publishing(ctx context.Context) (large, one Times, err error) {
	for range m.o.Probes {
		for took, draft := range map[*Times]message.Draft{
			&large: m.ToFollowers("celebrity"),
			&one:   m.toBen(),
		} {
			began := time.Now() //nolint:forbidigo // what is measured is time
			if _, err := m.Client.Publish(ctx, draft, ""); err != nil {
				return nil, nil, err
			}
			*took = append(*took, time.Since(began))
		}
		startstop.Pause(ctx, 5*time.Millisecond)
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
	}
	return large, one, nil
}
