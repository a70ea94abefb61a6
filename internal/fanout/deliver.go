package fanout

import (
	"context"
	"fmt"
	"slices"

	"github.com/fanmail/fanmail/pkg/bucket"
)

// deliver appends to every owner of a stretch what its jobs have for them, and leaves to rehydration what was sent
// after an owner's horizon. It counts, for each job, those recipients whom its record does not count yet.
func (b *batch) deliver(ctx context.Context, s *stretch) error {
	if len(s.owners) == 0 {
		return nil
	}
	// The states are read after the messages were stored: whoever is skipped by them, and comes back later, finds the
	// messages when they look for what they missed.
	states, err := b.deliverer.stores.Users.Lookup(ctx, b.partition, s.owners)
	if err != nil {
		return fmt.Errorf("look up users: %w", err)
	}
	appends := make([]bucket.Append, 0, len(s.owners))
	delivering := make([][]*job, 0, len(s.owners)) // for each of appends
	for i, owner := range s.owners {
		var warm []*job
		for _, j := range s.of(i) {
			switch {
			case b.deliverer.opts.Policy.Deliver(states[i], j.message.Sent()):
				warm = append(warm, j)
			case j.recorded.Ahead(owner):
				j.skipped++
			}
		}
		if len(warm) == 0 {
			continue
		}
		a := bucket.Append{Owner: owner, Hint: states[i].Head}
		if last := len(appends) - 1; last >= 0 && slices.Equal(warm, delivering[last]) {
			warm, a.Entries = delivering[last], appends[last].Entries // most owners get just the same
		} else {
			a.Entries = entries(warm)
		}
		appends, delivering = append(appends, a), append(delivering, warm)
	}
	results, err := b.deliverer.stores.Appender.AppendLazily(ctx, appends) // record makes them durable
	if err != nil {
		return fmt.Errorf("append: %w", err)
	}
	for i, result := range results {
		if result.Err != nil {
			if err := b.deliverAlone(ctx, appends[i], delivering[i], result.Err); err != nil {
				return err
			}
		}
		for _, j := range delivering[i] {
			if j.recorded.Ahead(appends[i].Owner) {
				j.delivered++
			}
		}
	}
	return nil
}

// deliverAlone appends one entry after the other to an inbox that they could not be appended to together, to find out
// which of the jobs are dead.
func (b *batch) deliverAlone(ctx context.Context, together bucket.Append, jobs []*job, cause error) error {
	if Classify(cause) != DeadLetter {
		return cause
	}
	for _, j := range jobs {
		alone := together
		alone.Entries = []bucket.Entry{j.entry}
		results, err := b.deliverer.stores.Appender.AppendLazily(ctx, []bucket.Append{alone})
		switch {
		case err != nil:
			return fmt.Errorf("append: %w", err)
		case Classify(results[0].Err) == DeadLetter:
			j.dead = fmt.Errorf("inbox of %s: %w", together.Owner, results[0].Err)
		case results[0].Err != nil:
			return results[0].Err
		}
	}
	return nil
}

func entries(jobs []*job) []bucket.Entry {
	entries := make([]bucket.Entry, len(jobs))
	for i, j := range jobs {
		entries[i] = j.entry
	}
	return entries
}
