// Package ownlayout gives messages to inboxes and reads them in a store's own layout, as fan-out and readers do it, without a server. The benchmark
// of layouts compares that with recipes.
package ownlayout

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// together is about the number of entries in an append of Fill.
const together = 20_000

// Inboxes are the inboxes of a store.
type Inboxes struct {
	inbox    bucket.Store
	users    userstate.Store
	appender *bucket.Appender
	now      func() time.Time
}

// New returns the inboxes of a store.
func New(inbox bucket.Store, users userstate.Store, now func() time.Time) *Inboxes {
	return &Inboxes{inbox: inbox, users: users, appender: bucket.NewAppender(inbox, users), now: now}
}

// Append gives entries, ascending by id, to recipients, each named once, and returns how many entries were new. It first looks up the states of the
// recipients, as fan-out does. Unknown recipients become known, because the store keeps hints only for users who are.
func (i *Inboxes) Append(ctx context.Context, entries []bucket.Entry, recipients []message.UserID) (added int, err error) {
	states, err := userstate.States(i.users.Lookup(ctx, recipients))
	if err != nil {
		return 0, err
	}
	var steps []userstate.Step
	appends := make([]bucket.Append, len(recipients))
	for n, s := range states {
		if !s.Known() {
			seen := i.now().UTC().Truncate(time.Millisecond)
			steps = append(steps, userstate.Step{From: userstate.State{User: s.User}, To: userstate.State{User: s.User, LastViewed: seen, Horizon: seen.Add(time.Hour)}})
		}
		appends[n] = bucket.Append{Owner: recipients[n], Hint: s.Head, Entries: entries}
	}
	if len(steps) > 0 {
		if _, err := i.users.Step(ctx, steps); err != nil {
			return 0, err
		}
	}
	results, err := i.appender.Append(ctx, appends)
	for _, r := range results {
		added += r.New
		err = errors.Join(err, r.Err)
	}
	return added, err
}

// Fill is Append for many entries. It appends to some inboxes after the other.
func (i *Inboxes) Fill(ctx context.Context, entries []bucket.Entry, recipients []message.UserID) error {
	for some := range slices.Chunk(recipients, max(1, together/max(1, len(entries)))) {
		if _, err := i.Append(ctx, entries, some); err != nil {
			return err
		}
	}
	return nil
}

// Read returns the newest n messages of a recipient, newest first, and the number of buckets that it read. It looks up the recipient's state first,
// as readers do.
func (i *Inboxes) Read(ctx context.Context, recipient message.UserID, n int) (ids []message.ID, buckets int, err error) {
	state, err := userstate.Get(ctx, i.users, recipient)
	if err != nil {
		return nil, 0, err
	}
	page, err := bucket.ReadPage(ctx, i.inbox, bucket.PageRequest{Owner: recipient, Hint: state.Head, Limit: n})
	for _, e := range page.Entries {
		ids = append(ids, e.ID)
	}
	return ids, page.Buckets, err
}
