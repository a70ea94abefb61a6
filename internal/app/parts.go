package app

import (
	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Parts is what the roles are built on.
type Parts struct {
	Messages message.Store
	Keys     message.KeyStore
	Inbox    bucket.Store
	Users    userstate.Store
	Edges    follow.Store
	Progress progress.Store

	Bus bus.Bus
}
