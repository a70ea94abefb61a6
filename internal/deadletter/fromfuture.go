package deadletter

import (
	"context"
	"fmt"

	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// Condemn files a dead letter for a message from the future, and then makes the message void. The letter comes first, so the message
// is not lost if the process dies in between. Condemn does nothing if the message has a verdict. It is idempotent: there is one letter,
// whichever processes call it. It returns ErrBus, or an error of the store.
func (s *Service) Condemn(ctx context.Context, ref message.Ref) error {
	stored, err := s.Messages.Get(ctx, ref)
	if err != nil || stored.Verdict != message.Undecided {
		return err
	}
	cause := fmt.Sprintf("its id is %v ahead of the time when an older release stored it", stored.Ahead())
	if err := s.Bus.FileFromFuture(ctx, stored.Ref(), cause); err != nil {
		return ofBus(err)
	}
	_, err = s.Messages.Condemn(ctx, stored.Ref())
	return err
}

// republish publishes the message of a dead letter under a new id, and removes the letter. It condemns the message first, because the
// process that filed the letter may have died before it did. The idempotency key is that of the old id. So a repeat publishes nothing
// more, until the key is forgotten.
func (s *Service) republish(ctx context.Context, filed event.Filed) error {
	published, err := event.DecodePublished(filed.Payload)
	if err != nil {
		return fmt.Errorf("redrive a message from the future: %w: %w", ErrNoConsumer, err)
	}
	m, err := s.Messages.Condemn(ctx, published.Ref())
	switch {
	case err != nil:
		return fmt.Errorf("redrive a message from the future: %w", err)
	case m.Verdict != message.Void:
		return fmt.Errorf("redrive message %s: %w", m.ID, ErrCounts)
	}
	result := s.Publisher.Publish(ctx, []publish.Request{{
		Key: publish.SuccessorKey(m.ID),
		Draft: message.Draft{
			From: m.From, To: m.To, Audience: m.Audience, Topics: m.Topics, Body: m.Body, ContentType: m.ContentType, Attrs: m.Attrs,
		},
	}})[0]
	if result.Err != nil {
		return fmt.Errorf("publish message %s again: %w", m.ID, result.Err)
	}
	if err := s.Bus.Drop(ctx, filed.ID); err != nil {
		return ofBus(err)
	}
	s.log(filed).Stringer("message_id", result.Message.ID).Stringer("was", m.ID).Msg("a message from the future is published under a new id")
	return nil
}
