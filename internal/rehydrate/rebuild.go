package rehydrate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/fanmail/fanmail/internal/tally"
	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// attempt is one attempt at a rehydration by the worker that holds the token.
type attempt struct {
	*Service
	token  string
	rules  userstate.Rules // that held when the attempt began
	state  userstate.State
	head   bucket.Hint
	gapped bool // this attempt has made a gap
	// appended holds messages that this attempt has appended, at most a page. The sweep skips them.
	appended map[message.ID]bool
}

// attempt continues a rehydration where the last attempt left it. It returns ErrLost if another worker has taken it over.
func (s *Service) attempt(ctx context.Context, j *job) error {
	if s.opts.Reserve != nil {
		release, err := s.opts.Reserve(ctx, int64(s.opts.Page)*bucket.MaxEntryBytes)
		if err != nil {
			return fmt.Errorf("wait for memory: %w", err)
		}
		defer release()
	}
	st, err := s.state(ctx, j.user)
	if err != nil {
		return err
	}
	a := &attempt{Service: s, token: j.token, rules: s.opts.Rules(), state: st, head: st.Head}
	if st.Mark == nil && st.Sweep == nil {
		return nil // another worker has finished it
	}
	if err := a.renew(ctx); err != nil {
		return err
	}
	if a.state.Mark != nil {
		if err := a.rebuild(ctx); err != nil {
			return fmt.Errorf("rebuild the inbox of %s: %w", j.user, err)
		}
		s.opts.Tally.Add(tally.Counters{RebuiltUsers: 1})
	}
	if err := a.sweep(ctx); err != nil {
		return fmt.Errorf("sweep for %s: %w", j.user, err)
	}
	if a.gapped && s.opts.Gapped != nil {
		s.opts.Gapped(j.user)
	}
	took := s.opts.Now().Sub(j.since)
	s.metrics.duration.Observe(took.Seconds())
	s.metrics.messages.Add(float64(a.state.Recovered))
	s.opts.Tally.Add(tally.Counters{RebuiltMessages: a.state.Recovered})
	s.opts.Logger.Debug().Str("user", string(j.user)).Int64("recovered", a.state.Recovered).
		Stringer("took", took.Round(time.Millisecond)).Msg("user is rehydrated")
	trace.SpanFromContext(ctx).SetAttributes(tracing.Recovered.Int64(a.state.Recovered))
	if s.opts.Emit != nil {
		rehydrated := event.NewRehydrated(j.user, a.state.Recovered)
		rehydrated.Trace = tracing.Of(ctx)
		s.opts.Emit(rehydrated)
	}
	return nil
}

// rebuild decides the gap, appends the missed messages, and replaces the mark by a sweep.
func (a *attempt) rebuild(ctx context.Context) error {
	feed, err := a.feed(ctx)
	if err != nil {
		return err
	}
	if err := a.expire(ctx, feed); err != nil {
		return err
	}
	missed, newest, err := a.bound(ctx, feed)
	if err != nil {
		return err
	}
	all := len(newest) < a.opts.Page
	if all { // if some are in a gap, they are read again without those
		all = !slices.ContainsFunc(newest, func(e bucket.Entry) bool { return a.state.InGap(e.Sent()) })
	}
	recovered := a.leftToGap()
	if all {
		slices.Reverse(newest)
		recovered += int64(len(newest))
		_, err = a.append(ctx, newest)
	} else {
		err = a.each(ctx, feed, missed, func(entries []bucket.Entry) error {
			recovered += int64(len(entries))
			_, err := a.append(ctx, entries)
			return err
		})
	}
	if err != nil {
		return err
	}
	return a.change(ctx, func(st userstate.State) (userstate.State, bool) { return st.Settle(a.token, recovered) })
}

// expire raises the purge point above what has expired of the missed messages. So the query finds the same as if the user had never left. What
// has expired of the inbox besides is left to the walk over all users.
//
// A first look reads the record of the walk here, after the login has written the user's record. So either the round under way comes to the
// record, or its target is known here.
func (a *attempt) expire(ctx context.Context, feed *Feed) error {
	from := a.state.Mark.From
	to, err := a.opts.Expired(ctx, a.state.Keep.Within(a.opts.Retention()), from.IsZero())
	if err != nil {
		return err
	}
	for a.state.Purged.Less(to) && from.Before(to.Time()) {
		cuts, err := feed.Cuts(ctx, a.state, to)
		if err != nil {
			return err
		}
		purge := userstate.Purge{Of: a.state, To: to, Cuts: cuts}
		if err := a.change(ctx, func(st userstate.State) (userstate.State, bool) {
			next, _ := st.Purge(purge) // if the gaps or the read mark have changed, they are counted again
			return next, true
		}); err != nil {
			return err
		}
	}
	return nil
}

// bound decides the gap, unless it is decided. It returns the stretch of the missed messages, and the newest ones of them, at most a page.
//
// The horizon alone ends the query, so a clock that is wrong hides no message. Messages sent after the horizon belong to the next
// rehydration: its mark begins at the horizon, and no worker may append them before.
func (a *attempt) bound(ctx context.Context, feed *Feed) (missed bucket.Stretch, newest []bucket.Entry, err error) {
	for { // once, unless the purge point rises into the gap meanwhile
		missed = bucket.Stretch{After: message.LastBefore(a.state.Mark.From.Add(time.Millisecond)), Before: a.afterHorizon()}
		missed = missed.Within(a.unexpired())
		newest, err = feed.Newest(ctx, missed, a.opts.Page)
		if err != nil || a.state.Mark.Bounded || len(newest) == 0 {
			return missed, newest, err
		}
		gap, err := a.gap(ctx, feed, missed, newest, len(newest) < a.opts.Page)
		if err != nil {
			return missed, nil, err
		}
		if err := a.change(ctx, func(st userstate.State) (userstate.State, bool) { return st.Bound(a.token, gap) }); err != nil {
			return missed, nil, err
		}
		if a.state.Mark.Bounded {
			a.gapped = gap != nil
			return missed, newest, nil
		}
	}
}

// unexpired returns the ids above the purge point that the attempt knows.
func (a *attempt) unexpired() bucket.Stretch {
	return bucket.Stretch{After: a.state.Purged, Before: message.MaxID}
}

// gap returns the gap of a rehydration. It returns nil if at most limit messages were missed, or the user has MaxGaps gaps. The sweep
// counts the gap again, because more messages may become visible in it. newest are the newest messages of the stretch; all says that there
// are no others.
func (a *attempt) gap(ctx context.Context, feed *Feed, missed bucket.Stretch, newest []bucket.Entry, all bool) (*userstate.Gap, error) {
	limit := a.limit()
	if limit == 0 || all && len(newest) <= limit {
		return nil, nil
	}
	if len(a.state.Gaps) >= userstate.MaxGaps {
		a.opts.Logger.Warn().Str("user", string(a.state.User)).Int("gaps", len(a.state.Gaps)).
			Msg("user has as many gaps as are allowed: copying all missed messages")
		return nil, nil
	}
	seen := 0
	for seen+len(newest) < limit {
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
	gap := userstate.Gap{After: a.state.Mark.From, Before: newest[limit-seen-1].Sent()}.Above(a.state.Purged)
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

// limit returns how many missed messages are copied: no more than the inbox keeps. 0 means all.
func (a *attempt) limit() int {
	limit, newest := a.opts.Limit, a.state.Keep.Within(a.opts.Retention()).Newest
	if newest > 0 && (limit == 0 || newest < int64(limit)) {
		limit = int(min(newest, math.MaxInt32))
	}
	return limit
}

// leftToGap counts the messages in gaps that were sent since the mark.
func (a *attempt) leftToGap() (messages int64) {
	for _, gap := range a.state.Gaps {
		if !gap.After.Before(a.state.Mark.From) {
			messages += gap.Messages
		}
	}
	return messages
}

// sweep appends the messages that the rebuild could not see and that fan-out skipped because of the mark. It counts all gaps again,
// because fan-out leaves messages to them, too. Then it ends the rehydration.
func (a *attempt) sweep(ctx context.Context) error {
	feed, err := a.feed(ctx) // new, because edges may have become visible meanwhile
	if err != nil {
		return err
	}
	// All skipped messages were visible before the mark was removed. Their times may be those of any clock.
	// The begin is included: what was appended in that very millisecond is found again and not doubled.
	stretch := bucket.Stretch{After: message.LastBefore(a.state.Sweep.From), Before: a.afterHorizon()}
	recovered := int64(0)
	if err := a.each(ctx, feed, stretch, func(entries []bucket.Entry) error {
		entries = slices.DeleteFunc(entries, func(e bucket.Entry) bool { return a.appended[e.ID] })
		appended, err := a.append(ctx, entries)
		recovered += int64(appended)
		return err
	}); err != nil {
		return err
	}
	for ; a.state.Sweep != nil; recovered = 0 { // once, unless the read mark was moved meanwhile
		counted, err := a.countGaps(ctx, feed)
		if err != nil {
			return err
		}
		if err := a.change(ctx, func(st userstate.State) (userstate.State, bool) { return st.Finish(a.token, recovered, counted) }); err != nil {
			return err
		}
	}
	return nil
}

// countGaps counts all gaps by the read mark that the attempt knows.
func (a *attempt) countGaps(ctx context.Context, feed *Feed) ([]userstate.GapCount, error) {
	mark := a.state.ReadMark
	var counted []userstate.GapCount
	for _, gap := range a.state.Gaps {
		c, err := feed.CountGap(ctx, gap, mark)
		if err != nil {
			return nil, err
		}
		if err := a.renew(ctx); err != nil {
			return nil, err
		}
		counted = append(counted, c)
	}
	return counted, nil
}

// afterHorizon returns the first id after the horizon that the attempt knows. The real horizon may be later by now, never earlier.
func (a *attempt) afterHorizon() message.ID {
	return message.MinID(a.state.Horizon.Add(time.Millisecond))
}

// each calls do for each page of the messages in a stretch that are in no gap, oldest first. It renews the lease between pages.
//
// It ends at the newest message that is visible after its first page, because authors may publish faster than it reads. Later messages
// are left to the sweep, or fan-out delivers them.
func (a *attempt) each(ctx context.Context, feed *Feed, s bucket.Stretch, do func([]bucket.Entry) error) error {
	for _, part := range outside(s.Within(a.unexpired()), a.state.Gaps) {
		for first := true; ; first = false {
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
			if first {
				newest, err := feed.Newest(ctx, part, 1)
				if err != nil {
					return err
				}
				if len(newest) == 0 {
					break
				}
				part.Before = newest[0].ID.Next()
			}
		}
	}
	return nil
}

// outside returns the parts of a stretch outside the gaps, in order.
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

// append appends entries to the inbox, and returns how many of them are new there. It remembers as many as a page. It changes the
// entries.
func (a *attempt) append(ctx context.Context, entries []bucket.Entry) (int, error) {
	if len(entries) == 0 {
		return 0, nil
	}
	for i := range entries {
		entries[i].Recovered = true
	}
	// No sync is needed, because the store keeps writes in order. A crash that loses these entries also loses the later change of the
	// state. Then a worker repeats the step.
	result, err := a.push(ctx, entries)
	if err != nil {
		return 0, err
	}
	a.head = result.Head
	for _, e := range entries {
		if len(a.appended) == a.opts.Page {
			break
		}
		if a.appended == nil {
			a.appended = make(map[message.ID]bool)
		}
		a.appended[e.ID] = true
	}
	return result.New, nil
}

// push appends entries to the inbox within a span.
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

// renew renews the lease if a third of it has passed.
func (a *attempt) renew(ctx context.Context) error {
	now := a.opts.Now()
	if a.state.Lease.Token == a.token && a.state.Lease.Until.Sub(now) > a.opts.Lease*2/3 {
		return nil
	}
	return a.change(ctx, func(st userstate.State) (userstate.State, bool) { return st.Renew(a.token, now.Add(a.opts.Lease)) })
}

// change changes the user's state under the attempt's token. It returns ErrLost if another worker's token has replaced it.
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
