package app

import (
	"context"
	"time"

	"github.com/fanmail/fanmail/internal/deadletter"
	"github.com/fanmail/fanmail/internal/fanout"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Bus is what the roles need of a bus.
type Bus interface {
	publish.Emitter
	fanout.Bus
	deadletter.Bus
}

// Parts is what the roles are built on.
type Parts struct {
	Messages message.Store
	Keys     message.KeyStore
	Inbox    bucket.Store
	Users    userstate.Store
	Edges    follow.Store
	Progress progress.Store

	Bus Bus
	// Fetch returns published events, at least one and at most limit, or the error of a ctx that has ended.
	Fetch func(ctx context.Context, limit int) ([]fanout.Received, error)
	// FetchLogins returns login events, at least one and at most limit, or the error of a ctx that has ended.
	FetchLogins func(ctx context.Context, limit int) ([]rehydrate.Received, error)
	// EmitRehydrated tells whoever listens that a user is rehydrated.
	EmitRehydrated func(event.Rehydrated)
	// Take returns a task of a lane and partition as soon as there is one that nobody holds.
	Take func(ctx context.Context, lane event.Lane, partition int) (fanout.Held, error)
	// Waiting tells since when the oldest published event and the oldest task have been on the bus.
	Waiting func(ctx context.Context) (events, tasks time.Time, err error)
}
