package bench

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/pebblestore/pebbleraw"
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
	// Topics makes the audience subscribers instead of followers: each message goes to that many topics, at most message.MaxTopics of
	// message.MaxTopicSegments segments, and the subscribers are spread evenly over the topics and all above them. 0 means followers.
	Topics int
	// Rounds makes the author publish that many messages, each when the one before is in all inboxes and the store has settled.
	Rounds int
	// Authors is the number of authors who publish at once in each of several Rounds. Neighbors in the store follow different ones. 0 means 1.
	Authors int
}

// Fanout measures the fan-out of messages by one author, from publishing until it is done.
func (e Env) Fanout(ctx context.Context, o FanoutOptions) (Report, error) {
	report := Report{Benchmark: "fanout", Store: e.Config.Store, XName: "followers", Plotted: []string{"deliveries", "raw"}}
	if o.Dormant > 0 {
		report.Plotted = []string{"followers", "raw scan"}
	}
	if o.Rounds > 1 {
		report.Plotted = nil
	}
	for _, n := range o.Followers {
		if o.Rounds > 1 {
			rows, err := e.rounds(ctx, n, o.Rounds, o.Authors)
			if err != nil {
				return Report{}, fmt.Errorf("rounds of %d followers: %w", n, err)
			}
			report.Rows = append(report.Rows, rows...)
			continue
		}
		figures, err := e.fanout(ctx, n, o)
		if err != nil {
			return Report{}, fmt.Errorf("fan-out to %d followers: %w", n, err)
		}
		report.Rows = append(report.Rows, Row{Case: fmt.Sprintf("%d followers", n), X: float64(n), Figures: figures})
	}
	return report, nil
}

func (e Env) fanout(ctx context.Context, followers int, o FanoutOptions) (figures []Figure, err error) {
	w, err := e.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close(ctx)) }()
	const author = "celebrity"
	dormant := int(o.Dormant * float64(followers))
	topics, sources := []message.Topic(nil), []message.Source{message.UserID(author).Source()}
	if o.Topics > 0 {
		topics, sources = benchTopics(o.Topics)
		for _, topic := range topics {
			if err := w.Client.CreateTopic(ctx, topic, true); err != nil {
				return nil, err
			}
		}
	}
	if err := w.Audience(ctx, sources, followers, dormant); err != nil {
		return nil, err
	}
	if o.There > 0 {
		e.Tell(fmt.Sprintf("filling inboxes with %d messages each", o.There))
		if err := w.Preload(ctx, Users("user", 0, followers-dormant), w.Entries(0, o.There)); err != nil {
			return nil, err
		}
	}
	var raw, tables float64
	if dormant == 0 {
		e.Tell("measuring the raw limit")
		if raw, err = w.RawBatches(ctx, followers, 1, o.Messages); err != nil {
			return nil, err
		}
		if !e.OnMongoDB() {
			if tables, err = w.rawEmbedded(func(opts pebbleraw.Options) (float64, error) {
				return pebbleraw.Tables(ctx, opts, followers*o.Messages)
			}); err != nil {
				return nil, err
			}
		}
	} else {
		e.Tell("measuring a raw scan")
		if raw, err = w.rawScan(ctx, sources, followers); err != nil {
			return nil, err
		}
	}
	e.Tell(fmt.Sprintf("fanning out to %d followers", followers))
	drafts := make([]message.Draft, o.Messages)
	for i := range drafts {
		drafts[i] = w.ToFollowers(author)
		if o.Topics > 0 {
			drafts[i].Audience, drafts[i].Topics = message.AudienceListed, topics
		}
	}
	if err := w.settle(ctx); err != nil {
		return nil, err
	}
	began := time.Now() //nolint:forbidigo // what is measured is time
	ids, err := w.Publish(ctx, drafts...)
	if err != nil {
		return nil, err
	}
	total, err := w.Await(ctx, ids)
	if err != nil {
		return nil, err
	}
	took := time.Since(began).Seconds()
	want := client.Fanout{Delivered: int64((followers - dormant) * o.Messages), Skipped: int64(dormant * o.Messages)}
	if !reflect.DeepEqual(total, want) {
		return nil, fmt.Errorf("delivered %d and skipped %d, want %d and %d", total.Delivered, total.Skipped, want.Delivered, want.Skipped)
	}
	if dormant > 0 {
		rate := float64(followers) / took
		return []Figure{
			{"followers", rate, "/s"},
			{"raw scan", raw, "/s"},
			{"times a raw scan", raw / rate, ""},
			{"took", took, "s"},
		}, nil
	}
	rate := float64(total.Delivered) / took
	figures = []Figure{{"deliveries", rate, "/s"}, {"raw", raw, "/s"}, {"of raw", rate / raw, ""}}
	if tables > 0 {
		figures = append(figures, Figure{"raw tables", tables, "/s"}, Figure{"of raw tables", rate / tables, ""})
	}
	return append(figures, Figure{"took", took, "s"}), nil
}

// rawScanOf reads the edges to a source in one partition, and the states of their users.
func (w *World) rawScanOf(ctx context.Context, source message.Source, p int) error {
	for after := message.UserID(""); ; {
		edges, err := w.Parts.Edges.Followers(ctx, source, p, after, w.Config.Fanout.BatchOwners)
		if err != nil || len(edges) == 0 {
			return err
		}
		page := make([]message.UserID, len(edges))
		for i, edge := range edges {
			page[i] = edge.Follower
		}
		if _, err := w.Parts.Users.Lookup(ctx, page); err != nil {
			return err
		}
		after = page[len(page)-1]
	}
}

// benchTopics returns n topics, and their sources with those of all topics above them. One topic has a single segment. Several have all segments
// that a topic may have, and none in common, so that a message to them has as many sources as possible.
func benchTopics(n int) (topics []message.Topic, sources []message.Source) {
	for i := range n {
		segments := []string{fmt.Sprintf("topic-%d", i)}
		for level := 1; n > 1 && level < message.MaxTopicSegments; level++ {
			segments = append(segments, fmt.Sprintf("level-%d", level))
		}
		topics = append(topics, message.Topic(strings.Join(segments, "/")))
	}
	return topics, message.Message{Topics: topics}.Sources()
}

// Audience gives users an edge to one of the sources each. The last of the users are dormant.
func (w *World) Audience(ctx context.Context, sources []message.Source, followers, dormant int) error {
	w.Env.Tell(fmt.Sprintf("making %d followers", followers))
	now := w.Env.Now()
	if err := w.See(ctx, now, Users("user", 0, followers-dormant)); err != nil {
		return err
	}
	if err := w.See(ctx, now.Add(-2*w.Config.DormantAfter), Users("user", followers-dormant, followers)); err != nil {
		return err
	}
	each := (followers + len(sources) - 1) / len(sources)
	for i, source := range sources {
		from := min(followers, i*each)
		if err := w.Follow(ctx, source, Users("user", from, min(followers, from+each))); err != nil {
			return err
		}
	}
	return nil
}

// rawScan returns how many followers a second can be read, with their states, and without any other work. It uses as many goroutines as
// the bulk lane has workers.
func (w *World) rawScan(ctx context.Context, sources []message.Source, followers int) (rate float64, err error) {
	if err := w.settle(ctx); err != nil {
		return 0, err
	}
	var group errgroup.Group
	group.SetLimit(w.Config.Fanout.BulkWorkers)
	began := time.Now() //nolint:forbidigo // what is measured is time
	for p := range w.Config.Partitions {
		group.Go(func() error {
			for _, source := range sources {
				if err := w.rawScanOf(ctx, source, p); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = group.Wait()
	return float64(followers) / time.Since(began).Seconds(), err
}
