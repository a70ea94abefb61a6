package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// CountsOptions configure Env.Counts.
type CountsOptions struct {
	// Users is the number of inboxes that a request counts, at most client.MaxCountedUsers.
	Users int
	// Messages is the number of messages in each inbox.
	Messages int
	// Requests is the number of requests of each kind.
	Requests int
}

// pageOf is the number of messages of a page that is measured.
const pageOf = 50

// Counts measures requests that count many inboxes: as they are filled, and when half of the messages have expired. It also measures a page of
// 50 without and with whom its messages are for, of a new reader each time, and the same again. These are read in the process, without HTTP.
func (e Env) Counts(ctx context.Context, o CountsOptions) (_ Report, err error) {
	w, err := e.open(ctx)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, w.close(ctx)) }()
	e.Tell(fmt.Sprintf("filling %d inboxes", o.Users))
	all, entries := users("user", 0, o.Users), w.entries(0, o.Messages)
	readers := users("reader", 0, o.Requests)
	if err := errors.Join(w.see(ctx, e.Now(), slices.Concat(all, readers)), w.preload(ctx, all, entries)); err != nil {
		return Report{}, err
	}
	for i, reader := range readers {
		own := w.entries(i*pageOf, pageOf)
		if err := errors.Join(w.preload(ctx, []message.UserID{reader}, own), w.store(ctx, reader, own)); err != nil {
			return Report{}, err
		}
	}
	report := Report{Benchmark: "counts", Store: e.Config.Store}
	measure := func(name string, do func(i int) error) error {
		e.Tell("measuring " + name)
		took, before := make(times, o.Requests), w.commands.Load()
		for i := range took {
			began := time.Now() //nolint:forbidigo // what is measured is time
			if err := do(i); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			took[i] = time.Since(began)
		}
		figures := latency("took", took)
		if w.onMongoDB() {
			figures = append(figures, Figure{"commands", float64(w.commands.Load()-before) / float64(o.Requests), ""})
		}
		report.Rows = append(report.Rows, Row{Case: name, Figures: figures})
		return nil
	}
	count := func(want int) func(int) error { return func(int) error { return w.count(ctx, all, want) } }
	pages := w.inboxes()
	page := func(names bool) func(int) error {
		return func(i int) error { return readPage(ctx, pages, readers[i], names) }
	}
	cut := len(entries) / 2
	err = errors.Join(
		measure("a page", page(false)),
		measure("a page with names", page(true)),
		measure("the same page again", page(true)),
		measure(fmt.Sprintf("%d inboxes", o.Users), count(len(entries))),
		w.expire(ctx, all, entries[cut].ID, cut/bucket.Capacity),
		measure(fmt.Sprintf("%d inboxes, half expired", o.Users), count(len(entries)-cut-1)),
	)
	return report, err
}

// store stores the messages of entries, as if their fan-out were done. They name a user.
func (w *world) store(ctx context.Context, named message.UserID, entries []bucket.Entry) error {
	messages, refs := make([]message.Message, len(entries)), make([]message.Ref, len(entries))
	for i, e := range entries {
		messages[i] = message.Message{ID: e.ID, From: e.From, To: []message.UserID{named}, Body: e.Body}
		refs[i] = messages[i].Ref()
	}
	_, err := w.parts.Messages.Insert(ctx, messages, anyTime)
	if err == nil {
		err = w.parts.Messages.Finish(ctx, refs)
	}
	if err != nil {
		return fmt.Errorf("store messages: %w", err)
	}
	return nil
}

// count counts inboxes by one request, and requires that each has so many messages.
func (w *world) count(ctx context.Context, all []message.UserID, want int) error {
	counts, err := w.client.Counts(ctx, all)
	if err != nil {
		return err
	}
	wrong := slices.IndexFunc(counts, func(c client.InboxCount) bool {
		return c.Total != int64(want) || c.Unread != int64(want) || !c.Complete
	})
	if wrong >= 0 {
		return fmt.Errorf("%s has the counts %+v, want %d", all[wrong], counts[wrong], want)
	}
	return nil
}

// expire raises the purge points of users, who have none yet.
func (w *world) expire(ctx context.Context, all []message.UserID, upTo message.ID, oldest int) error {
	states, err := userstate.States(w.parts.Users.Lookup(ctx, all))
	if err != nil {
		return fmt.Errorf("look up users: %w", err)
	}
	steps := make([]userstate.Step, len(states))
	for i, state := range states {
		next := state
		next.Purged, next.Oldest = message.LastBefore(upTo.Time().Add(time.Millisecond)), uint32(oldest) //nolint:gosec // a bucket of the inbox
		steps[i] = userstate.Step{From: state, To: next}
	}
	if _, err := w.parts.Users.Step(ctx, steps); err != nil {
		return fmt.Errorf("raise purge points: %w", err)
	}
	return nil
}

// inboxes returns a service that reads pages in this process.
func (w *world) inboxes() *inbox.Service {
	appender := bucket.NewAppender(w.parts.Inbox, w.parts.Users)
	rehydrator := rehydrate.New(
		rehydrate.Stores{Messages: w.parts.Messages, Users: w.parts.Users, Edges: w.parts.Edges, Appender: appender},
		rehydrate.Options{Rules: userstate.DefaultRules, Token: rand.Text, Now: w.env.Now, Logger: w.env.Logger},
	)
	return inbox.New(
		inbox.Stores{Messages: w.parts.Messages, Buckets: w.parts.Inbox, Users: w.parts.Users, Appender: appender}, rehydrator,
		inbox.Options{Rules: userstate.DefaultRules, Now: w.env.Now},
	)
}

// readPage reads the newest page of an inbox and, if names is set, whom its messages are for.
func readPage(ctx context.Context, pages *inbox.Service, reader message.UserID, names bool) error {
	page, err := pages.Read(ctx, reader, inbox.Request{Limit: pageOf, Peek: true})
	if err != nil || !names {
		return err
	}
	addressed, err := pages.Addressed(ctx, reader, page.Entries)
	if err == nil && slices.ContainsFunc(addressed, func(a inbox.Addressed) bool { return a.Named != 1 }) {
		err = errors.New("a page does not say whom its messages are for")
	}
	return err
}
