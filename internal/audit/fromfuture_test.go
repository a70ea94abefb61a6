package audit_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/internal/deadletter"
	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
	"github.com/fanmail/fanmail/test/tamper/damage"
)

// poisoned is a world in which an older release delivered a message from the future to ben, between messages that name him.
type poisoned struct {
	*world
	bus    *rig.Bus
	future message.Message
	others []message.Message
	level  int
	// fail says whether a step of a repair fails before or after it takes effect; nil lets every step pass.
	fail func(step string) (before, after error)
}

// newPoisoned returns an inbox of three full buckets and one with room. The message from the future is in the first, and ben has read
// everything up to it.
func newPoisoned(t *testing.T) *poisoned {
	t.Helper()
	w := newWorld(t)
	p := &poisoned{world: w, bus: rig.NewBus(t, partitions), level: settings.Recorded}
	p.others = w.fill(bucket.Capacity / 2)
	p.future = message.Message{ID: w.id(epoch.Add(20 * time.Minute)), From: "ann", Audience: message.AudienceFollowers, Body: "from the future"}
	_, err := w.db.Messages().Insert(t.Context(), []message.Message{p.future}, messagetest.AnyTime)
	require.NoError(t, err)
	w.damage(func(store damage.Store) error { return store.Unjudge(t.Context(), p.future.Ref(), epoch) })
	w.deliver(p.future)
	require.NoError(t, w.inboxes().MarkRead(t.Context(), "ben", p.future.ID))
	for range 3 * bucket.Capacity {
		p.next()
	}
	return p
}

// next delivers another message.
func (p *poisoned) next() {
	m := p.named(epoch.Add(time.Duration(len(p.others))*time.Millisecond), "ben")
	p.deliver(m)
	p.others = append(p.others, m)
}

// attempt carries out a step of a repair, unless it is to fail before.
func (p *poisoned) attempt(step string, do func() error) error {
	if p.fail == nil {
		return do()
	}
	before, after := p.fail(step)
	if before != nil {
		return before
	}
	return errors.Join(do(), after)
}

// letters returns how many dead letters there are.
func (p *poisoned) letters() int {
	p.t.Helper()
	filed, err := p.bus.DeadLetters(p.t.Context(), 0, 10)
	require.NoError(p.t, err)
	return len(filed)
}

func (p *poisoned) verdict() message.Verdict {
	p.t.Helper()
	m, err := p.db.Messages().Get(p.t.Context(), p.future.Ref())
	require.NoError(p.t, err)
	return m.Verdict
}

// queue, messages and buckets demand the order of the steps, and let them fail.
type queue struct {
	*rig.Bus
	p *poisoned
}

// FileFromFuture implements bus.DeadLetterQueue.
func (q queue) FileFromFuture(ctx context.Context, ref message.Ref, cause string) error {
	return q.p.attempt("file", func() error { return q.Bus.FileFromFuture(ctx, ref, cause) })
}

type messages struct {
	message.Store
	p *poisoned
}

// Condemn implements message.Store.
func (m messages) Condemn(ctx context.Context, ref message.Ref) (stored message.Stored, err error) {
	require.Equal(m.p.t, 1, m.p.letters(), "the verdict comes after the letter")
	return stored, m.p.attempt("condemn", func() error {
		stored, err = m.Store.Condemn(ctx, ref)
		return err
	})
}

type buckets struct {
	bucket.Store
	p *poisoned
}

// Delete implements bucket.Store.
func (b buckets) Delete(ctx context.Context, owner message.UserID, sequence uint32, id message.ID) error {
	require.Equal(b.p.t, b.p.future.ID, id)
	require.Equal(b.p.t, 1, b.p.letters(), "the tombstone comes after the letter")
	require.Equal(b.p.t, message.Void, b.p.verdict(), "the tombstone comes after the verdict")
	return b.p.attempt("delete", func() error { return b.Store.Delete(ctx, owner, sequence, id) })
}

// Lower implements bucket.Store.
func (b buckets) Lower(ctx context.Context, owner message.UserID, as bucket.Outline, floor, last message.ID) (applied bool, err error) {
	return applied, b.p.attempt("lower", func() error {
		applied, err = b.Store.Lower(ctx, owner, as, floor, last)
		return err
	})
}

// service returns an audit whose repairs take these steps.
func (p *poisoned) service() *audit.Service {
	level := func() int { return p.level }
	letters := deadletter.New(deadletter.Parts{Bus: queue{p.bus, p}, Progress: p.db.Progress(), Messages: messages{p.db.Messages(), p}},
		deadletter.Options{Level: level, Logger: zerolog.Nop(), Now: func() time.Time { return p.now }})
	return p.auditMending(buckets{p.db.Inbox(), p}, rules, letters.Condemn, level, p.mend)
}

// mend mends the read mark.
func (p *poisoned) mend(ctx context.Context, user message.UserID, void bucket.Judge) (mended bool, err error) {
	return mended, p.attempt("mend", func() error {
		mended, err = p.inboxes().MendReadMark(ctx, user, void)
		return err
	})
}

// requireHealed requires that nothing is left of the message from the future but one dead letter, and that ben reads all others.
func (p *poisoned) requireHealed() {
	t := p.t
	t.Helper()
	require.Equal(t, 1, p.letters())
	require.Equal(t, message.Void, p.verdict())
	found, summary := run(t.Context(), t, p.service(), audit.Request{User: "ben"})
	require.Empty(t, found)
	require.EqualValues(t, len(p.others), summary.Entries)
	all, err := p.db.Inbox().Range(t.Context(), "ben", 0, 100, 100)
	require.NoError(t, err)
	for _, b := range all {
		require.NotEqual(t, p.future.ID, b.Floor, "floor of bucket %d", b.Sequence)
		require.NotEqual(t, p.future.ID, b.Last, "last of bucket %d", b.Sequence)
	}
	p.requireInbox(p.others)
	newest := p.others[len(p.others)-1].ID
	require.NoError(t, p.inboxes().MarkRead(t.Context(), "ben", newest))
	require.Equal(t, newest, p.state().ReadMark.UpTo, "the read mark moves again")
}

// fromFuture are the findings in a poisoned inbox: the entry, the bounds and the read mark.
var fromFuture = []audit.Kind{audit.FromFuture, audit.FromFuture, audit.FromFuture}

func kindsOf(findings []audit.Finding) (kinds []audit.Kind) {
	for _, f := range findings {
		kinds = append(kinds, f.Kind)
	}
	return kinds
}

func TestFromFuture(t *testing.T) {
	t.Parallel()
	p := newPoisoned(t)
	p.level = settings.Unrecorded
	for _, repair := range []bool{false, true} {
		found, _ := run(t.Context(), t, p.service(), audit.Request{User: "ben", Repair: repair})
		require.Equal(t, fromFuture, kindsOf(found))
		for i, detail := range []string{
			"the message is from the future: it was stored at 2026-01-02T03:04:05.000Z, 20m0s before the time in its id, which was more than clock_tolerance",
			"the bounds of the buckets from 0 up are those of this message, which is from the future",
			"the read mark is up to this message, which is from the future",
		} {
			require.Equal(t, p.future.ID, found[i].Message)
			require.Equal(t, detail, found[i].Detail)
			require.False(t, found[i].Repaired)
			require.Equal(t, "not repaired: the database is of format level 1, and this needs 2: run fanmail admin upgrade", found[i].Note)
		}
		require.Zero(t, p.letters())
		require.Equal(t, message.Undecided, p.verdict())
	}
	p.level = settings.Recorded
	found, summary := run(t.Context(), t, p.service(), audit.Request{User: "ben", Repair: true})
	require.Equal(t, fromFuture, kindsOf(found))
	require.Equal(t, summary.Found, summary.Repaired)
	require.Empty(t, summary.Remaining)
	p.requireHealed()
	run(t.Context(), t, p.service(), audit.Request{User: "ben", Repair: true})
	require.Equal(t, 1, p.letters(), "a second repair files nothing")
}

// TestFromFutureCrash fails each step of a repair, before it takes effect and after, and repairs again.
func TestFromFutureCrash(t *testing.T) {
	t.Parallel()
	crashed := errors.New("crashed")
	for _, step := range []string{"file", "condemn", "delete", "lower", "mend"} {
		for _, before := range []bool{true, false} {
			t.Run(step, func(t *testing.T) {
				t.Parallel()
				p := newPoisoned(t)
				failed := false
				p.fail = func(at string) (error, error) {
					switch {
					case at != step || failed:
						return nil, nil
					case before:
						failed = true
						return crashed, nil
					default:
						failed = true
						return nil, crashed
					}
				}
				_, summary := run(t.Context(), t, p.service(), audit.Request{User: "ben", Repair: true})
				require.True(t, failed)
				if step != "mend" || before { // it is the last step
					require.NotEmpty(t, summary.Remaining)
				}
				p.fail = nil
				_, summary = run(t.Context(), t, p.service(), audit.Request{User: "ben", Repair: true})
				require.Empty(t, summary.Remaining)
				p.requireHealed()
			})
		}
	}
}

// TestFromFutureBesideWriters repairs while messages are delivered.
func TestFromFutureBesideWriters(t *testing.T) {
	t.Parallel()
	p := newPoisoned(t)
	service := p.service()
	var late []message.Message
	for range 2 * bucket.Capacity {
		late = append(late, p.pass(p.named(epoch.Add(time.Duration(len(p.others)+len(late))*time.Millisecond), "ben")))
	}
	var writer sync.WaitGroup
	writer.Go(func() {
		for _, m := range late {
			p.append(m)
		}
	})
	_, err := service.Audit(t.Context(), audit.Request{User: "ben", Repair: true}, func(audit.Event) error { return nil })
	writer.Wait()
	require.NoError(t, err)
	p.others = append(p.others, late...)
	// A writer that had looked before the repair may have raised bounds again, and too many writers may have stopped the repair.
	_, summary := run(t.Context(), t, service, audit.Request{User: "ben", Repair: true})
	require.Empty(t, summary.Remaining)
	p.requireHealed()
}

// counted counts the reads of an inbox.
type counted struct {
	bucket.Store
	buckets int
}

// Range implements bucket.Store.
func (c *counted) Range(ctx context.Context, owner message.UserID, low, high uint32, limit int) ([]bucket.Bucket, error) {
	all, err := c.Store.Range(ctx, owner, low, high, limit)
	c.buckets += len(all)
	return all, err
}

// Newest implements bucket.Store.
func (c *counted) Newest(ctx context.Context, owner message.UserID, low uint32, limit int, from uint32) ([]bucket.Bucket, bucket.Deletions, error) {
	all, deletions, err := c.Store.Newest(ctx, owner, low, limit, from)
	c.buckets += len(all)
	return all, deletions, err
}

// TestFromFutureCost counts the buckets that an append and a first page read, before and after a repair.
func TestFromFutureCost(t *testing.T) {
	t.Parallel()
	p := newPoisoned(t)
	cost := func() int {
		store := &counted{Store: p.db.Inbox()}
		m := p.pass(p.named(epoch.Add(time.Duration(len(p.others))*time.Millisecond), "ben"))
		results, err := bucket.NewAppender(store, p.db.Users()).Append(t.Context(), []bucket.Append{{
			Owner: "ben", Entries: []bucket.Entry{bucket.EntryOf(m)},
		}})
		require.NoError(t, err)
		require.NoError(t, results[0].Err)
		p.others = append(p.others, m)
		return store.buckets
	}
	page := func() int {
		store := &counted{Store: p.db.Inbox()}
		service := inbox.New(inbox.Stores{Buckets: store, Users: p.db.Users(), Appender: p.appender}, p.rehydrator(0),
			inbox.Options{Rules: rules, Now: func() time.Time { return p.now }})
		_, err := service.Read(t.Context(), "ben", inbox.Request{Limit: 20, Peek: true})
		require.NoError(t, err)
		return store.buckets
	}
	require.Equal(t, 3, cost(), "it reads down to the first bucket")
	require.Equal(t, 4, page(), "it reads down to the first bucket")
	_, summary := run(t.Context(), t, p.service(), audit.Request{User: "ben", Repair: true})
	require.Empty(t, summary.Remaining)
	require.Zero(t, cost())
	require.LessOrEqual(t, page(), 2)
	p.requireHealed()
}
