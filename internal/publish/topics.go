package publish

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/fanmail/fanmail/pkg/message"
)

// checkTopics sets the error of attempts with a topic that does not exist. It asks once for all topics. It returns the other attempts.
func (s *Service) checkTopics(ctx context.Context, attempts []*attempt) []*attempt {
	var topics []message.Topic
	for _, a := range attempts {
		topics = append(topics, a.result.Message.Topics...)
	}
	if len(topics) == 0 {
		return attempts
	}
	slices.Sort(topics)
	unknown := slices.Compact(topics)
	var err error
	if s.opts.Unknown != nil {
		unknown, err = s.opts.Unknown(ctx, unknown)
	}
	return slices.DeleteFunc(attempts, func(a *attempt) bool {
		if err != nil && len(a.result.Message.Topics) > 0 {
			a.result.Err = fmt.Errorf("look up topics: %w", err)
		}
		for i, t := range a.request.Draft.Topics {
			if err == nil && slices.Contains(unknown, t) {
				a.result.Err = &message.InvalidError{
					Field:  "topics[" + strconv.Itoa(i) + "]",
					Reason: fmt.Sprintf("is %q, and there is no such topic: create it first", string(t)),
				}
				break
			}
		}
		return a.result.Err != nil
	})
}
