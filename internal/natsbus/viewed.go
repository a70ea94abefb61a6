package natsbus

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/fanmail/fanmail/pkg/event"
)

// viewedWaiting is how many announcements of views wait in memory for a listener; later ones are dropped. Each process sends one batch
// a second, so these are the batches of many processes.
const viewedWaiting = 256

// EmitViewed implements bus.Viewings.
func (b *Bus) EmitViewed(e event.Viewed) {
	data, err := e.Encode()
	if err == nil {
		err = b.nc.PublishMsg(newMsg(viewedSubject, data, event.Trace{}))
	}
	if err != nil && b.nc.IsConnected() { // a lost connection is already logged
		b.complaints.Warn().Err(err).Int("users", len(e.Users)).Msg("an announcement of views is lost: these users get no head start")
	}
}

// HearViewed implements bus.Viewings. The connection subscribes again whenever it is restored.
func (b *Bus) HearViewed(ctx context.Context, heard func(event.Viewed)) error {
	msgs := make(chan *nats.Msg, viewedWaiting)
	sub, err := b.nc.ChanSubscribe(viewedSubject, msgs)
	if err != nil {
		return classify(ctx, "hear who views an inbox", err)
	}
	in := &inbox{nc: b.nc, sub: sub, msgs: msgs}
	defer in.close()
	for {
		msg, err := in.next(ctx, b.closed)
		if err != nil {
			return classify(ctx, "hear who views an inbox", err)
		}
		viewed, err := event.DecodeViewed(msg.Data)
		if err != nil { // any client of the bus can publish one
			b.complaints.Warn().Err(err).Str("subject", viewedSubject).Msg("an announcement of views is lost: these users get no head start")
			continue
		}
		heard(viewed)
	}
}
