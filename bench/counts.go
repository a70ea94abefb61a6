package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fanmail/fanmail/internal/bench"
	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// CountsOptions configure env.Counts.
type CountsOptions struct {
	// Users is the number of inboxes that a request counts, at most client.MaxCountedUsers.
	Users int
	// Messages is the number of messages in each inbox.
	Messages int
	// Requests is the number of requests of each kind.
	Requests int
	// Dormant is the number of dormant users whose inboxes are counted, in a world of its own; 0 for none.
	Dormant int
	// Flagged is the number of buckets of each inbox in which a message is marked as read by itself; 0 for none.
	Flagged int
}

// pageOf is the number of messages of a page that is measured.
const pageOf = 50

// Counts measures requests that count many inboxes: as they are filled, and when half of the messages have expired. It also measures a page of
// 50 without and with whom its messages are for, of a new reader each time, and the same again. These are read in the process, without HTTP.
func (e env) Counts(ctx context.Context, o CountsOptions) (_ Report, err error) {
	w, err := e.open(ctx)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, w.Close(ctx)) }()
	e.Tell(fmt.Sprintf("filling %d inboxes", o.Users))
	all, entries := bench.Users("user", 0, o.Users), w.Entries(0, o.Messages)
	readers := bench.Users("reader", 0, o.Requests)
	if err := errors.Join(w.See(ctx, e.Now(), slices.Concat(all, readers)), w.Preload(ctx, all, entries)); err != nil {
		return Report{}, err
	}
	for i, reader := range readers {
		own := w.Entries(i*pageOf, pageOf)
		if err := errors.Join(w.Preload(ctx, []message.UserID{reader}, own), w.store(ctx, reader, own)); err != nil {
			return Report{}, err
		}
	}
	report := Report{Benchmark: "counts", Store: e.Config.Store}
	if o.Dormant > 0 {
		row, err := e.badges(ctx, o.Dormant)
		if err != nil {
			return Report{}, fmt.Errorf("counting %d dormant users: %w", o.Dormant, err)
		}
		report.Rows = append(report.Rows, row)
	}
	measure := func(name string, do func(i int) error) error {
		e.Tell("measuring " + name)
		took, before := make(bench.Times, o.Requests), w.Commands.Load()
		for i := range took {
			began := time.Now() //nolint:forbidigo // what is measured is time
			if err := do(i); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			took[i] = time.Since(began)
		}
		figures := bench.Latency("took", took)
		if w.Env.OnMongoDB() {
			figures = append(figures, figure("commands", float64(w.Commands.Load()-before)/float64(o.Requests), ""))
		}
		report.Rows = append(report.Rows, Row{Case: name, Figures: figures})
		return nil
	}
	count := func(want, read int) func(int) error {
		return func(int) error { return w.count(ctx, all, want, read, true) }
	}
	pages := w.inboxes()
	page := func(i int) error {
		_, err := pages.Read(ctx, readers[i], inbox.Request{Limit: pageOf, Peek: true})
		return err
	}
	of := func(i int) error {
		_, err := pages.Read(ctx, all[i%len(all)], inbox.Request{Limit: pageOf, Peek: true})
		return err
	}
	err = errors.Join(
		measure("a page", page),
		measure("the same page again", page),
		measure("a page of the inboxes to count", of),
		measure(fmt.Sprintf("%d inboxes", o.Users), count(len(entries), 0)),
	)
	if o.Flagged > 0 && err == nil {
		e.Tell(fmt.Sprintf("marking a message in each of %d buckets", o.Flagged))
		err = errors.Join(
			w.flag(ctx, all, entries, o.Flagged),
			measure(fmt.Sprintf("a page, %d flagged buckets", o.Flagged), of),
			measure(fmt.Sprintf("%d inboxes, %d flagged buckets", o.Users, o.Flagged), count(len(entries), o.Flagged)),
		)
		return report, err
	}
	cut := len(entries) / 2
	err = errors.Join(err,
		w.expire(ctx, all, entries[cut].ID, cut/bucket.Capacity),
		measure(fmt.Sprintf("%d inboxes, half expired", o.Users), count(len(entries)-cut-1, 0)),
	)
	return report, err
}

// flag marks the first message of each of the newest buckets as read.
func (w *world) flag(ctx context.Context, all []message.UserID, entries []bucket.Entry, buckets int) error {
	var ids []message.ID
	for n := (len(entries) - 1) / bucket.Capacity; n >= 0 && len(ids) < buckets; n-- {
		ids = append(ids, entries[n*bucket.Capacity].ID)
	}
	if len(ids) < buckets {
		return fmt.Errorf("%d messages fill fewer than %d buckets", len(entries), buckets)
	}
	read := true
	for _, user := range all {
		for some := range slices.Chunk(ids, client.MaxMarks) {
			if _, err := w.Client.Mark(ctx, user, client.MessageMarks{IDs: some, Read: &read}); err != nil {
				return fmt.Errorf("mark messages of %s: %w", user, err)
			}
		}
	}
	return nil
}

// badges counts the inboxes of dormant users, each with one message, by requests for 1,000 users, one after the other. Then it requires that none
// of them became active: their records are as they were, and a message to all of them skips all.
func (e env) badges(ctx context.Context, dormant int) (_ Row, err error) {
	w, err := e.open(ctx)
	if err != nil {
		return Row{}, err
	}
	defer func() { err = errors.Join(err, w.Close(ctx)) }()
	const author = "celebrity"
	all, entries := bench.Users("user", 0, dormant), w.Entries(0, 1)
	seen := e.Now().Add(-2 * w.Config.DormantAfter).UTC().Truncate(time.Millisecond)
	e.Tell(fmt.Sprintf("making %d dormant users", dormant))
	err = errors.Join(w.See(ctx, seen, all), w.Follow(ctx, message.UserID(author).Source(), all), w.Preload(ctx, all, entries), bench.Settle(ctx))
	if err != nil {
		return Row{}, err
	}
	e.Tell(fmt.Sprintf("counting the inboxes of %d dormant users", dormant))
	var took bench.Times
	began, commands := time.Now(), w.Commands.Load() //nolint:forbidigo // what is measured is time
	for some := range slices.Chunk(all, client.MaxCountedUsers) {
		asked := time.Now() //nolint:forbidigo // as above
		if err := w.count(ctx, some, len(entries), 0, false); err != nil {
			return Row{}, err
		}
		took = append(took, time.Since(asked))
	}
	rate := float64(dormant) / time.Since(began).Seconds()
	commands = w.Commands.Load() - commands

	e.Tell("looking whether one of them became active")
	for some := range slices.Chunk(all, bench.Together) {
		states, err := userstate.States(w.Parts.Users.Lookup(ctx, some))
		if err != nil {
			return Row{}, fmt.Errorf("look up users: %w", err)
		}
		for i, state := range states {
			if was := (userstate.State{User: some[i], LastViewed: seen, Horizon: seen.Add(w.Config.DormantAfter)}); !state.Same(was) {
				return Row{}, fmt.Errorf("the record of a user who was counted changed: %+v", state)
			}
		}
	}
	ids, err := w.Publish(ctx, w.ToFollowers(author))
	if err != nil {
		return Row{}, err
	}
	total, err := w.Await(ctx, ids)
	if err != nil {
		return Row{}, err
	}
	if total.Delivered != 0 || total.Skipped != int64(dormant) {
		return Row{}, fmt.Errorf("a message after the counts was delivered to %d and skipped %d, want 0 and %d", total.Delivered, total.Skipped, dormant)
	}
	row := Row{Case: fmt.Sprintf("%d dormant users", dormant), Figures: append([]Figure{figure("counted", rate, "/s")}, bench.Latency("request", took)...)}
	row.Figures = append(row.Figures, figure("skipped by the next message", float64(total.Skipped), ""))
	if w.Env.OnMongoDB() {
		row.Figures = append(row.Figures, figure("commands", float64(commands)/float64(len(took)), ""))
	}
	return row, nil
}

// store stores the messages of entries, as if their fan-out were done. They name a user.
func (w *world) store(ctx context.Context, named message.UserID, entries []bucket.Entry) error {
	messages, endings := make([]message.Message, len(entries)), make([]message.Ending, len(entries))
	for i, e := range entries {
		messages[i] = message.Message{ID: e.ID, From: e.From, To: []message.UserID{named}, Body: e.Body}
		endings[i].Ref = messages[i].Ref()
	}
	_, err := w.Parts.Messages.Insert(ctx, messages, bench.AnyTime)
	if err == nil {
		err = w.Parts.Messages.Conclude(ctx, endings)
	}
	if err != nil {
		return fmt.Errorf("store messages: %w", err)
	}
	return nil
}

// count counts inboxes by one request, and requires that each has so many messages, so many of them read, and whether it is complete.
func (w *world) count(ctx context.Context, all []message.UserID, want, read int, complete bool) error {
	counts, err := w.Client.Counts(ctx, all)
	if err != nil {
		return err
	}
	wrong := slices.IndexFunc(counts, func(c client.InboxCount) bool {
		return c.Total != int64(want) || c.Unread != int64(want-read) || c.Complete != complete
	})
	if wrong >= 0 {
		return fmt.Errorf("%s has the counts %+v, want %d", all[wrong], counts[wrong], want)
	}
	return nil
}

// expire raises the purge points of users, who have none yet.
func (w *world) expire(ctx context.Context, all []message.UserID, upTo message.ID, oldest int) error {
	states, err := userstate.States(w.Parts.Users.Lookup(ctx, all))
	if err != nil {
		return fmt.Errorf("look up users: %w", err)
	}
	steps := make([]userstate.Step, len(states))
	for i, state := range states {
		next := state
		next.Purged, next.Oldest = message.LastBefore(upTo.Time().Add(time.Millisecond)), uint32(oldest) //nolint:gosec // a bucket of the inbox
		steps[i] = userstate.Step{From: state, To: next}
	}
	if _, err := w.Parts.Users.Step(ctx, steps); err != nil {
		return fmt.Errorf("raise purge points: %w", err)
	}
	return nil
}

// inboxes returns a service that reads pages in this process.
func (w *world) inboxes() *inbox.Service {
	appender := bucket.NewAppender(w.Parts.Inbox, w.Parts.Users)
	rehydrator := rehydrate.New(
		rehydrate.Stores{Messages: w.Parts.Messages, Users: w.Parts.Users, Edges: w.Parts.Edges, Appender: appender},
		rehydrate.Options{Rules: userstate.DefaultRules, Token: rand.Text, Now: w.Env.Now, Logger: w.Env.Logger},
	)
	return inbox.New(
		inbox.Stores{Buckets: w.Parts.Inbox, Users: w.Parts.Users, Appender: appender, Flags: w.Parts.Flags}, rehydrator,
		inbox.Options{Rules: userstate.DefaultRules, Now: w.Env.Now},
	)
}
