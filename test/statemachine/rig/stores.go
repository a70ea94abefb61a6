package rig

import (
	"context"
	"time"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Observer receives each change at the moment when it takes effect.
type Observer interface {
	// Inserted receives the stored messages and their stamps.
	Inserted(messages []message.Message, stamps []message.Stamp)
	// Followed tells of edges as a Follow left them, and Unfollowed of the pair of an Unfollow.
	Followed(edges []follow.Edge, at time.Time)
	Unfollowed(pair follow.Pair, at time.Time)
	// Viewed tells of views and what they found.
	Viewed(views []userstate.View, viewed []userstate.Viewed)
}

// blind is an Observer that takes no notice.
type blind struct{}

func (blind) Inserted([]message.Message, []message.Stamp) {}
func (blind) Followed([]follow.Edge, time.Time)           {}
func (blind) Unfollowed(follow.Pair, time.Time)           {}
func (blind) Viewed([]userstate.View, []userstate.Viewed) {}

// Messages is a message.Store behind the seam.
type Messages struct {
	message.Store
	observer Observer
}

// Insert implements message.Store.
func (s *Messages) Insert(ctx context.Context, messages []message.Message, timing message.Timing) ([]message.Stamp, error) {
	return through(ctx, "Insert", func() ([]message.Stamp, error) {
		stamps, err := s.Store.Insert(ctx, messages, timing)
		if err == nil {
			s.observer.Inserted(messages, stamps)
		}
		return stamps, err
	})
}

// Get implements message.Store.
func (s *Messages) Get(ctx context.Context, ref message.Ref) (message.Stored, error) {
	return through(ctx, "GetMessage", func() (message.Stored, error) { return s.Store.Get(ctx, ref) })
}

// GetMany implements message.Store.
func (s *Messages) GetMany(ctx context.Context, refs []message.Ref) ([]message.Found, error) {
	return through(ctx, "GetMessages", func() ([]message.Found, error) { return s.Store.GetMany(ctx, refs) })
}

// ToFollowers implements message.Store.
func (s *Messages) ToFollowers(ctx context.Context, ranges []message.Range, order message.Order, limit int) ([]message.Stored, error) {
	return through(ctx, "ToFollowers", func() ([]message.Stored, error) { return s.Store.ToFollowers(ctx, ranges, order, limit) })
}

// CountToFollowers implements message.Store.
func (s *Messages) CountToFollowers(ctx context.Context, ranges []message.Range) (int64, error) {
	return through(ctx, "CountToFollowers", func() (int64, error) { return s.Store.CountToFollowers(ctx, ranges) })
}

// Naming implements message.Store.
func (s *Messages) Naming(ctx context.Context, user message.UserID, after, before message.ID, order message.Order, limit int) ([]message.Stored, error) {
	return through(ctx, "Naming", func() ([]message.Stored, error) {
		return s.Store.Naming(ctx, user, after, before, order, limit)
	})
}

// AnyAfter implements message.Store.
func (s *Messages) AnyAfter(ctx context.Context, after message.ID) (bool, error) {
	return through(ctx, "AnyAfter", func() (bool, error) { return s.Store.AnyAfter(ctx, after) })
}

// Unfinished implements message.Store.
func (s *Messages) Unfinished(ctx context.Context, after, before message.ID, limit int) ([]message.Ref, error) {
	return through(ctx, "Unfinished", func() ([]message.Ref, error) { return s.Store.Unfinished(ctx, after, before, limit) })
}

// Endings implements message.Store.
func (s *Messages) Endings(ctx context.Context, refs []message.Ref) ([]message.Ending, error) {
	return through(ctx, "Endings", func() ([]message.Ending, error) { return s.Store.Endings(ctx, refs) })
}

// Conclude implements message.Store.
func (s *Messages) Conclude(ctx context.Context, endings []message.Ending) error {
	return run(ctx, "Conclude", func() error { return s.Store.Conclude(ctx, endings) })
}

// Keys is a message.KeyStore behind the seam.
type Keys struct{ message.KeyStore }

// Reserve implements message.KeyStore.
func (s Keys) Reserve(ctx context.Context, k message.Key, now time.Time) (message.Key, error) {
	return through(ctx, "Reserve", func() (message.Key, error) { return s.KeyStore.Reserve(ctx, k, now) })
}

// Replace implements message.KeyStore.
func (s Keys) Replace(ctx context.Context, old message.Key, id message.ID) error {
	return run(ctx, "Replace", func() error { return s.KeyStore.Replace(ctx, old, id) })
}

// Progress is a progress.Store behind the seam.
type Progress struct{ progress.Store }

// Plan implements progress.Store.
func (s Progress) Plan(ctx context.Context, id message.ID, lane string, partitions []int, now time.Time) (progress.Fanout, error) {
	return through(ctx, "Plan", func() (progress.Fanout, error) { return s.Store.Plan(ctx, id, lane, partitions, now) })
}

// Get implements progress.Store.
func (s Progress) Get(ctx context.Context, id message.ID) (progress.Fanout, error) {
	return through(ctx, "GetProgress", func() (progress.Fanout, error) { return s.Store.Get(ctx, id) })
}

// GetMany implements progress.Store.
func (s Progress) GetMany(ctx context.Context, ids []message.ID) ([]progress.Fanout, []bool, error) {
	type answer struct {
		fanouts []progress.Fanout
		planned []bool
	}
	a, err := through(ctx, "GetFanouts", func() (a answer, err error) {
		a.fanouts, a.planned, err = s.Store.GetMany(ctx, ids)
		return a, err
	})
	return a.fanouts, a.planned, err
}

// Scans implements progress.Store.
func (s Progress) Scans(ctx context.Context, partition int, ids []message.ID) ([]progress.Scan, []bool, error) {
	type answer struct {
		scans   []progress.Scan
		planned []bool
	}
	a, err := through(ctx, "Scans", func() (a answer, err error) {
		a.scans, a.planned, err = s.Store.Scans(ctx, partition, ids)
		return a, err
	})
	return a.scans, a.planned, err
}

// Step implements progress.Store.
func (s Progress) Step(ctx context.Context, steps []progress.Move, now time.Time) ([]progress.Moved, error) {
	return through(ctx, "Step", func() ([]progress.Moved, error) { return s.Store.Step(ctx, steps, now) })
}

// List implements progress.Store.
func (s Progress) List(ctx context.Context, after, upTo message.ID, limit int) ([]progress.Found, error) {
	return through(ctx, "ListFanouts", func() ([]progress.Found, error) { return s.Store.List(ctx, after, upTo, limit) })
}

// Remove implements progress.Store.
func (s Progress) Remove(ctx context.Context, ids []message.ID) error {
	return run(ctx, "RemoveFanouts", func() error { return s.Store.Remove(ctx, ids) })
}

// Users is a userstate.Store behind the seam.
type Users struct {
	userstate.Store
	observer Observer
}

// RaiseHeads implements bucket.Hints.
func (s *Users) RaiseHeads(ctx context.Context, heads []bucket.Head) error {
	return run(ctx, "RaiseHeads", func() error { return s.Store.RaiseHeads(ctx, heads) })
}

// Lookup implements userstate.Store.
func (s *Users) Lookup(ctx context.Context, users []message.UserID) ([]userstate.Looked, error) {
	return through(ctx, "Lookup", func() ([]userstate.Looked, error) { return s.Store.Lookup(ctx, users) })
}

// View implements userstate.Store.
func (s *Users) View(ctx context.Context, views []userstate.View) ([]userstate.Viewed, error) {
	return through(ctx, "View", func() ([]userstate.Viewed, error) {
		viewed, err := s.Store.View(ctx, views)
		if err == nil {
			s.observer.Viewed(views, viewed)
		}
		return viewed, err
	})
}

// Step implements userstate.Store.
func (s *Users) Step(ctx context.Context, steps []userstate.Step) ([]userstate.Stepped, error) {
	return through(ctx, "StepState", func() ([]userstate.Stepped, error) { return s.Store.Step(ctx, steps) })
}

// Due implements userstate.Store.
func (s *Users) Due(ctx context.Context, dead userstate.Dead, limit int) ([]userstate.Looked, error) {
	return through(ctx, "Due", func() ([]userstate.Looked, error) { return s.Store.Due(ctx, dead, limit) })
}

// List implements userstate.Store.
func (s *Users) List(ctx context.Context, partition int, after message.UserID, limit int) ([]userstate.Looked, error) {
	return through(ctx, "List", func() ([]userstate.Looked, error) { return s.Store.List(ctx, partition, after, limit) })
}

// Edges is a follow.Store behind the seam.
type Edges struct {
	follow.Store
	observer Observer
}

// Follow implements follow.Store.
func (s *Edges) Follow(ctx context.Context, pairs []follow.Pair, at time.Time) ([]follow.Edge, error) {
	return through(ctx, "Follow", func() ([]follow.Edge, error) {
		edges, err := s.Store.Follow(ctx, pairs, at)
		if err == nil {
			s.observer.Followed(edges, at)
		}
		return edges, err
	})
}

// Unfollow implements follow.Store.
func (s *Edges) Unfollow(ctx context.Context, pair follow.Pair, at time.Time) error {
	return run(ctx, "Unfollow", func() error {
		err := s.Store.Unfollow(ctx, pair, at)
		if err == nil {
			s.observer.Unfollowed(pair, at)
		}
		return err
	})
}

// Subscribe implements follow.Store.
func (s *Edges) Subscribe(ctx context.Context, subscriptions []follow.Subscription, at time.Time) ([]follow.Edge, error) {
	return through(ctx, "Subscribe", func() ([]follow.Edge, error) {
		edges, err := s.Store.Subscribe(ctx, subscriptions, at)
		if err == nil {
			s.observer.Followed(edges, at)
		}
		return edges, err
	})
}

// End implements follow.Store.
func (s *Edges) End(ctx context.Context, sub follow.Subscription, at time.Time) error {
	return run(ctx, "End", func() error { return s.Store.End(ctx, sub, at) })
}

// DropSpans implements follow.Store.
func (s *Edges) DropSpans(ctx context.Context, pair follow.Pair, spans []follow.Span) error {
	return run(ctx, "DropSpans", func() error { return s.Store.DropSpans(ctx, pair, spans) })
}

// Count implements follow.Store.
func (s *Edges) Count(ctx context.Context, followers []message.UserID, limit int) ([]int, error) {
	return through(ctx, "CountEdges", func() ([]int, error) { return s.Store.Count(ctx, followers, limit) })
}

// Get implements follow.Store.
func (s *Edges) Get(ctx context.Context, pairs []follow.Pair) ([]follow.Edge, error) {
	return through(ctx, "GetEdges", func() ([]follow.Edge, error) { return s.Store.Get(ctx, pairs) })
}

// Followers implements follow.Store.
func (s *Edges) Followers(ctx context.Context, followee message.Source, partition int, after message.UserID, limit int) ([]follow.Edge, error) {
	return through(ctx, "Followers", func() ([]follow.Edge, error) {
		return s.Store.Followers(ctx, followee, partition, after, limit)
	})
}

// Audience implements follow.Store.
func (s *Edges) Audience(ctx context.Context, followees []message.Source, limit int) ([]follow.Edge, error) {
	return through(ctx, "Audience", func() ([]follow.Edge, error) { return s.Store.Audience(ctx, followees, limit) })
}

// Following implements follow.Store.
func (s *Edges) Following(ctx context.Context, follower message.UserID, after message.Source, limit int) ([]follow.Edge, error) {
	return through(ctx, "Following", func() ([]follow.Edge, error) { return s.Store.Following(ctx, follower, after, limit) })
}

// Topics is a topic.Store behind the seam.
type Topics struct{ topic.Store }

// Get implements topic.Store.
func (s Topics) Get(ctx context.Context, topics []message.Topic) ([]topic.Record, error) {
	return through(ctx, "GetTopics", func() ([]topic.Record, error) { return s.Store.Get(ctx, topics) })
}

// Step implements topic.Store.
func (s Topics) Step(ctx context.Context, steps []topic.Change) ([]topic.Record, error) {
	return through(ctx, "StepTopics", func() ([]topic.Record, error) { return s.Store.Step(ctx, steps) })
}

// List implements topic.Store.
func (s Topics) List(ctx context.Context, under, after message.Topic, limit int) ([]topic.Record, error) {
	return through(ctx, "ListTopics", func() ([]topic.Record, error) { return s.Store.List(ctx, under, after, limit) })
}

// Flags is a flag.Store behind the seam.
type Flags struct{ flag.Store }

// Lookup implements flag.Store.
func (s Flags) Lookup(ctx context.Context, owners []message.UserID) ([]flag.Looked, error) {
	return through(ctx, "LookupFlags", func() ([]flag.Looked, error) { return s.Store.Lookup(ctx, owners) })
}

// Replace implements flag.Store.
func (s Flags) Replace(ctx context.Context, r flag.Record) (bool, error) {
	return through(ctx, "ReplaceFlags", func() (bool, error) { return s.Store.Replace(ctx, r) })
}

// Inbox is a bucket.Store behind the seam.
type Inbox struct{ bucket.Store }

// Push implements bucket.Store.
func (s Inbox) Push(ctx context.Context, pushes []bucket.Push) ([]bucket.Outcome, error) {
	return through(ctx, "Push", func() ([]bucket.Outcome, error) { return s.Store.Push(ctx, pushes) })
}

// Persist implements bucket.Store.
func (s Inbox) Persist(ctx context.Context) error {
	return run(ctx, "Persist", func() error { return s.Store.Persist(ctx) })
}

// Heads implements bucket.Store.
func (s Inbox) Heads(ctx context.Context, hints []bucket.Head) ([]bucket.Bucket, error) {
	return through(ctx, "Heads", func() ([]bucket.Bucket, error) { return s.Store.Heads(ctx, hints) })
}

// Range implements bucket.Store.
func (s Inbox) Range(ctx context.Context, sections []bucket.Section, field bucket.Field) ([][]bucket.Bucket, error) {
	return through(ctx, "Range", func() ([][]bucket.Bucket, error) { return s.Store.Range(ctx, sections, field) })
}

// Empty implements bucket.Store.
func (s Inbox) Empty(ctx context.Context, owner message.UserID, low, high uint32, purged message.ID) (bucket.Emptied, error) {
	return through(ctx, "Empty", func() (bucket.Emptied, error) { return s.Store.Empty(ctx, owner, low, high, purged) })
}

// Newest implements bucket.Store.
func (s Inbox) Newest(
	ctx context.Context, owner message.UserID, low uint32, limit int, from uint32,
) (buckets []bucket.Bucket, d bucket.Deletions, err error) {
	err = run(ctx, "Newest", func() error {
		buckets, d, err = s.Store.Newest(ctx, owner, low, limit, from)
		return err
	})
	return buckets, d, err
}

// Blank implements bucket.Store.
func (s Inbox) Blank(ctx context.Context, owner message.UserID, sequence uint32, slot int, id message.ID) error {
	return run(ctx, "Blank", func() error { return s.Store.Blank(ctx, owner, sequence, slot, id) })
}

// Delete implements bucket.Store.
func (s Inbox) Delete(ctx context.Context, owner message.UserID, sequence uint32, id message.ID) error {
	return run(ctx, "Delete", func() error { return s.Store.Delete(ctx, owner, sequence, id) })
}

// Deletions implements bucket.Store.
func (s Inbox) Deletions(ctx context.Context, from []bucket.Head) ([]bucket.Deletions, error) {
	return through(ctx, "Deletions", func() ([]bucket.Deletions, error) { return s.Store.Deletions(ctx, from) })
}
