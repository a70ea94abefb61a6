package inbox

import (
	"context"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// Count is how many messages a user's inbox has, and how many of them are unread.
type Count struct {
	User          message.UserID
	Total, Unread int64
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
	counts := make(map[message.UserID]*Count, len(users))
	var asked []message.UserID
	for _, user := range users {
		if counts[user] == nil {
			counts[user] = &Count{User: user}
			asked = append(asked, user)
		}
	}
	looked, err := s.stores.Shown.Users.Lookup(ctx, asked)
	if err != nil {
		return nil, err
	}
	var requests []bucket.CountRequest
	for _, l := range looked {
		state := l.State
		if l.Err != nil {
			s.damaged.user(l.Err, state.User)
			continue
		}
		if !state.Known() {
			continue
		}
		counts[state.User].Complete = s.complete(state, rules)
		requests = append(requests, bucket.CountRequest{
			Owner: state.User, Hint: state.Head, ReadMark: state.ReadMark, Gaps: state.Gaps, Purged: state.Purged, Oldest: state.Oldest,
			DeletionsFrom: deletionsFrom(state),
		})
	}
	counted, err := bucket.ReadCounts(ctx, s.stores.Shown.Buckets, requests)
	if err != nil {
		return nil, err
	}
	for i, c := range counted {
		count := counts[requests[i].Owner]
		if c.Err != nil {
			s.damaged.user(c.Err, count.User)
			count.Complete = false
		}
		count.Total, count.Unread = c.Total, c.Unread
	}
	results := make([]Count, len(users))
	for i, user := range users {
		results[i] = *counts[user]
	}
	return results, nil
}
