package rig

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Damage makes records of the database unreadable, or lets them disappear, until they are mended. It outlasts a crash.
type Damage struct {
	mu      sync.Mutex
	states  map[message.UserID]bool
	inboxes map[message.UserID]bool
	lost    map[lostBucket]bool
}

// lostBucket names a bucket of an owner.
type lostBucket struct {
	owner    message.UserID
	sequence uint32
}

func newDamage() *Damage {
	return &Damage{states: make(map[message.UserID]bool), inboxes: make(map[message.UserID]bool), lost: make(map[lostBucket]bool)}
}

// State damages the record of a user.
func (d *Damage) State(user message.UserID) { d.change(func() { d.states[user] = true }) }

// Inbox makes the inbox of a user unreadable.
func (d *Damage) Inbox(user message.UserID) { d.change(func() { d.inboxes[user] = true }) }

// Bucket lets a bucket below the head disappear.
func (d *Damage) Bucket(user message.UserID, sequence uint32) {
	d.change(func() { d.lost[lostBucket{user, sequence}] = true })
}

// Mend mends everything of a user.
func (d *Damage) Mend(user message.UserID) {
	d.change(func() {
		delete(d.states, user)
		delete(d.inboxes, user)
		for at := range d.lost {
			if at.owner == user {
				delete(d.lost, at)
			}
		}
	})
}

func (d *Damage) change(do func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	do()
}

// state returns the error of a read of a user's record, or nil.
func (d *Damage) state(user message.UserID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.states[user] {
		return fmt.Errorf("state of %s: %w", user, message.ErrCorrupt)
	}
	return nil
}

// inbox returns the error of a call for an inbox, or nil.
func (d *Damage) inbox(user message.UserID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inboxes[user] {
		return fmt.Errorf("inbox of %s: %w", user, message.ErrCorrupt)
	}
	return nil
}

// left returns the buckets that are not lost.
func (d *Damage) left(buckets []bucket.Bucket) []bucket.Bucket {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(buckets, func(b bucket.Bucket) bool { return d.lost[lostBucket{b.Owner, b.Sequence}] })
}

// damagedUsers is a userstate.Store with damage.
type damagedUsers struct {
	userstate.Store
	damage *Damage
}

func (s damagedUsers) looked(found []userstate.Looked, err error) ([]userstate.Looked, error) {
	for i, l := range found {
		if err := s.damage.state(l.State.User); err != nil {
			found[i] = userstate.Looked{State: userstate.State{User: l.State.User}, Err: err}
		}
	}
	return found, err
}

func (s damagedUsers) Lookup(ctx context.Context, users []message.UserID) ([]userstate.Looked, error) {
	return s.looked(s.Store.Lookup(ctx, users))
}

func (s damagedUsers) Due(ctx context.Context, dead userstate.Dead, limit int) ([]userstate.Looked, error) {
	return s.looked(s.Store.Due(ctx, dead, limit))
}

func (s damagedUsers) List(ctx context.Context, partition int, after message.UserID, limit int) ([]userstate.Looked, error) {
	return s.looked(s.Store.List(ctx, partition, after, limit))
}

func (s damagedUsers) View(ctx context.Context, views []userstate.View) ([]userstate.Viewed, error) {
	for _, v := range views {
		if err := s.damage.state(v.User); err != nil {
			return nil, err
		}
	}
	return s.Store.View(ctx, views)
}

func (s damagedUsers) Step(ctx context.Context, steps []userstate.Step) ([]userstate.Stepped, error) {
	for _, step := range steps {
		if err := s.damage.state(step.From.User); err != nil {
			return nil, err
		}
	}
	return s.Store.Step(ctx, steps)
}

// damagedInbox is a bucket.Store with damage.
type damagedInbox struct {
	bucket.Store
	damage *Damage
}

func (s damagedInbox) Push(ctx context.Context, pushes []bucket.Push) ([]bucket.Outcome, error) {
	for i, p := range pushes {
		if err := s.damage.inbox(p.Owner); err != nil {
			if _, pushErr := s.Store.Push(ctx, pushes[:i]); pushErr != nil { // after an error any push may have been applied
				return nil, pushErr
			}
			return nil, err
		}
	}
	return s.Store.Push(ctx, pushes)
}

func (s damagedInbox) Heads(ctx context.Context, hints []bucket.Head) ([]bucket.Bucket, error) {
	for _, h := range hints {
		if err := s.damage.inbox(h.Owner); err != nil {
			return nil, err
		}
	}
	return s.Store.Heads(ctx, hints)
}

func (s damagedInbox) Range(ctx context.Context, sections []bucket.Section, field bucket.Field) ([][]bucket.Bucket, error) {
	for _, section := range sections {
		if err := s.damage.inbox(section.Owner); err != nil {
			return nil, err
		}
	}
	buckets, err := s.Store.Range(ctx, sections, field)
	for i := range buckets {
		buckets[i] = s.damage.left(buckets[i])
	}
	return buckets, err
}

func (s damagedInbox) Newest(ctx context.Context, owner message.UserID, low uint32, limit int, from uint32) ([]bucket.Bucket, bucket.Deletions, error) {
	if err := s.damage.inbox(owner); err != nil {
		return nil, bucket.Deletions{}, err
	}
	buckets, deletions, err := s.Store.Newest(ctx, owner, low, limit, from)
	return s.damage.left(buckets), deletions, err
}
