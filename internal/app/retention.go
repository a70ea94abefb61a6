package app

import (
	"crypto/rand"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/deadletter"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/internal/startstop"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// walkers is how many users the walk looks at together: enough to keep a store busy that answers in a millisecond.
	walkers = 8
	// trimmers is how many inboxes are trimmed together. One of them reads tens of buckets.
	trimmers = 4
)

// elsewhere says that only other processes rebuild inboxes.
const elsewhere = true

// newRehydrator returns the service that rehydrates users, and finds what is in gaps.
func (s *assembly) newRehydrator(metrics prometheus.Registerer, elsewhere bool) *rehydrate.Service {
	p, r := s.parts, s.config.Rehydrate
	return rehydrate.New(
		rehydrate.Stores{Messages: p.Messages, Users: p.Users, Edges: p.Edges, Appender: s.appender},
		rehydrate.Options{
			Rules: s.settings.Rules, Retention: s.settings.Retention, Expired: retention.Expired(p.Walk, s.settings.Rules),
			Reserve: s.memory.Reserve,
			Limit:   r.Limit, Workers: r.Workers, Queue: r.Queue, Page: r.Page, Lease: r.Lease, ReapEvery: r.ReapEvery,
			Alone: s.config.Store == config.StoreEmbedded, Elsewhere: elsewhere, Patience: patience, MaxAttempts: s.config.Fanout.MaxAttempts,
			Gapped: s.grown, Emit: p.Bus.EmitRehydrated, Token: rand.Text, Now: s.opts.Now, Logger: s.opts.Logger, Tracer: s.tracer(),
			Metrics: metrics, Tally: &s.tally,
		})
}

// newDeadLetters returns the service of dead letters.
func (s *assembly) newDeadLetters() *deadletter.Service {
	p := s.parts
	return deadletter.New(
		deadletter.Parts{Bus: p.Bus, Progress: p.Progress, Messages: p.Messages, Users: p.Users, Buckets: p.Inbox, Round: retention.Number(p.Walk)},
		deadletter.Options{Rules: s.settings.Rules, Logger: s.opts.Logger, Now: s.opts.Now},
	)
}

// elapsed returns the time since a fixed moment, by a clock that cannot be set.
func (s *assembly) elapsed() time.Duration {
	if s.opts.Elapsed != nil {
		return s.opts.Elapsed()
	}
	return s.opts.Now().Sub(s.began) // by their monotonic readings
}

// retention adds the workers that trim and empty inboxes, and to a rehydrator the walk over all users. They have to be where inboxes grow. The
// walker asks a rehydrator for what is in gaps; one that only asks has no metrics.
func (s *assembly) retention() {
	r, walks := s.config.Retention, s.has(Rehydrator)
	opts := retention.Options{
		Rules: s.settings.Rules, Retention: s.settings.Retention, Canonical: s.settings.Canonical, KeysUntil: s.settings.KeysUntil,
		Rate: r.Rate, UsersRate: r.UsersRate, Queue: r.Queue, Servers: trimmers, Workers: walkers, Every: r.Every, Hold: r.Hold, Clock: s.watch.Now, Elapsed: s.elapsed, Partitions: s.config.Partitions, Token: rand.Text(),
		Alone: s.config.Store == config.StoreEmbedded, Now: s.opts.Now, Logger: s.opts.Logger, Metrics: s.opts.Metrics,
	}
	if walks {
		s.rehydrator = s.newRehydrator(s.opts.Metrics, !elsewhere)
		s.services.DeadLetters = s.newDeadLetters()
		opts.Letters, opts.WalkMetrics = s.services.DeadLetters.Expire, s.opts.Metrics
	} else {
		s.rehydrator = s.newRehydrator(nil, !elsewhere)
	}
	p := s.parts
	s.walker = retention.New(retention.Stores{
		Rounds: p.Walk, Passes: p.Passes, Users: p.Users, Buckets: p.Inbox, Messages: p.Messages, Progress: p.Progress, Edges: p.Edges,
	}, s.rehydrator, opts)
	loops := []startstop.Loop{s.walker.Serve}
	if walks {
		s.services.Retention = s.walker
		loops = append(loops, s.walker.Run, s.walker.Collect, s.walker.CollectEdges)
	}
	s.run("retention", loops...)
}

// grown lets an inbox be trimmed that has grown by a bucket, or got a gap. Its owner may keep fewer messages than others.
func (s *assembly) grown(owner message.UserID) {
	if s.walker != nil {
		s.walker.Grown(owner)
	}
}
