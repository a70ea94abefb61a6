package rehydrate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// attempt is a rehydration being carried out by the holder of a token.
type attempt struct {
	*Service
	token string
	rules userstate.Rules // that held when the attempt began
	state userstate.State
	head  bucket.Hint
	// appended are the latest of the messages that this attempt has appended.
	appended map[message.ID]bool
}

// attempt carries out a flight from wherever the last attempt has left it.
func (s *Service) attempt(ctx context.Context, f *flight) error {
	st, err := s.state(ctx, f.user)
	if err != nil {
		return err
	}
	a := &attempt{Service: s, token: f.token, rules: s.opts.Rules(), state: st, head: st.Head}
	if st.Mark == nil && st.Sweep == nil {
		return nil // somebody else was faster
	}
	if err := a.renew(ctx); err != nil {
		return err
	}
	if a.state.Mark != nil {
		if err := a.rebuild(ctx); err != nil {
			return fmt.Errorf("rebuild the inbox of %s: %w", f.user, err)
		}
	}
	if err := a.sweep(ctx); err != nil {
		return fmt.Errorf("sweep for %s: %w", f.user, err)
	}
	took := s.opts.Now().Sub(f.since)
	s.metrics.duration.Observe(took.Seconds())
	s.metrics.messages.Add(float64(a.state.Recovered))
	s.opts.Logger.Debug().Str("user", string(f.user)).Int64("recovered", a.state.Recovered).
		Dur("took", took).Msg("user is rehydrated")
	trace.SpanFromContext(ctx).SetAttributes(tracing.Recovered.Int64(a.state.Recovered))
	if s.opts.Emit != nil {
		rehydrated := event.NewRehydrated(f.user, a.state.Recovered)
		rehydrated.Trace = tracing.Of(ctx)
		s.opts.Emit(rehydrated)
	}
	return nil
}

// rebuild appends what was missed, and turns the mark into a sweep.
func (a *attempt) rebuild(ctx context.Context) error {
	began := a.opts.Now() // before the first query: what is visible by now, that sees
	// What is there by now may have been sent by a clock that is ahead of this one. It could be left to the sweep; but until that has
	// looked, whoever came back would not be shown what they have missed.
	ahead := began.Add(a.rules.ClockTolerance)
	sweepFrom := began.Add(-a.rules.PublishSlack - a.rules.ClockTolerance)
	// What was sent beyond the horizon is for the next rehydration, whose mark will be there: nobody may append it before.
	// If the horizon is raised meanwhile, the sweep looks for what was sent since this one.
	beyond := a.beyond()
	sweepFrom = earlier(sweepFrom, beyond)
	feed, err := a.Feed(ctx, a.state.User, a.rules)
	if err != nil {
		return err
	}
	missed := bucket.Stretch{
		After:  message.LastBefore(a.state.Mark.From.Add(time.Millisecond)),
		Before: message.MinID(earlier(ahead, beyond)),
	}
	newest, err := feed.Newest(ctx, missed, a.opts.Page)
	if err != nil {
		return err
	}
	all := len(newest) < a.opts.Page
	if !a.state.Mark.Bounded && len(newest) > 0 {
		gap, err := a.gap(ctx, feed, missed, sweepFrom, newest, all)
		if err != nil {
			return err
		}
		if err := a.change(ctx, func(st userstate.State) (userstate.State, bool) { return st.Bound(a.token, gap) }); err != nil {
			return err
		}
	}
	if all { // and none in a gap, or they are read again
		all = !slices.ContainsFunc(newest, func(e bucket.Entry) bool { return a.state.InGap(e.Sent()) })
	}
	recovered := a.leftToGap()
	if all {
		slices.Reverse(newest)
		recovered += int64(len(newest))
		_, err = a.append(ctx, newest, sweepFrom)
	} else {
		err = a.each(ctx, feed, missed, func(entries []bucket.Entry) error {
			recovered += int64(len(entries))
			_, err := a.append(ctx, entries, sweepFrom)
			return err
		})
	}
	if err != nil {
		return err
	}
	return a.change(ctx, func(st userstate.State) (userstate.State, bool) { return st.Settle(a.token, sweepFrom, recovered) })
}

// gap decides what is left to a gap: nothing, if the limit is not exceeded. What may still become visible is not. newest
// are the newest messages of the stretch, and all of them if that is said.
func (a *attempt) gap(
	ctx context.Context, feed *Feed, missed bucket.Stretch, settled time.Time, newest []bucket.Entry, all bool,
) (*userstate.Gap, error) {
	if a.opts.Limit == 0 || all && len(newest) <= a.opts.Limit {
		return nil, nil
	}
	seen := 0
	for seen+len(newest) < a.opts.Limit {
		seen += len(newest)
		if len(newest) < a.opts.Page {
			return nil, nil
		}
		var err error
		missed.Before = newest[len(newest)-1].ID
		if newest, err = feed.Newest(ctx, missed, a.opts.Page); err != nil {
			return nil, err
		}
	}
	gap := userstate.Gap{After: a.state.Mark.From, Before: newest[a.opts.Limit-seen-1].Sent()}
	if settled = settled.UTC().Truncate(time.Millisecond); settled.Before(gap.Before) {
		gap.Before = settled
	}
	stretch := gap.Stretch()
	if stretch.Empty() {
		return nil, nil
	}
	var err error
	if gap.Messages, err = feed.Count(ctx, stretch); err != nil || gap.Messages == 0 {
		return nil, err
	}
	return &gap, nil
}

// leftToGap counts the messages sent since the mark that were left to gaps.
func (a *attempt) leftToGap() (messages int64) {
	for _, gap := range a.state.Gaps {
		if !gap.After.Before(a.state.Mark.From) {
			messages += gap.Messages
		}
	}
	return messages
}

// sweep looks once more for what the rebuilding did not see and fan-out left to it, and ends the rehydration.
func (a *attempt) sweep(ctx context.Context) error {
	feed, err := a.Feed(ctx, a.state.User, a.rules) // whom they follow may have become visible meanwhile, too
	if err != nil {
		return err
	}
	// Everything that was left was visible before the mark was removed. It may have been sent by a clock that is ahead.
	end := earlier(a.opts.Now().Add(a.rules.PublishSlack+a.rules.ClockTolerance), a.beyond())
	stretch := bucket.Stretch{After: message.LastBefore(a.state.Sweep.From), Before: message.MinID(end)}
	recovered := int64(0)
	if err := a.each(ctx, feed, stretch, func(entries []bucket.Entry) error {
		entries = slices.DeleteFunc(entries, func(e bucket.Entry) bool { return a.appended[e.ID] })
		appended, err := a.append(ctx, entries, end)
		recovered += int64(appended)
		return err
	}); err != nil {
		return err
	}
	return a.change(ctx, func(st userstate.State) (userstate.State, bool) { return st.Finish(a.token, recovered) })
}

// beyond returns the first moment after the horizon, as the attempt knows it: it may be later by now, never earlier.
func (a *attempt) beyond() time.Time { return a.rules.Horizon(a.state).Add(time.Millisecond) }

func earlier(x, y time.Time) time.Time {
	if y.Before(x) {
		return y
	}
	return x
}

// each hands the messages of a stretch to do, a page at a time, the oldest first, but for those in gaps.
func (a *attempt) each(ctx context.Context, feed *Feed, s bucket.Stretch, do func([]bucket.Entry) error) error {
	for _, part := range outside(s, a.state.Gaps) {
		for {
			entries, err := feed.Oldest(ctx, part, a.opts.Page)
			if err != nil {
				return err
			}
			if len(entries) == 0 {
				break
			}
			part.After = entries[len(entries)-1].ID
			full := len(entries) == a.opts.Page
			if err := do(entries); err != nil {
				return err
			}
			if !full {
				break
			}
			if err := a.renew(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// outside returns the parts of a stretch that are in none of the gaps, in order.
func outside(s bucket.Stretch, gaps []userstate.Gap) []bucket.Stretch {
	var parts []bucket.Stretch
	for _, gap := range gaps {
		g := gap.Stretch()
		if g.Within(s).Empty() {
			continue
		}
		if part := (bucket.Stretch{After: s.After, Before: message.MinID(gap.After.Add(time.Millisecond))}); !part.Empty() {
			parts = append(parts, part)
		}
		s.After = message.LastBefore(gap.Before)
	}
	if !s.Empty() {
		parts = append(parts, s)
	}
	return parts
}

// append appends entries to the inbox, and returns how many were not in it. It remembers those sent from a time on.
func (a *attempt) append(ctx context.Context, entries []bucket.Entry, remember time.Time) (int, error) {
	if len(entries) == 0 {
		return 0, nil
	}
	for i := range entries {
		entries[i].Recovered = true
	}
	// What a crash undoes is done again, since it undoes what is written of it later, too.
	result, err := a.push(ctx, entries)
	if err != nil {
		return 0, err
	}
	a.head = result.Head
	for _, e := range entries {
		if !e.Sent().Before(remember) && len(a.appended) < a.opts.Page {
			if a.appended == nil {
				a.appended = make(map[message.ID]bool)
			}
			a.appended[e.ID] = true
		}
	}
	return result.New, nil
}

// push appends entries to the inbox.
func (a *attempt) push(ctx context.Context, entries []bucket.Entry) (_ bucket.Appended, err error) {
	ctx, span := a.opts.Tracer.Start(ctx, "append")
	defer func() { span.Done(err) }()
	if span.IsRecording() {
		ids := make([]string, min(len(entries), tracing.ListMax))
		for i := range ids {
			ids[i] = entries[i].ID.String()
		}
		span.SetAttributes(tracing.Owners.Int(1), tracing.Entries.Int(len(entries)), tracing.MessageIDs.StringSlice(ids))
	}
	results, err := a.stores.Appender.AppendLazily(ctx, []bucket.Append{{Owner: a.state.User, Hint: a.head, Entries: entries}})
	if err != nil {
		return bucket.Appended{}, err
	}
	return results[0], results[0].Err
}

// renew renews the lease if a part of it is over.
func (a *attempt) renew(ctx context.Context) error {
	now := a.opts.Now()
	if a.state.Lease.Token == a.token && a.state.Lease.Until.Sub(now) > a.opts.Lease*2/3 {
		return nil
	}
	return a.change(ctx, func(st userstate.State) (userstate.State, bool) { return st.Renew(a.token, now.Add(a.opts.Lease)) })
}

// change changes the state on the attempt's own token. It returns ErrLost if that has been replaced.
func (a *attempt) change(ctx context.Context, to func(userstate.State) (userstate.State, bool)) error {
	var err error
	a.state, err = a.step(ctx, a.state, lazy, func(st userstate.State) (userstate.State, error) {
		next, ok := to(st)
		if !ok {
			return st, ErrLost
		}
		return next, nil
	})
	return err
}
