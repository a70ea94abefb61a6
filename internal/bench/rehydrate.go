package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"time"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// RehydrateOptions configure Env.Rehydrate.
type RehydrateOptions struct {
	// Users is the number of users who return, one after the other. Each follows all of the Authors.
	Users, Authors int
	// Missed are the numbers of messages published in the year of their absence. Each number is measured in a world of its own. The
	// numbers of messages by each author have a Zipf distribution.
	Missed []int
}

// Rehydrate measures the first page of users who return after a year, and the time until their inbox is rebuilt.
func (e Env) Rehydrate(ctx context.Context, o RehydrateOptions) (Report, error) {
	report := Report{Benchmark: "rehydrate", Store: e.Config.Store, XName: "messages missed", Plotted: []string{"first page p50", "rebuilt p50"}}
	for _, missed := range o.Missed {
		figures, err := e.rehydrate(ctx, missed, o)
		if err != nil {
			return Report{}, fmt.Errorf("with %d messages missed: %w", missed, err)
		}
		report.Rows = append(report.Rows, Row{Case: fmt.Sprintf("%d missed", missed), X: float64(missed), Figures: figures})
	}
	return report, nil
}

func (e Env) rehydrate(ctx context.Context, missed int, o RehydrateOptions) (figures []Figure, err error) {
	const year = 365 * 24 * time.Hour
	begin := e.Now().Add(-year)
	w, err := e.openStamped(ctx, func() time.Time { return begin })
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close(ctx)) }()
	e.Tell(fmt.Sprintf("making a year with %d messages by %d authors", missed, o.Authors))
	last, err := w.archive(ctx, begin, year, missed, o.Authors)
	if err != nil {
		return nil, err
	}
	back := users("user", 0, o.Users)
	if err := w.see(ctx, begin.Add(-w.cfg.DormantAfter), back); err != nil {
		return nil, err
	}
	for _, user := range back {
		pairs := make([]follow.Pair, 0, o.Authors)
		for _, author := range users("author", 0, o.Authors) {
			pairs = append(pairs, follow.Pair{Follower: user, Followee: author.Source()})
		}
		if _, err := w.parts.Edges.Follow(ctx, pairs, begin); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(w.stop(ctx), w.start(ctx, nil)); err != nil {
		return nil, err
	}
	e.Tell(fmt.Sprintf("letting %d users come back", o.Users))
	const page = 50
	var first, rebuilt times
	for _, user := range back {
		began := time.Now() //nolint:forbidigo // what is measured is time
		got, err := w.client.Inbox(ctx, user, client.InboxOptions{Limit: page})
		if err != nil {
			return nil, err
		}
		first = append(first, time.Since(began))
		if len(got.Messages) != min(page, missed) || missed > 0 && got.Messages[0].ID != last {
			return nil, fmt.Errorf("the first page of %s has %d messages, or not the newest", user, len(got.Messages))
		}
		for state := client.Rehydrating; state != client.Active; {
			login, err := w.client.Login(ctx, user, client.MaxLoginWait)
			if err != nil {
				return nil, err
			}
			state = login.State
		}
		rebuilt = append(rebuilt, time.Since(began))
	}
	return append(latency("first page", first), latency("rebuilt", rebuilt)...), nil
}

// anyTime makes no message void, although the store's clock stands still at the beginning of the archive.
var anyTime = message.Timing{Slack: message.MaxSlack, Tolerance: message.MaxSlack}

// archive stores messages that are sent at regular intervals, and marks them as finished. It returns the id of the last message.
func (w *world) archive(ctx context.Context, begin time.Time, span time.Duration, messages, authors int) (last message.ID, err error) {
	sent, distance := begin, span/time.Duration(messages+1)
	ids := message.NewGenerator(func() time.Time { return sent }, rand.Reader)
	zipf := newZipf(authors)
	for first := 0; first < messages; first += together {
		batch := make([]message.Message, min(together, messages-first))
		refs := make([]message.Ref, len(batch))
		for i := range batch {
			sent = sent.Add(distance)
			if last, err = ids.Next(); err != nil {
				return last, err
			}
			batch[i] = message.Message{ID: last, From: user("author", zipf.next()), Audience: message.AudienceFollowers, Body: w.env.body()}
			refs[i] = batch[i].Ref()
		}
		if _, err := w.parts.Messages.Insert(ctx, batch, anyTime); err != nil {
			return last, fmt.Errorf("store messages: %w", err)
		}
		if err := w.parts.Messages.Finish(ctx, refs); err != nil {
			return last, fmt.Errorf("store messages: %w", err)
		}
	}
	return last, nil
}

// zipf draws numbers n below a bound, with a probability proportional to 1/(n+1). The sequence is the same in every run.
type zipf struct {
	random *mathrand.Rand
	bound  float64
}

func newZipf(bound int) zipf {
	return zipf{mathrand.New(mathrand.NewPCG(1, 2)), float64(bound)} //nolint:gosec // every run must draw the same numbers
}

// next inverts the cumulative distribution, which is approximately a logarithm.
func (z zipf) next() int {
	return min(int(math.Exp(z.random.Float64()*math.Log(z.bound+1)))-1, int(z.bound)-1)
}
