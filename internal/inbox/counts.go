package inbox

import (
	"context"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Count is how many messages a user's inbox has.
type Count struct {
	bucket.Tally

	User message.UserID
	// Complete is that of Page. It is false for a user who was never seen or whose records are damaged. The counts are zero then.
	Complete bool
}

// Counts counts inboxes, and returns the counts in the order of users. It counts what is stored, as the counts of a Page do: messages that a
// rehydration has not appended yet are missing, and the inbox is not complete. A user may be named more than once.
//
// Counting is no view: it writes nothing, starts no rehydration and waits for none. It reads all inboxes by a few calls of the stores: see
// bucket.ReadCounts. A damaged record fails no call: it is logged.
func (s *Service) Counts(ctx context.Context, users []message.UserID) ([]Count, error) {
	rules := s.opts.Rules()
	counts := make(map[message.UserID]Count, len(users))
	var asked []message.UserID
	for _, user := range users {
		if _, named := counts[user]; !named {
			counts[user] = Count{User: user}
			asked = append(asked, user)
		}
	}
	all, err := s.count(ctx, asked)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		switch user := c.state.User; {
		case c.Err != nil:
			s.damaged.user(c.Err, user)
		case c.state.Known():
			counts[user] = Count{User: user, Tally: c.Tally, Complete: s.complete(c.state, rules)}
		}
	}
	results := make([]Count, len(users))
	for i, user := range users {
		results[i] = counts[user]
	}
	return results, nil
}

// Count counts the inbox of one user, and returns the Tag of a first page, which has changed with the counts. Otherwise it is as Counts, but returns
// userstate.ErrNotFound for a user who was never seen, and an error that wraps message.ErrCorrupt for damaged records.
func (s *Service) Count(ctx context.Context, user message.UserID) (Count, string, error) {
	tag, err := s.Tag(ctx, user, true)
	if err != nil {
		return Count{}, "", err
	}
	all, err := s.count(ctx, []message.UserID{user})
	if err == nil {
		err = all[0].Err
	}
	if err != nil {
		return Count{}, "", err
	}
	return Count{User: user, Tally: all[0].Tally, Complete: s.complete(all[0].state, s.opts.Rules())}, tag, nil
}

// mostReads is how often an inbox is read at most until its counts are possible.
const mostReads = 5

// settled reports whether counts may be shown: if they are possible, or those of the last read, which it makes possible.
func settled(t *bucket.Tally, reads int) bool {
	if !t.Possible() && reads < mostReads {
		return false
	}
	*t = t.Clamped()
	return true
}

// tallied is a counted inbox. It has no Tally if the user was never seen, and Err also if another record than a bucket is damaged.
type tallied struct {
	bucket.Counted

	state userstate.State
}

// count counts inboxes, and returns the counts in any order. No user is named twice.
func (s *Service) count(ctx context.Context, users []message.UserID) (all []tallied, err error) {
	for reads := 1; len(users) > 0; reads++ {
		some, err := s.countOnce(ctx, users)
		if err != nil {
			return nil, err
		}
		users = nil
		for _, c := range some {
			if settled(&c.Tally, reads) {
				all = append(all, c)
			} else {
				users = append(users, c.state.User)
			}
		}
	}
	return all, nil
}

// countOnce reads the users' records, then their flags, and then their buckets.
func (s *Service) countOnce(ctx context.Context, users []message.UserID) ([]tallied, error) {
	looked, err := s.stores.Shown.Users.Lookup(ctx, users)
	if err != nil {
		return nil, err
	}
	all, states := make([]tallied, len(looked)), make([]userstate.State, len(looked))
	for i, l := range looked {
		all[i].state, all[i].Err, states[i] = l.State, l.Err, l.State
	}
	flags, err := s.lookupFlags(ctx, states)
	if err != nil {
		return nil, err
	}
	var requests []bucket.CountRequest
	var of []int
	for i := range all {
		state, flags := all[i].state, flags[all[i].state.User]
		if all[i].Err == nil {
			all[i].Err = flags.Err
		}
		if all[i].Err == nil && state.Known() {
			requests, of = append(requests, bucket.CountRequest{Owner: state.User, Hint: state.Head, Basis: state.Basis(flags.Record)}), append(of, i)
		}
	}
	counted, err := bucket.ReadCounts(ctx, s.stores.Shown.Buckets, requests)
	for k, c := range counted {
		all[of[k]].Counted = c
	}
	return all, err
}

// flagged reports whether there may be flags of single messages. They are read after the user's record and before the buckets.
func (s *Service) flagged(state userstate.State) bool {
	return state.Flagged && s.stores.Shown.Flags != nil
}
