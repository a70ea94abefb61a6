package rig

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/fanout"
	"github.com/fanmail/fanmail/internal/following"
	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/internal/topics"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// The limits of the rig are so small that a handful of users fills every lane and several batches.
const (
	Partitions   = 2
	DirectMax    = 2
	MediumMax    = 6
	BatchOwners  = 3
	Slack        = time.Minute
	KeyTTL       = time.Hour
	ResumeAfter  = 5 * time.Minute
	DormantAfter = time.Hour
	// ViewedEvery is how often page views are recorded.
	ViewedEvery    = DormantAfter / 64
	ClockTolerance = 2 * time.Second
	// Lease is that of a rehydration.
	Lease = 30 * time.Second
	// RehydratePage is how many messages a rehydration reads and appends at a time.
	RehydratePage = 3
)

// Rules returns the rules of a rig.
func Rules() userstate.Rules {
	return userstate.Rules{DormantAfter: DormantAfter, ClockTolerance: ClockTolerance, PublishSlack: Slack}
}

// Rig is one process on a database, with all the stages. A crash ends it and leaves the database behind, for the next.
type Rig struct {
	Clock *Clock
	Bus   *Bus
	// DB is the database without a seam. What follows has one.
	DB       *DB
	Messages message.Store
	Keys     message.KeyStore
	Progress progress.Store
	Users    userstate.Store
	Edges    follow.Store
	Inbox    bucket.Store
	Topics   topic.Store
	Flags    flag.Store
	Appender *bucket.Appender
	// Damage damages records. DB has none of it.
	Damage *Damage
	// Shards lets a part of the database be away. DB knows nothing of it.
	Shards *Shards
	// Rules are the rules of all services that are made from now on.
	Rules userstate.Rules
	// MaxEdges is how many edges a user may have by the services that are made from now on; 0 for no limit.
	MaxEdges int
	// Retention is what of inboxes is kept.
	Retention *atomic.Pointer[userstate.Retention]

	observer Observer
}

// Open opens a rig on an embedded store of its own. Close it.
func Open(ctx context.Context, clock *Clock, bus *Bus, observer Observer) (*Rig, error) {
	return OpenOn(ctx, Embedded{}, clock, bus, observer)
}

// OpenOn opens a rig on a database of its own. Close it.
func OpenOn(ctx context.Context, backend Backend, clock *Clock, bus *Bus, observer Observer) (*Rig, error) {
	return OpenSized(ctx, backend, bucket.Capacity, clock, bus, observer)
}

// OpenSized is OpenOn with buckets of a size.
func OpenSized(ctx context.Context, backend Backend, size int, clock *Clock, bus *Bus, observer Observer) (*Rig, error) {
	db, err := backend.Create(ctx, clock, size)
	if err != nil {
		return nil, err
	}
	if observer == nil {
		observer = blind{}
	}
	return newRig(db, clock, bus, observer, newDamage()), nil
}

func newRig(db *DB, clock *Clock, bus *Bus, observer Observer, damage *Damage) *Rig {
	shards := new(Shards)
	r := &Rig{
		Clock: clock, Bus: bus, DB: db, Damage: damage, Shards: shards, Rules: Rules(),
		Retention: new(atomic.Pointer[userstate.Retention]), observer: observer,
		Messages: &Messages{Store: shardedMessages{db.Messages, shards}, observer: observer},
		Keys:     Keys{db.Keys},
		Progress: Progress{shardedProgress{db.Progress, shards}},
		Users:    &Users{Store: shardedUsers{damagedUsers{db.Users, damage}, shards}, observer: observer},
		Edges:    &Edges{Store: shardedEdges{db.Edges, shards}, observer: observer},
		Inbox:    Inbox{shardedInbox{damagedInbox{db.Inbox, damage}, shards}},
		Topics:   Topics{db.Topics},
		Flags:    Flags{db.Flags},
	}
	r.Retention.Store(new(userstate.Retention))
	r.Appender = bucket.NewAppender(r.Inbox, r.Users)
	return r
}

func (r *Rig) retention() userstate.Retention { return *r.Retention.Load() }

// Close closes the database.
func (r *Rig) Close() error { return r.DB.close() }

// Crash returns the rig that comes up after a crash. It keeps a part of the writes that
// were not durable; the seed decides which. No actor may be running. Services of the old rig no longer work, and work that
// waited in them is lost.
func (r *Rig) Crash(ctx context.Context, unsyncedPercent int, seed uint64) (*Rig, error) {
	db, err := r.DB.crash(ctx, unsyncedPercent, seed)
	if err != nil {
		return nil, err
	}
	after := newRig(db, r.Clock, r.Bus, r.observer, r.Damage)
	after.Rules = r.Rules
	after.Retention.Store(r.Retention.Load())
	return after, nil
}

// current returns the rules that the rig has now, for a service.
func (r *Rig) current() func() userstate.Rules {
	rules := r.Rules
	return func() userstate.Rules { return rules }
}

// FanoutOptions returns the options of a worker whose clock is ahead of the rig's by skew.
func (r *Rig) FanoutOptions(skew time.Duration) fanout.Options {
	return fanout.Options{
		Partitions: Partitions, Rules: r.current(),
		DirectMax: DirectMax, MediumMax: MediumMax, ClassCache: 8, ClassTTL: time.Minute, HeadStarts: true,
		Workers:     map[event.Lane]int{event.Medium: 1, event.Bulk: 1},
		BatchOwners: BatchOwners, BatchTasks: 8, BatchBytes: 16 << 20, RouteEvents: 8,
		ExtendEvery: time.Hour, StuckAfter: time.Hour, MaxAttempts: 1000,
		ResumeAfter: ResumeAfter, ResumeEvery: time.Hour, Patience: time.Hour,
		Now: r.Clock.Skewed(skew), Logger: zerolog.Nop(),
	}
}

// Stores returns the stores that fan-out works on.
func (r *Rig) Stores() fanout.Stores {
	return fanout.Stores{
		Messages: r.Messages, Progress: r.Progress, Users: r.Users, Edges: r.Edges, Appender: r.Appender,
		Round: func(ctx context.Context) (int64, error) {
			return through(ctx, "Round", func() (int64, error) { return retention.Number(r.DB.Walk)(ctx) })
		},
	}
}

// Publisher returns a publisher whose clock is ahead of the rig's by skew. To it all topics exist.
func (r *Rig) Publisher(skew time.Duration) *publish.Service {
	return publish.New(r.Messages, r.Keys, r.Bus, publish.Options{
		Limits: message.DefaultLimits(), Rules: r.current(), KeyTTL: func() time.Duration { return KeyTTL },
		Now: r.Clock.Skewed(skew), Random: UniqueBytes{}, Logger: zerolog.Nop(),
		Unknown: func(context.Context, []message.Topic) ([]message.Topic, error) { return nil, nil },
	})
}

// Following returns a following service whose clock is ahead of the rig's by skew.
func (r *Rig) Following(skew time.Duration) *following.Service {
	return following.New(r.Edges, r.Messages, r.Users, r.Appender, following.Options{
		Partitions: Partitions, Rules: r.current(), Max: r.MaxEdges, Now: r.Clock.Skewed(skew), Clock: r.StoreClock(skew),
	})
}

// TopicService returns a service of topics whose clock is ahead of the rig's by skew.
func (r *Rig) TopicService(skew time.Duration) *topics.Service {
	return topics.New(r.Topics, r.Edges, r.Following(skew), topics.Options{
		Partitions: Partitions, Now: r.Clock.Skewed(skew),
	})
}

// Inboxes returns an inbox service whose clock is ahead of the rig's by skew, with a rehydrator of its own.
func (r *Rig) Inboxes(skew time.Duration) *inbox.Service {
	return r.InboxesWith(r.Rehydrator(skew, 0), skew)
}

// InboxesWith returns an inbox service whose clock is ahead of the rig's by skew.
func (r *Rig) InboxesWith(rehydrator *rehydrate.Service, skew time.Duration) *inbox.Service {
	stores := inbox.Stores{Buckets: r.Inbox, Users: r.Users, Appender: r.Appender, Flags: r.Flags}
	return inbox.New(stores, rehydrator, inbox.Options{
		Rules: r.current(), ViewedEvery: ViewedEvery, Epoch: r.DB.Epoch, Retention: r.retention, Now: r.Clock.Skewed(skew),
		Expired: retention.Expired(r.DB.Walk, r.current()), Clock: r.StoreClock(skew),
		Trim: r.Walker(skew).TrimUser,
	})
}

// Rehydrator returns a rehydrator whose clock is ahead of the rig's by skew, and which appends at most limit messages
// for a user; 0 means all. Nothing runs: its Work carries out one rehydration that waits.
func (r *Rig) Rehydrator(skew time.Duration, limit int) *rehydrate.Service {
	opts := r.RehydrateOptions(skew)
	opts.Limit = limit
	return rehydrate.New(r.RehydrateStores(), opts)
}

// RehydrateStores returns the stores that rehydration works on.
func (r *Rig) RehydrateStores() rehydrate.Stores {
	return rehydrate.Stores{Messages: r.Messages, Users: r.Users, Edges: r.Edges, Appender: r.Appender}
}

// RehydrateOptions returns the options of a rehydrator whose clock is ahead of the rig's by skew. It has no patience: what
// would wait for a rehydration says at once that it is not finished.
func (r *Rig) RehydrateOptions(skew time.Duration) rehydrate.Options {
	return rehydrate.Options{
		Rules: r.current(), Retention: r.retention,
		Expired: retention.Expired(r.DB.Walk, r.current()),
		Workers: 1, Queue: 100, Page: RehydratePage, Lease: Lease, ReapEvery: time.Hour, MaxAttempts: 1000,
		Token: rand.Text, Now: r.Clock.Skewed(skew), Logger: zerolog.Nop(),
	}
}

// Walker returns a walker whose clock is ahead of the rig's by skew. A round is due a second after the last one began.
func (r *Rig) Walker(skew time.Duration) *retention.Walker {
	return retention.New(r.RetentionStores(), r.Rehydrator(skew, 0), r.RetentionOptions(skew))
}

// StoreClock returns what reads the clock of the store, and tells whether that of a host agrees with it that is ahead by skew.
func (r *Rig) StoreClock(skew time.Duration) func(context.Context) (time.Time, bool, error) {
	return func(context.Context) (time.Time, bool, error) {
		return r.Clock.Now(), skew.Abs() <= r.Rules.ClockTolerance, nil
	}
}

// BeginRound records a round as of now, as the walk does: what expires by age does so as of the last round.
func (r *Rig) BeginRound(ctx context.Context, t require.TestingT) {
	last, err := r.DB.Walk.Load(ctx)
	require.NoError(t, err)
	next := last
	next.AsOf = r.Clock.Now()
	require.NoError(t, r.DB.Walk.Replace(ctx, last, next))
}

// RetentionStores returns the stores of Walker.
func (r *Rig) RetentionStores() retention.Stores {
	return retention.Stores{
		Rounds: r.DB.Walk, Passes: r.DB.Passes, Users: r.Users, Buckets: r.Inbox, Messages: r.Messages, Progress: r.Progress, Edges: r.Edges,
	}
}

// RetentionOptions returns the options of Walker.
func (r *Rig) RetentionOptions(skew time.Duration) retention.Options {
	return retention.Options{
		Rules: r.current(), Retention: r.retention, Canonical: func() time.Duration { return 365 * 24 * time.Hour }, KeysUntil: func() time.Time { return time.Time{} },
		Queue: 10, Every: time.Second, Clock: r.StoreClock(skew), Elapsed: func() time.Duration { return r.Clock.Now().Sub(Epoch) }, Partitions: Partitions, Token: rand.Text(), Now: r.Clock.Skewed(skew), Logger: zerolog.Nop(),
	}
}

// UniqueBytes makes ids that are unique in this process, and whose order does not depend on chance: a bus that
// remembers the ids of earlier runs must not take new ones for repeats.
type UniqueBytes struct{}

var uniqueCounter atomic.Uint64

// Read implements io.Reader.
func (UniqueBytes) Read(p []byte) (int, error) {
	clear(p)
	binary.BigEndian.PutUint64(p, uniqueCounter.Add(1))
	return len(p), nil
}
