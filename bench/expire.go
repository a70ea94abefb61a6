package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/fanmail/fanmail/internal/bench"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// ExpireOptions configure env.Expire.
type ExpireOptions struct {
	// Inboxes is the number of inboxes, and Messages the number of messages in each.
	Inboxes, Messages int
	// Probes is the number of direct messages that are sent before.
	Probes int
	// MaxAge is retention.max_age, and Every retention.every.
	MaxAge, Every time.Duration
}

// Expire measures how fast messages expire by age, and direct messages meanwhile.
func (e env) Expire(ctx context.Context, o ExpireOptions) (_ Report, err error) {
	e.Config.PublishSlack, e.Config.ClockTolerance = o.MaxAge*2/5, o.MaxAge*2/5
	e.Config.Retention.MaxAge, e.Config.Retention.Every, e.Config.Retention.Hold = o.MaxAge, o.Every, 0
	e.Config.MongoDB.Timeout = min(e.Config.MongoDB.Timeout, e.Config.ClockTolerance/4)
	w, err := e.open(ctx)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, w.Close(ctx)) }()
	if err := w.Audience(ctx, []message.Source{"celebrity"}, o.Inboxes, 0); err != nil {
		return Report{}, err
	}
	if err := w.See(ctx, e.Now(), []message.UserID{"ben"}); err != nil {
		return Report{}, err
	}
	e.Tell("measuring the raw limit")
	raw, err := w.RawBatches(ctx, o.Inboxes, 1, o.Messages)
	if err != nil {
		return Report{}, err
	}
	if err := bench.Settle(ctx); err != nil {
		return Report{}, err
	}
	x := expiring{world: w, o: o}
	e.Tell("sending direct messages, idle")
	idle, err := x.Direct(ctx, o.Probes, nil)
	if err != nil {
		return Report{}, err
	}
	figures, busy, err := x.run(ctx)
	if err != nil {
		return Report{}, err
	}
	rate := figures[0].Value
	figures = append([]Figure{figures[0], figure("raw", raw, "/s"), figure("of raw", rate/raw, "")}, figures[1:]...)
	return Report{Benchmark: "expire", Store: e.Config.Store, Rows: []Row{
		{Case: fmt.Sprintf("%d messages", o.Inboxes*o.Messages), Figures: figures},
		{Case: "direct message, idle", Figures: bench.Latency("readable after", idle)},
		{Case: "direct message, while they expire", Figures: bench.Latency("readable after", busy)},
	}}, nil
}

type expiring struct {
	*world
	o ExpireOptions
}

// run fills the inboxes, and waits until all of it has expired and is removed from them.
func (x expiring) run(ctx context.Context) (figures []Figure, busy bench.Times, err error) {
	x.Env.Tell(fmt.Sprintf("filling %d inboxes with %d messages each", x.o.Inboxes, x.o.Messages))
	drafts := make([]message.Draft, x.o.Messages)
	for i := range drafts {
		drafts[i] = x.ToFollowers("celebrity")
	}
	ids, err := x.Publish(ctx, drafts...)
	if err != nil {
		return nil, nil, err
	}
	if _, err := x.Await(ctx, ids); err != nil {
		return nil, nil, err
	}
	last := ids[len(ids)-1]
	full, err := x.size()
	if err != nil {
		return nil, nil, err
	}
	x.Env.Tell("waiting until they have expired, and sending direct messages meanwhile")
	var overdue time.Duration
	var status client.RetentionStatus
	var began, ended time.Time
	var count int64
	var failed error
	busy, err = x.Direct(ctx, math.MaxInt, func() bool {
		if ended = x.Env.Now(); count == 0 {
			began = ended
			if count, failed = x.expired(ctx); failed != nil {
				return false
			}
		}
		if status, failed = x.Client.RetentionStatus(ctx); failed != nil || status.LowWater == nil {
			return failed == nil
		}
		if status.LowWater.Time().After(x.Opened) { // before the first round there is none
			var late time.Duration
			late, failed = time.ParseDuration(*status.OldestOverdue)
			overdue = max(overdue, late)
		}
		return failed == nil && status.LowWater.Less(last)
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, nil, err
	}
	if err := x.requireEmpty(ctx); err != nil {
		return nil, nil, err
	}
	expired, err := x.expired(ctx)
	if err == nil && expired < int64(x.o.Inboxes*x.o.Messages) {
		err = fmt.Errorf("%d messages have expired, want at least %d", expired, x.o.Inboxes*x.o.Messages)
	}
	if err != nil {
		return nil, nil, err
	}
	x.Env.Tell("waiting until the store is at rest")
	if err := bench.Settle(ctx); err != nil {
		return nil, nil, err
	}
	left, err := x.size()
	return []Figure{
		figure("expired", float64(expired)/max(ended.Sub(began).Seconds(), 1e-3), "/s"),
		figure("oldest overdue", overdue.Seconds(), "s"),
		figure("allowed", 2*x.o.Every.Seconds(), "s"),
		figure("files before", full, "MiB"),
		figure("files after", left, "MiB"),
	}, busy, err
}

// requireEmpty returns an error if an inbox shows what has expired. It looks at a thousand inboxes.
func (x expiring) requireEmpty(ctx context.Context) error {
	for n := 0; n < x.o.Inboxes; n += max(1, x.o.Inboxes/1000) {
		page, err := x.Client.Inbox(ctx, bench.User("user", n), client.InboxOptions{Peek: true, Limit: 1})
		if err != nil {
			return err
		}
		if page.Total != 0 || len(page.Messages) > 0 {
			return fmt.Errorf("the inbox of %s has %d messages, and all have expired", bench.User("user", n), page.Total)
		}
	}
	return nil
}

// expired returns how many messages the walk has let expire.
func (x expiring) expired(ctx context.Context) (int64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, x.App.URL()+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if text, found := strings.CutPrefix(lines.Text(), "fanmail_retention_expired_total "); found {
			count, err := strconv.ParseFloat(text, 64)
			return int64(count), err
		}
	}
	return 0, errors.Join(lines.Err(), errors.New("the server does not count what has expired"))
}

// size returns the size of the files of the embedded store in MiB, and 0 on MongoDB.
func (w *world) size() (mib float64, err error) {
	if w.Env.OnMongoDB() {
		return 0, nil
	}
	var sum int64
	err = filepath.WalkDir(filepath.Join(w.Config.Data, "store"), func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) { // a compaction has removed it
				return nil
			}
			return err
		}
		if info, err := entry.Info(); err == nil && !entry.IsDir() {
			sum += info.Size()
		}
		return nil
	})
	return float64(sum) / (1 << 20), err
}
