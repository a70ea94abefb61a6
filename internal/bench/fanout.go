package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// FanoutOptions configure Env.Fanout.
type FanoutOptions struct {
	// Followers are the sizes of the audience. Each size is measured in a world of its own.
	Followers []int
	// Dormant is the share of the followers, from 0 to 1, who are dormant.
	Dormant float64
	// Messages is the number of messages that the author publishes in one batch.
	Messages int
	// There is the number of messages in each inbox before the measurement.
	There int
}

// Fanout measures the fan-out of messages by one author, from publishing until it is done.
func (e Env) Fanout(ctx context.Context, o FanoutOptions) (Report, error) {
	report := Report{Benchmark: "fanout", Store: e.Config.Store, XName: "followers", Plotted: []string{"deliveries", "raw"}}
	if o.Dormant > 0 {
		report.Plotted = []string{"followers", "raw scan"}
	}
	for _, n := range o.Followers {
		figures, err := e.fanout(ctx, n, o)
		if err != nil {
			return Report{}, fmt.Errorf("fan-out to %d followers: %w", n, err)
		}
		report.Rows = append(report.Rows, Row{Case: fmt.Sprintf("%d followers", n), X: float64(n), Figures: figures})
	}
	return report, nil
}

func (e Env) fanout(ctx context.Context, followers int, o FanoutOptions) (figures []Figure, err error) {
	w, err := e.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close(ctx)) }()
	const author = "celebrity"
	dormant := int(o.Dormant * float64(followers))
	if err := w.audience(ctx, author, followers, dormant); err != nil {
		return nil, err
	}
	if o.There > 0 {
		e.Tell(fmt.Sprintf("filling inboxes with %d messages each", o.There))
		if err := w.preload(ctx, users("user", 0, followers-dormant), w.entries(0, o.There)); err != nil {
			return nil, err
		}
	}
	var raw float64
	if dormant == 0 {
		e.Tell("measuring the raw limit")
		if raw, err = w.rawBatches(ctx, followers, 1, o.Messages); err != nil {
			return nil, err
		}
	} else {
		e.Tell("measuring a raw scan")
		if raw, err = w.rawScan(ctx, author, followers); err != nil {
			return nil, err
		}
	}
	e.Tell(fmt.Sprintf("fanning out to %d followers", followers))
	drafts := make([]message.Draft, o.Messages)
	for i := range drafts {
		drafts[i] = w.toFollowers(author)
	}
	if err := settle(ctx); err != nil {
		return nil, err
	}
	memory, began := peak(), time.Now() //nolint:forbidigo // what is measured is time
	ids, err := w.publish(ctx, drafts...)
	if err != nil {
		return nil, err
	}
	total, err := w.await(ctx, ids)
	if err != nil {
		return nil, err
	}
	took := time.Since(began).Seconds()
	resident := memory()
	want := client.Fanout{Delivered: int64((followers - dormant) * o.Messages), Skipped: int64(dormant * o.Messages)}
	if total != want {
		return nil, fmt.Errorf("delivered %d and skipped %d, want %d and %d", total.Delivered, total.Skipped, want.Delivered, want.Skipped)
	}
	if dormant > 0 {
		rate := float64(followers) / took
		return []Figure{
			{"followers", rate, "/s"},
			{"raw scan", raw, "/s"},
			{"times a raw scan", raw / rate, ""},
			{"took", took, "s"},
			{"resident", resident, "MiB"},
		}, nil
	}
	rate := float64(total.Delivered) / took
	return []Figure{
		{"deliveries", rate, "/s"}, {"raw", raw, "/s"}, {"of raw", rate / raw, ""}, {"took", took, "s"}, {"resident", resident, "MiB"},
	}, nil
}

// audience makes users follow an author. The last of them are dormant.
func (w *world) audience(ctx context.Context, author message.UserID, followers, dormant int) error {
	w.env.Tell(fmt.Sprintf("making %d followers", followers))
	now := w.env.Now()
	if err := w.see(ctx, now, users("user", 0, followers-dormant)); err != nil {
		return err
	}
	if err := w.see(ctx, now.Add(-2*w.cfg.DormantAfter), users("user", followers-dormant, followers)); err != nil {
		return err
	}
	return w.follow(ctx, author, users("user", 0, followers))
}

// rawScan returns how many followers a second can be read, with their states, and without any other work. It uses as many goroutines as
// the bulk lane has workers.
func (w *world) rawScan(ctx context.Context, author message.UserID, followers int) (rate float64, err error) {
	if err := settle(ctx); err != nil {
		return 0, err
	}
	var group errgroup.Group
	group.SetLimit(w.cfg.Fanout.BulkWorkers)
	began := time.Now() //nolint:forbidigo // what is measured is time
	for p := range w.cfg.Partitions {
		group.Go(func() error {
			for after := message.UserID(""); ; {
				edges, err := w.parts.Edges.Followers(ctx, author.Source(), p, after, w.cfg.Fanout.BatchOwners)
				if err != nil || len(edges) == 0 {
					return err
				}
				page := make([]message.UserID, len(edges))
				for i, edge := range edges {
					page[i] = edge.Follower
				}
				if _, err := w.parts.Users.Lookup(ctx, page); err != nil {
					return err
				}
				after = page[len(page)-1]
			}
		})
	}
	err = group.Wait()
	return float64(followers) / time.Since(began).Seconds(), err
}
