package fanout

import (
	"context"
	"fmt"
	"slices"

	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/bucket"
)

// load looks up the owners of a stretch, and returns what is to be appended to whom. What was sent after an owner's horizon is left to
// rehydration: it is counted, for each job, for those owners whom its record does not count yet.
func (b *batch) load(ctx context.Context, s *stretch) (*load, error) {
	l := new(load)
	if len(s.owners) == 0 {
		return l, nil
	}
	// The states are read after the messages were stored: whoever is skipped by them, and comes back later, finds the
	// messages when they look for what they missed.
	states, err := b.deliverer.stores.Users.Lookup(ctx, s.owners)
	if err != nil {
		return nil, fmt.Errorf("look up users: %w", err)
	}
	var skipped [skipReasons]int
	for i, owner := range s.owners {
		var warm []*job
		for _, j := range s.of(i) {
			switch {
			case b.rules.Deliver(states[i], j.message.Sent()):
				warm = append(warm, j)
			case j.recorded.Ahead(owner):
				j.skipped++
				skipped[skipReason(states[i], j.message.Sent())]++
			}
		}
		if len(warm) == 0 {
			continue
		}
		a := bucket.Append{Owner: owner, Hint: states[i].Head}
		if last := len(l.appends) - 1; last >= 0 && slices.Equal(warm, l.jobs[last]) {
			warm, a.Entries = l.jobs[last], l.appends[last].Entries // most owners get just the same
		} else {
			a.Entries = entries(warm)
		}
		l.appends, l.jobs = append(l.appends, a), append(l.jobs, warm)
	}
	for reason, n := range skipped {
		b.lane.skipped[reason].Add(float64(n))
	}
	return l, nil
}

// append appends a load.
func (b *batch) append(ctx context.Context, l *load) (err error) {
	ctx, span := b.deliverer.opts.Tracer.Start(ctx, "append")
	defer func() { span.Done(err) }()
	if span.IsRecording() {
		span.SetAttributes(tracing.Owners.Int(len(l.appends)), tracing.Entries.Int(l.size()))
	}
	if l.results, err = b.deliverer.stores.Appender.AppendLazily(ctx, l.appends); err != nil { // record makes them durable
		return fmt.Errorf("append: %w", err)
	}
	var entries, appended int
	for i, result := range l.results {
		if result.Err == nil {
			entries += len(l.appends[i].Entries)
			appended += result.New
		}
	}
	b.lane.deliveries.Add(float64(appended))
	b.lane.duplicates.Add(float64(entries - appended))
	return nil
}

// count counts what was delivered with a load, for each job to those owners whom its record does not count yet.
func (b *batch) count(ctx context.Context, l *load) error {
	for i, result := range l.results {
		if result.Err != nil {
			if err := b.deliverAlone(ctx, l.appends[i], l.jobs[i], result.Err); err != nil {
				return err
			}
		}
		for _, j := range l.jobs[i] {
			if j.recorded.Ahead(l.appends[i].Owner) {
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
