package app

import (
	"context"
	"crypto/rand"

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
	// recordsPerBucket is how many plans, messages or edges may be removed instead of a bucket being emptied. Each published message takes two such
	// removals, so this bounds how many messages may be published.
	recordsPerBucket = 10
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
			Rules: s.settings.Rules, Retention: s.settings.Retention,
			Target: func(ctx context.Context) (message.ID, error) { return retention.Target(ctx, p.Walk) },
			Limit:  r.Limit, Workers: r.Workers, Queue: r.Queue, Page: r.Page, Lease: r.Lease, ReapEvery: r.ReapEvery,
			Alone: s.config.Store == config.StoreEmbedded, Elsewhere: elsewhere, Patience: patience, MaxAttempts: s.config.Fanout.MaxAttempts,
			Gapped: s.grown, Emit: p.Bus.EmitRehydrated, Token: rand.Text, Now: s.opts.Now, Logger: s.opts.Logger, Tracer: s.tracer(),
			Metrics: metrics,
		})
}

// newDeadLetters returns the service of dead letters.
func (s *assembly) newDeadLetters() *deadletter.Service {
	p := s.parts
	return deadletter.New(
		deadletter.Parts{Bus: p.Bus, Progress: p.Progress, Messages: p.Messages, Users: p.Users, Buckets: p.Inbox, Publisher: s.newPublisher(nil)},
		deadletter.Options{Rules: s.settings.Rules, Logger: s.opts.Logger, Now: s.opts.Now},
	)
}

// retention adds the workers that trim inboxes and empty buckets, and to a rehydrator the walk over all users. The trimmer has to be where
// inboxes grow. It asks a rehydrator for what is in gaps; one that only asks has no metrics.
func (s *assembly) retention() {
	r, walks := s.config.Retention, s.has(Rehydrator)
	if walks {
		s.rehydrator = s.newRehydrator(s.opts.Metrics, !elsewhere)
	} else {
		s.rehydrator = s.newRehydrator(nil, !elsewhere)
	}
	s.emptier = retention.NewEmptier(s.parts.Inbox, s.parts.Users, retention.EmptierOptions{
		Rate: r.Rate, Queue: r.Queue, Logger: s.opts.Logger, Metrics: s.opts.Metrics,
	})
	purger := retention.NewPurger(s.parts.Inbox, s.parts.Users, s.rehydrator, retention.PurgerOptions{Rules: s.settings.Rules, Lazy: true})
	s.trimmer = retention.NewTrimmer(s.parts.Inbox, s.parts.Users, purger, s.rehydrator, retention.TrimmerOptions{
		Queue: r.Queue, Workers: trimmers, Rules: s.settings.Rules, Retention: s.settings.Retention, Now: s.opts.Now,
		Trimmed: s.emptier.Queue, Logger: s.opts.Logger, Metrics: s.opts.Metrics,
	})
	loops := []startstop.Loop{s.emptier.Run, s.trimmer.Run}
	if walks {
		s.services.DeadLetters = s.newDeadLetters()
		keeper := retention.NewKeeper(s.parts.Inbox, purger, s.rehydrator, retention.KeeperOptions{
			Rules: s.settings.Rules, Retention: s.settings.Retention, Now: s.opts.Now, Trim: s.trimmer.Trim, Empty: s.emptier.Empty,
		})
		records := r.Rate * recordsPerBucket
		concluder := retention.NewConcluder(s.parts.Walk, s.parts.Progress, s.parts.Messages, retention.ConcluderOptions{
			Canonical: s.settings.Canonical, Rate: records, Now: s.opts.Now, Logger: s.opts.Logger,
			Metrics: s.opts.Metrics,
		})
		collector := retention.NewCollector(
			retention.CollectorStores{Messages: s.parts.Messages, Progress: s.parts.Progress, Edges: s.parts.Edges},
			retention.CollectorOptions{
				Conclude: func(ctx context.Context, _ retention.Round) (int, error) { return concluder.Conclude(ctx) },
				Letters: func(ctx context.Context, r retention.Round) (int, error) {
					return s.services.DeadLetters.Expire(ctx, r.LowWater)
				},
				Rules: s.settings.Rules, Retention: s.settings.Retention, Canonical: s.settings.Canonical, KeysUntil: s.settings.KeysUntil,
				Rate: records, Now: s.opts.Now, Logger: s.opts.Logger, Metrics: s.opts.Metrics,
			})
		walker := retention.NewWalker(s.parts.Walk, s.parts.Users, retention.Options{
			Keep: keeper.Keep, Ended: collector.Due, Freed: s.emptier.Freed, Workers: walkers, Every: r.Every,
			Partitions: s.config.Partitions, Token: rand.Text(), Alone: s.config.Store == config.StoreEmbedded,
			Rules: s.settings.Rules, Retention: s.settings.Retention, Now: s.opts.Now, Logger: s.opts.Logger, Metrics: s.opts.Metrics,
		})
		s.services.Retention = walker
		loops = append(loops, walker.Run, collector.Run)
	}
	s.run("retention", loops...)
}

// grown lets an inbox be trimmed that has grown by a bucket, or got a gap. Its owner may keep fewer messages than others.
func (s *assembly) grown(owner message.UserID) {
	if s.trimmer != nil {
		s.trimmer.Queue(owner)
	}
}
