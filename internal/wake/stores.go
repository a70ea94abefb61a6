package wake

import (
	"context"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Buckets returns the store with writes that call h.Changed when they return. A write with an error may have been applied, so it counts as a
// change.
func Buckets(store bucket.Store, h *Hub) bucket.Store { return buckets{store, h} }

type buckets struct {
	bucket.Store
	hub *Hub
}

// Push implements bucket.Store.
func (b buckets) Push(ctx context.Context, pushes []bucket.Push) ([]bucket.Outcome, error) {
	outcomes, err := b.Store.Push(ctx, pushes)
	if !b.hub.anyWatched() {
		return outcomes, err
	}
	for i, p := range pushes {
		if err != nil || outcomes[i].Applied {
			b.hub.Changed(p.Owner)
		}
	}
	return outcomes, err
}

// Delete implements bucket.Store.
func (b buckets) Delete(ctx context.Context, owner message.UserID, sequence uint32, id message.ID) error {
	defer b.hub.Changed(owner)
	return b.Store.Delete(ctx, owner, sequence, id)
}

// Blank implements bucket.Store.
func (b buckets) Blank(ctx context.Context, owner message.UserID, sequence uint32, slot int, id message.ID) error {
	defer b.hub.Changed(owner)
	return b.Store.Blank(ctx, owner, sequence, slot, id)
}

// Empty implements bucket.Store.
func (b buckets) Empty(ctx context.Context, owner message.UserID, low, high uint32, purged message.ID) (bucket.Emptied, error) {
	defer b.hub.Changed(owner)
	return b.Store.Empty(ctx, owner, low, high, purged)
}

// Users is Buckets for the states of users. Streams show neither views nor hints for heads.
func Users(store userstate.Store, h *Hub) userstate.Store { return users{store, h} }

type users struct {
	userstate.Store
	hub *Hub
}

// Step implements userstate.Store.
func (u users) Step(ctx context.Context, steps []userstate.Step) ([]userstate.Stepped, error) {
	stepped, err := u.Store.Step(ctx, steps)
	if !u.hub.anyWatched() {
		return stepped, err
	}
	for i, s := range steps {
		if (err != nil || stepped[i].Applied) && shown(s.From, s.To) {
			u.hub.Changed(s.To.User)
		}
	}
	return stepped, err
}

// shown reports whether a stream shows the difference of two states: one of any field but these.
func shown(from, to userstate.State) bool {
	to.LastViewed, to.Lease, to.Recovered, to.Flagged, to.Oldest, to.Keep = from.LastViewed, from.Lease, from.Recovered, from.Flagged, from.Oldest, from.Keep
	return !from.Same(to)
}

// Flags is Buckets for the flags of single messages.
func Flags(store flag.Store, h *Hub) flag.Store { return flags{store, h} }

type flags struct {
	flag.Store
	hub *Hub
}

// Replace implements flag.Store.
func (f flags) Replace(ctx context.Context, r flag.Record) (bool, error) {
	defer f.hub.Changed(r.Owner)
	return f.Store.Replace(ctx, r)
}
