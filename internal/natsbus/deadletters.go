package natsbus

import (
	"context"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/fanmail/fanmail/pkg/event"
)

// DeadLetters implements bus.DeadLetterQueue. A letter that cannot be decoded has the reason "unreadable". An operator
// must decide what to do with it.
func (b *Bus) DeadLetters(ctx context.Context, after uint64, limit int) ([]event.Filed, error) {
	stored, err := b.read(ctx, DeadLetterStream, deadLetterPrefix+">", after+1, limit)
	if err != nil {
		return nil, classify(ctx, "read dead letters", err)
	}
	filed := make([]event.Filed, len(stored))
	for i, s := range stored {
		letter, err := event.DecodeDeadLetter(s.Payload)
		if err != nil {
			letter = event.DeadLetter{Reason: "unreadable", Error: err.Error(), Subject: s.Subject, Payload: s.Payload}
		}
		letter.Trace = s.Trace
		filed[i] = event.Filed{ID: s.Sequence, At: s.Stored, DeadLetter: letter}
	}
	return filed, nil
}

// Drop implements bus.DeadLetterQueue.
func (b *Bus) Drop(ctx context.Context, id uint64) error {
	return classify(ctx, "drop a dead letter", b.remove(ctx, DeadLetterStream, []uint64{id}))
}

// Emit implements bus.DeadLetterQueue.
func (b *Bus) Emit(ctx context.Context, d event.DeadLetter) error {
	return classify(ctx, "emit work again", b.emit(ctx, []*nats.Msg{newMsg(d.Subject, d.Payload, d.Trace)}))
}

// Consumed implements bus.DeadLetterQueue.
func (b *Bus) Consumed(subject string) bool {
	if subject == publishedSubject || subject == loginSubject {
		return true
	}
	rest, isTask := strings.CutPrefix(subject, fanoutPrefix)
	lane, number, _ := strings.Cut(rest, ".")
	partition, err := strconv.Atoi(number)
	return isTask && err == nil && b.checkPlace(event.Lane(lane), partition) == nil
}
