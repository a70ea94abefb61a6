package natsbus

import (
	"context"
	"time"
)

// Waiting tells since when the oldest published event and the oldest task have been on the bus, by the server's clock,
// whether somebody is working on them or not. Where there is none it is the zero time.
func (b *Bus) Waiting(ctx context.Context) (events, tasks time.Time, err error) {
	if events, err = b.oldest(ctx, PublishedStream); err != nil {
		return time.Time{}, time.Time{}, err
	}
	tasks, err = b.oldest(ctx, FanoutStream)
	return events, tasks, err
}

func (b *Bus) oldest(ctx context.Context, name string) (time.Time, error) {
	stream, err := b.js.Stream(ctx, name) // which asks the server
	if err != nil {
		return time.Time{}, classify(ctx, "ask what is waiting", err)
	}
	state := stream.CachedInfo().State
	if state.Msgs == 0 {
		return time.Time{}, nil
	}
	return state.FirstTime, nil
}
