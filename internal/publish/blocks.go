package publish

import (
	"context"
	"fmt"
	"slices"

	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// leaveOut takes the users who block the author out of the messages of attempts. It asks once for all of them. No later stage knows of blocks, so a
// message goes to whom it may when it is sent. If an earlier request has stored the message, its recipients stay as they are. leaveOut returns the
// attempts without an error.
func (s *Service) leaveOut(ctx context.Context, attempts []*attempt) []*attempt {
	var pairs []follow.Pair
	for _, a := range attempts {
		for _, user := range a.result.Message.To {
			pairs = append(pairs, named(a, user))
		}
	}
	if len(pairs) == 0 || s.opts.Blocks == nil {
		return attempts
	}
	blocks, err := s.opts.Blocks(ctx, pairs)
	return slices.DeleteFunc(attempts, func(a *attempt) bool {
		m := &a.result.Message
		if err != nil && len(m.To) > 0 {
			a.result.Err = fmt.Errorf("publish: %w", err)
		}
		all := len(m.To) + m.Blocked
		m.To = slices.DeleteFunc(slices.Clone(m.To), func(user message.UserID) bool { return blocks[named(a, user)] })
		m.Blocked = all - len(m.To)
		return a.result.Err != nil
	})
}

// named returns the pair of a user whom the message of an attempt names, and its author.
func named(a *attempt, user message.UserID) follow.Pair {
	return follow.Pair{Follower: user, Followee: a.result.Message.From.Source()}
}
