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
	// Topics is the number of topics. Each message then has one of them, by a Zipf distribution of its own. As many other users return who
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
	e.Config.Fanout.ResumeEvery = 24 * time.Hour // a sweep would take the messages of the year for forgotten while they are stored
	w, err := e.OpenStamped(ctx, func() time.Time { return begin })
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close(ctx)) }()
	topics := topicsInARow(o.Topics)
	e.Tell(fmt.Sprintf("making a year with %d messages by %d authors to %d topics", missed, o.Authors, len(topics)))
	last, err := w.Archive(ctx, begin, year, missed, o.Authors, topics)
	if err != nil {
		return nil, err
	}
	authors := make([]message.Source, 0, o.Authors)
	for _, author := range Users("author", 0, o.Authors) {
		authors = append(authors, author.Source())
	}
	groups := []Returning{{Users: Users("user", 0, o.Users), Sources: authors}}
	if o.Topics > 0 {
		groups = append(groups, Returning{Users: Users("subscriber", 0, o.Users), Sources: sourcesOf(topics)})
	}
	for _, r := range groups {
		if err := w.Leave(ctx, begin, r); err != nil {
			return nil, err
		}
	}
	if err := w.Restart(ctx); err != nil {
		return nil, err
	}
	for i, r := range groups {
		e.Tell(fmt.Sprintf("letting %d users come back who have %d sources", len(r.Users), len(r.Sources)))
		figures, err := w.ComeBack(ctx, r, missed, last)
		if err != nil {
			return nil, err
		}
		row := Row{Case: fmt.Sprintf("%d missed", missed), X: float64(missed), Figures: figures}
		if i > 0 { // the plot is of those who follow authors
			row.Case, row.X = row.Case+", topics", 0
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// Returning are users who return, and each of whom has edges to all sources.
type Returning struct {
	Users   []message.UserID
	Sources []message.Source
}

// Leave gives users their edges, and lets them become dormant before a time.
func (w *World) Leave(ctx context.Context, begin time.Time, r Returning) error {
	if err := w.See(ctx, begin.Add(-w.Config.DormantAfter), r.Users); err != nil {
		return err
	}
	for _, user := range r.Users {
		pairs := make([]follow.Pair, len(r.Sources))
		for i, source := range r.Sources {
			pairs[i] = follow.Pair{Follower: user, Followee: source}
		}
		if _, err := w.Parts.Edges.Follow(ctx, pairs, begin); err != nil {
			return err
		}
	}
	return nil
}

// ComeBack lets users return one after the other. On MongoDB it also counts the commands to the database meanwhile, for each return.
func (w *World) ComeBack(ctx context.Context, r Returning, missed int, last message.ID) ([]Figure, error) {
	const page = 50
	var first, rebuilt Times
	before := w.Commands.Load()
	for _, user := range r.Users {
		began := time.Now() //nolint:forbidigo // what is measured is time
		got, err := w.Client.Inbox(ctx, user, client.InboxOptions{Limit: page})
		if err != nil {
			return nil, err
		}
		first = append(first, time.Since(began))
		if len(got.Messages) != min(page, missed) || missed > 0 && got.Messages[0].ID != last {
			return nil, fmt.Errorf("the first page of %s has %d messages, or not the newest", user, len(got.Messages))
		}
		if err := w.Login(ctx, user); err != nil {
			return nil, err
		}
		rebuilt = append(rebuilt, time.Since(began))
	}
	figures := append(Latency("first page", first), Latency("rebuilt", rebuilt)...)
	if w.Env.OnMongoDB() {
		figures = append(figures, Figure{"commands", float64(w.Commands.Load()-before) / float64(len(r.Users)), ""})
	}
	return figures, nil
}

// Login logs a user in, and waits until the inbox is rebuilt.
func (w *World) Login(ctx context.Context, user message.UserID) error {
	for {
		login, err := w.Client.Login(ctx, user, client.MaxLoginWait)
		if err != nil || login.State == client.Active {
			return err
		}
	}
}

// topicsInARow returns n topics of two segments each, all below the same.
func topicsInARow(n int) (topics []message.Topic) {
	for i := range n {
		topics = append(topics, message.Topic(fmt.Sprintf("topics/topic-%07d", i)))
	}
	return topics
}

func sourcesOf(topics []message.Topic) (sources []message.Source) {
	for _, topic := range topics {
		sources = append(sources, topic.Source())
	}
	return sources
}

// AnyTime makes no message void, although the store's clock stands still at the beginning of the archive.
var AnyTime = message.Timing{Slack: message.MaxSlack, Tolerance: message.MaxSlack}

// Archive stores messages that are sent at regular intervals, and marks them as finished. It returns the id of the last message.
func (w *World) Archive(
	ctx context.Context, begin time.Time, span time.Duration, messages, authors int, topics []message.Topic,
) (last message.ID, err error) {
	for _, topic := range topics {
		if err := w.Client.CreateTopic(ctx, topic, true); err != nil {
			return last, err
		}
	}
	sent, distance := begin, span/time.Duration(messages+1)
	ids := message.NewGenerator(func() time.Time { return sent }, rand.Reader)
	byAuthor, byTopic := newZipf(authors, 1), newZipf(len(topics), 3)
	for first := 0; first < messages; first += Together {
		batch := make([]message.Message, min(Together, messages-first))
		endings := make([]message.Ending, len(batch))
		for i := range batch {
			sent = sent.Add(distance)
			if last, err = ids.Next(); err != nil {
				return last, err
			}
			batch[i] = message.Message{ID: last, From: User("author", byAuthor.next()), Audience: message.AudienceFollowers, Body: w.Env.body()}
			if len(topics) > 0 {
				batch[i].Topics = []message.Topic{topics[byTopic.next()]}
			}
			endings[i] = message.Ending{Ref: batch[i].Ref()}
		}
		if _, err := w.Parts.Messages.Insert(ctx, batch, AnyTime); err != nil {
			return last, fmt.Errorf("store messages: %w", err)
		}
		if err := w.Parts.Messages.Conclude(ctx, endings); err != nil {
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
