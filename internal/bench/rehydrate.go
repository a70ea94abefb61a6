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
	// Topics is the number of topics. Each message then has one of them, by a Zipf distribution of its own, and as many other users return who
	// are subscribed to all Topics and follow no author. 0 means no topics and no such users.
	Topics int
}

// Rehydrate measures the first page of users who return after a year, and the time until their inbox is rebuilt.
func (e Env) Rehydrate(ctx context.Context, o RehydrateOptions) (Report, error) {
	report := Report{Benchmark: "rehydrate", Store: e.Config.Store, XName: "messages missed", Plotted: []string{"first page p50", "rebuilt p50"}}
	for _, missed := range o.Missed {
		rows, err := e.rehydrate(ctx, missed, o)
		if err != nil {
			return Report{}, fmt.Errorf("with %d messages missed: %w", missed, err)
		}
		report.Rows = append(report.Rows, rows...)
	}
	return report, nil
}

func (e Env) rehydrate(ctx context.Context, missed int, o RehydrateOptions) (rows []Row, err error) {
	const year = 365 * 24 * time.Hour
	begin := e.Now().Add(-year)
	e.Config.Fanout.SweepEvery = 24 * time.Hour // a sweep would take the messages of the year for forgotten while they are stored
	w, err := e.openStamped(ctx, func() time.Time { return begin })
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close(ctx)) }()
	topics := topicsInARow(o.Topics)
	e.Tell(fmt.Sprintf("making a year with %d messages by %d authors to %d topics", missed, o.Authors, len(topics)))
	last, err := w.archive(ctx, begin, year, missed, o.Authors, topics)
	if err != nil {
		return nil, err
	}
	authors := make([]message.Source, 0, o.Authors)
	for _, author := range users("author", 0, o.Authors) {
		authors = append(authors, author.Source())
	}
	name := fmt.Sprintf("%d missed", missed)
	groups := []*returning{{name: name, users: users("user", 0, o.Users), sources: authors}}
	if o.Topics > 0 {
		groups = append(groups, &returning{name: name + ", topics", users: users("subscriber", 0, o.Users), sources: sourcesOf(topics)})
	}
	for _, r := range groups {
		if err := w.leave(ctx, begin, r); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(w.stop(ctx), w.start(ctx, nil)); err != nil {
		return nil, err
	}
	for i, r := range groups {
		e.Tell(fmt.Sprintf("letting %d users come back who have %d sources", len(r.users), len(r.sources)))
		figures, err := w.comeBack(ctx, r, missed, last)
		if err != nil {
			return nil, err
		}
		rows = append(rows, Row{Case: r.name, Figures: figures})
		if i == 0 { // the plot is of those who follow authors
			rows[i].X = float64(missed)
		}
	}
	return rows, nil
}

// returning are users who return, and each of whom has edges to all sources.
type returning struct {
	name    string
	users   []message.UserID
	sources []message.Source
}

// leave gives users their edges, and lets them become dormant before a time.
func (w *world) leave(ctx context.Context, begin time.Time, r *returning) error {
	if err := w.see(ctx, begin.Add(-w.cfg.DormantAfter), r.users); err != nil {
		return err
	}
	for _, user := range r.users {
		pairs := make([]follow.Pair, len(r.sources))
		for i, source := range r.sources {
			pairs[i] = follow.Pair{Follower: user, Followee: source}
		}
		if _, err := w.parts.Edges.Follow(ctx, pairs, begin); err != nil {
			return err
		}
	}
	return nil
}

// comeBack lets users return one after the other. On MongoDB it also counts the commands to the database meanwhile, for each return.
func (w *world) comeBack(ctx context.Context, r *returning, missed int, last message.ID) ([]Figure, error) {
	const page = 50
	var first, rebuilt times
	before := w.commands.Load()
	for _, user := range r.users {
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
	figures := append(latency("first page", first), latency("rebuilt", rebuilt)...)
	if w.onMongoDB() {
		figures = append(figures, Figure{"commands", float64(w.commands.Load()-before) / float64(len(r.users)), ""})
	}
	return figures, nil
}

// topicsInARow returns n topics of two segments each, all below the same.
func topicsInARow(n int) (topics []message.Topic) {
	for i := range n {
		topics = append(topics, message.TopicOf("topics", fmt.Sprintf("topic-%07d", i)))
	}
	return topics
}

func sourcesOf(topics []message.Topic) (sources []message.Source) {
	for _, topic := range topics {
		sources = append(sources, topic.Source())
	}
	return sources
}

// anyTime makes no message void, although the store's clock stands still at the beginning of the archive.
var anyTime = message.Timing{Slack: message.MaxSlack, Tolerance: message.MaxSlack}

// archive stores messages that are sent at regular intervals, and marks them as finished. It returns the id of the last message.
func (w *world) archive(
	ctx context.Context, begin time.Time, span time.Duration, messages, authors int, topics []message.Topic,
) (last message.ID, err error) {
	for _, topic := range topics {
		if err := w.client.CreateTopic(ctx, topic, true); err != nil {
			return last, err
		}
	}
	sent, distance := begin, span/time.Duration(messages+1)
	ids := message.NewGenerator(func() time.Time { return sent }, rand.Reader)
	byAuthor, byTopic := newZipf(authors, 1), newZipf(len(topics), 3)
	for first := 0; first < messages; first += together {
		batch := make([]message.Message, min(together, messages-first))
		refs := make([]message.Ref, len(batch))
		for i := range batch {
			sent = sent.Add(distance)
			if last, err = ids.Next(); err != nil {
				return last, err
			}
			batch[i] = message.Message{ID: last, From: user("author", byAuthor.next()), Audience: message.AudienceFollowers, Body: w.env.body()}
			if len(topics) > 0 {
				batch[i].Topics = []message.Topic{topics[byTopic.next()]}
			}
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

func newZipf(bound int, seed uint64) zipf {
	return zipf{mathrand.New(mathrand.NewPCG(seed, 2)), float64(bound)} //nolint:gosec // every run must draw the same numbers
}

// next inverts the cumulative distribution, which is approximately a logarithm.
func (z zipf) next() int {
	return min(int(math.Exp(z.random.Float64()*math.Log(z.bound+1)))-1, int(z.bound)-1)
}
