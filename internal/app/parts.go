package app

import (
	"cmp"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/internal/wake"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Parts are the stores and the bus of the roles.
type Parts struct {
	// Shown has the same stores, as far as they are read for what is merely shown: their answers may be seconds old. Nil means these Parts.
	Shown *Parts
	// Delivery has the stores of fan-out, if they have connections of their own. Nil means these Parts.
	Delivery *Parts

	Messages message.Store
	Keys     message.KeyStore
	Inbox    bucket.Store
	// Index is that of Inbox; nil if there is none.
	Index    bucket.Index
	Users    userstate.Store
	Edges    follow.Store
	Progress progress.Store
	Walk     retention.Store
	Passes   retention.Store // of the pass over edges
	Sweep    retention.Store // elects the process that resumes stopped messages; nil if no other process can have the store open
	Topics   topic.Store
	Flags    flag.Store

	Identities identity.Store

	Bus bus.Bus
}

func (p *Parts) shown() *Parts { return cmp.Or(p.Shown, p) }

func (p *Parts) delivery() *Parts { return cmp.Or(p.Delivery, p) }

// wake lets every write to an inbox wake the streams that show it. Shown is only read.
func (p *Parts) wake(h *wake.Hub) {
	p.Inbox, p.Users, p.Flags = wake.Buckets(p.Inbox, h), wake.Users(p.Users, h), wake.Flags(p.Flags, h)
	if p.Delivery != nil {
		p.Delivery.wake(h)
	}
}
