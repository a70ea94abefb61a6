package storemetrics

import (
	"context"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// Inbox returns a store that measures each call and passes it to the given store.
func (m *Metrics) Inbox(store bucket.Store) bucket.Store {
	return &inbox{
		Store:       store,
		appends:     &m.appends,
		push:        m.operation("inbox.push"),
		persist:     m.operation("inbox.persist"),
		heads:       m.operation("inbox.heads"),
		ranges:      m.operation("inbox.range"),
		rangesOnly:  m.operation("inbox.range_only"),
		newest:      m.operation("inbox.newest"),
		floor:       m.operation("inbox.floor"),
		overlapping: m.operation("inbox.overlapping"),
		delete:      m.operation("inbox.delete"),
		blank:       m.operation("inbox.blank"),
		lower:       m.operation("inbox.lower"),
		empty:       m.operation("inbox.empty"),
		deletions:   m.operation("inbox.deletions"),
		outlines:    m.operation("inbox.outlines"),
		deletionsOf: m.operation("inbox.deletions_of"),
	}
}

type inbox struct {
	bucket.Store
	appends *appends

	push, persist, heads, ranges, rangesOnly, newest, floor, overlapping, delete, blank, lower, empty, deletions, outlines, deletionsOf operation
}

func (s *inbox) Push(ctx context.Context, pushes []bucket.Push) (outcomes []bucket.Outcome, err error) {
	defer s.push.done(ctx, s.push.now(), &err)
	if outcomes, err = s.Store.Push(ctx, pushes); err == nil {
		s.appends.count(pushes, outcomes)
	}
	return outcomes, err
}

func (s *inbox) Persist(ctx context.Context) (err error) {
	defer s.persist.done(ctx, s.persist.now(), &err)
	return s.Store.Persist(ctx)
}

func (s *inbox) Heads(ctx context.Context, refs []bucket.Ref) (heads []bucket.Outline, err error) {
	defer s.heads.done(ctx, s.heads.now(), &err)
	return s.Store.Heads(ctx, refs)
}

func (s *inbox) Range(ctx context.Context, owner message.UserID, low, high uint32, limit int) (buckets []bucket.Bucket, err error) {
	defer s.ranges.done(ctx, s.ranges.now(), &err)
	return s.Store.Range(ctx, owner, low, high, limit)
}

func (s *inbox) RangeOnly(
	ctx context.Context, owner message.UserID, low, high uint32, limit int, field bucket.Field,
) (buckets []bucket.Bucket, err error) {
	defer s.rangesOnly.done(ctx, s.rangesOnly.now(), &err)
	return s.Store.RangeOnly(ctx, owner, low, high, limit, field)
}

func (s *inbox) Newest(
	ctx context.Context, owner message.UserID, low uint32, limit int, from uint32,
) (buckets []bucket.Bucket, deletions bucket.Deletions, err error) {
	defer s.newest.done(ctx, s.newest.now(), &err)
	return s.Store.Newest(ctx, owner, low, limit, from)
}

func (s *inbox) Floor(ctx context.Context, owner message.UserID, sequence uint32) (floor message.ID, exists bool, err error) {
	defer s.floor.done(ctx, s.floor.now(), &err)
	return s.Store.Floor(ctx, owner, sequence)
}

func (s *inbox) Overlapping(ctx context.Context, owner message.UserID, above uint32, id message.ID) (buckets []bucket.Bucket, err error) {
	defer s.overlapping.done(ctx, s.overlapping.now(), &err)
	return s.Store.Overlapping(ctx, owner, above, id)
}

func (s *inbox) Delete(ctx context.Context, owner message.UserID, sequence uint32, id message.ID) (err error) {
	defer s.delete.done(ctx, s.delete.now(), &err)
	return s.Store.Delete(ctx, owner, sequence, id)
}

func (s *inbox) Blank(ctx context.Context, owner message.UserID, sequence uint32, slot int, id message.ID) (err error) {
	defer s.blank.done(ctx, s.blank.now(), &err)
	return s.Store.Blank(ctx, owner, sequence, slot, id)
}

func (s *inbox) Lower(ctx context.Context, owner message.UserID, as bucket.Outline, floor, last message.ID) (applied bool, err error) {
	defer s.lower.done(ctx, s.lower.now(), &err)
	return s.Store.Lower(ctx, owner, as, floor, last)
}

func (s *inbox) Empty(ctx context.Context, owner message.UserID, low, high uint32, purged message.ID) (freed bucket.Emptied, err error) {
	defer s.empty.done(ctx, s.empty.now(), &err)
	return s.Store.Empty(ctx, owner, low, high, purged)
}

func (s *inbox) Deletions(ctx context.Context, owner message.UserID, from uint32) (deletions bucket.Deletions, err error) {
	defer s.deletions.done(ctx, s.deletions.now(), &err)
	return s.Store.Deletions(ctx, owner, from)
}

func (s *inbox) Outlines(ctx context.Context, spans []bucket.Span) (outlines [][]bucket.Outline, err error) {
	defer s.outlines.done(ctx, s.outlines.now(), &err)
	return s.Store.Outlines(ctx, spans)
}

func (s *inbox) DeletionsOf(ctx context.Context, refs []bucket.Ref) (deletions []bucket.Deletions, err error) {
	defer s.deletionsOf.done(ctx, s.deletionsOf.now(), &err)
	return s.Store.DeletionsOf(ctx, refs)
}
