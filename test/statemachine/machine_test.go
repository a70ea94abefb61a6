package statemachine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/internal/fanout"
	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

const (
	userCount = 14
	// authorCount of the users publish.
	authorCount = 3
	// maxStalled bounds the calls that are stalled at a time.
	maxStalled = 3
)

// TestPipeline publishes, routes, delivers, follows, reads and deletes at random, while actors stall, fail and die at
// any operation, tasks are repeated and lost, and the process crashes. Whenever everything has come to rest, every
// inbox holds exactly what it should, and the counts are exact.
func TestPipeline(t *testing.T) {
	t.Parallel()
	check(t, func(t *rapid.T, w world) {
		m := newMachine(t, w)
		defer m.stop(t)
		t.Repeat(w.weighted(map[string]action{
			"publish":   {4, m.publish},
			"route":     {4, m.route},
			"deliver":   {8, m.deliver},
			"first":     {3, m.first},
			"overtake":  {2, m.overtake},
			"resume":    {2, m.resume},
			"kill":      {1, m.kill},
			"expire":    {2, m.expire},
			"duplicate": {1, m.duplicate},
			"lose":      {1, m.lose},
			"crash":     {1, m.crash},
			"sweep":     {1, m.sweep},
			"conclude":  {1, m.conclude},
			"follow":    {4, m.follow},
			"unfollow":  {2, m.unfollow},
			"subscribe": {4, m.subscribe},
			"age":       {2, m.age},
			"see":       {1, m.see},
			"read":      {1, m.read},
			"mark":      {1, m.mark},
			"delete":    {1, m.delete},
			"purge":     {1, m.purge},
			"rest":      {1, m.rest},
			"":          {1, m.agrees},

			"damage":        {2, m.damage},
			"away":          {2, m.away},
			"redrive":       {1, m.redrive},
			"unsubscribe":   {2, m.unsubscribe},
			"dormant after": {1, m.dormantAfter},
		}))
		m.rest(t)
		// A request that dies may leave an edge open without catching up with what fan-out had passed.
		m.checkPairs(t, m.model.users, func(s stored, user message.UserID) bool { return !m.model.judge(s, user).must })
		m.checkEnd(t)
	})
}

// action is something that happens, and how often compared with others.
type action struct {
	weight int
	do     func(*rapid.T)
}

// weighted returns the actions as rapid takes them, which draws each name as often as any other. It counts in w.done how often each
// action did something: rapid draws another one if an action skips.
func (w world) weighted(actions map[string]action) map[string]func(*rapid.T) {
	byName := make(map[string]func(*rapid.T))
	for name, a := range actions {
		w.done[name] += 0
		do := func(t *rapid.T) {
			a.do(t)
			w.done[name]++
		}
		byName[name] = do
		for n := 1; n < a.weight; n++ {
			byName[fmt.Sprintf("%s %d", name, n+1)] = do
		}
	}
	return byName
}

// machine is the pipeline and its model.
type machine struct {
	rig     *rig.Rig
	clock   *rig.Clock
	model   *model
	workers []*worker
	// stalled are the calls that have been made and have not come to their end.
	stalled []*call
	// earlier holds the inboxes as of the last rest.
	earlier map[message.UserID][]bucket.Bucket
	keys    int // counts the times after which the machine uses new idempotency keys
	// mates are named wherever the users are that they belong to.
	mates map[message.UserID]message.UserID
	// damaged are the users whose records were damaged for a while. They may have been skipped.
	damaged map[message.UserID]bool
	// endings are how the fan-outs of messages ended, as far as a rest has found it.
	endings     map[message.ID]message.Ending
	limit       int // of rehydrations
	batchOwners int // of a batch of fan-out
}

// worker is a host: the stages on a clock of its own.
type worker struct {
	skew      time.Duration
	router    *fanout.Router
	deliverer *fanout.Deliverer
	resumer   *fanout.Resumer
	publisher *publish.Service
	// Rehydrations are carried out, and inboxes rebuilt, by rehydrator alone; inboxes uses it.
	rehydrator *rehydrate.Service
	inboxes    *inbox.Service
}

// call is an actor, with what is to be done when it has come to its end, whichever.
type call struct {
	actor *rig.Actor
	held  *rig.Held
	end   func(t *rapid.T, err error)
}

// batchSizes are so small that a scan takes several batches, and large enough for a batch to have several stretches.
var batchSizes = []int{1, 3}

func newMachine(t *rapid.T, w world) *machine {
	require.NoError(t, w.bus.Clear(t.Context()))
	users := make([]message.UserID, userCount)
	for i := range users {
		users[i] = message.UserID(fmt.Sprintf("u%02d", i))
	}
	m := &machine{clock: rig.NewClock(), model: newModel(users), earlier: make(map[message.UserID][]bucket.Bucket), damaged: make(map[message.UserID]bool), endings: make(map[message.ID]message.Ending)}
	m.batchOwners = rapid.SampledFrom(batchSizes).Draw(t, "owners in a batch")
	var err error
	m.rig, err = rig.OpenSized(t.Context(), w.drawBackend(t), drawBucketSize(t), m.clock, w.bus, m.model)
	require.NoError(t, err)
	m.model.lossless = m.rig.DB.Lossless
	m.hire()
	m.populate(t)
	return m
}

// hire takes on workers with clocks that differ.
func (m *machine) hire() {
	m.workers = nil
	for _, skew := range []time.Duration{0, -700 * time.Millisecond, 800 * time.Millisecond} {
		opts := m.rig.FanoutOptions(skew)
		opts.BatchOwners = m.batchOwners
		rehydrator := m.rig.Rehydrator(skew, m.limit)
		m.workers = append(m.workers, &worker{
			skew:      skew,
			router:    fanout.NewRouter(m.rig.Stores(), m.rig.Bus, opts),
			deliverer: fanout.NewDeliverer(m.rig.Stores(), m.rig.Bus, opts),
			resumer:   fanout.NewResumer(m.rig.Stores(), m.rig.Bus, opts),
			publisher: m.rig.Publisher(skew),

			rehydrator: rehydrator,
			inboxes:    m.rig.InboxesWith(rehydrator, skew),
		})
	}
}

// populate draws who has been seen, who follows whom, and what is in the inboxes: mostly heads that are about to be full.
func (m *machine) populate(t *rapid.T) {
	var appends []bucket.Append
	var seen []message.UserID
	at := m.clock.Now().Add(-time.Minute).Truncate(time.Millisecond)
	for _, user := range m.model.users {
		if rapid.IntRange(0, 5).Draw(t, "seen") == 0 {
			continue
		}
		seen = append(seen, user)
		m.model.seen[user] = look{at: at, horizon: at.Add(rig.DormantAfter)}
		m.model.recorded[user] = m.model.seen[user]
		var entries []bucket.Entry
		for n := range rapid.SampledFrom([]int{0, 0, 46, 48, 49, 50, 98, 99}).Draw(t, "prefilled") {
			entries = append(entries, bucket.Entry{ID: prefilledID(-time.Hour, n), From: "before", Body: "before"})
		}
		if len(entries) > 0 && rapid.IntRange(0, 3).Draw(t, "ahead") == 0 {
			entries[len(entries)-1].ID = prefilledID(time.Hour, 0) // by a clock that was far ahead: what follows is late
		}
		for _, e := range entries {
			m.model.inboxes[user].prefilled = append(m.model.inboxes[user].prefilled, e.ID)
		}
		appends = append(appends, bucket.Append{Owner: user, Entries: entries})
	}
	require.NoError(t, storetest.See(t.Context(), m.rig.Users, at, rig.DormantAfter, seen...))
	results, err := m.rig.Appender.Append(t.Context(), appends)
	require.NoError(t, err)
	for _, r := range results {
		require.NoError(t, r.Err)
	}
	var pairs []follow.Pair
	for _, source := range m.sources() {
		likely := rapid.SampledFrom([]int{3, 3, 2, 1, 0}).Draw(t, "likely to follow")
		for _, user := range m.model.users {
			if user.Source() != source && rapid.IntRange(0, 3).Draw(t, "follows") < likely {
				pairs = append(pairs, follow.Pair{Follower: user, Followee: source})
			}
		}
	}
	_, err = m.rig.Edges.Follow(t.Context(), pairs, m.clock.Now().Add(-time.Minute))
	require.NoError(t, err)
}

// prefilledID returns the id of a message that was sent so long before or after the epoch.
func prefilledID(sent time.Duration, n int) message.ID {
	id := message.MinID(rig.Epoch.Add(sent + time.Duration(n)*time.Millisecond))
	id[6], id[8] = 0x70, 0x80
	return id
}

func (m *machine) stop(t *rapid.T) {
	for _, c := range m.stalled {
		c.actor.Kill()
	}
	require.NoError(t, m.rig.Close())
}

// agrees demands that the stores have answered as the model does.
func (m *machine) agrees(t *rapid.T) { require.NoError(t, m.model.wrong) }

func (m *machine) worker(t *rapid.T) *worker { return rapid.SampledFrom(m.workers).Draw(t, "worker") }

func (m *machine) user(t *rapid.T, label string) message.UserID {
	return rapid.SampledFrom(m.model.users).Draw(t, label)
}

// drawFault draws what befalls a call of so many operations, mostly nothing, and when.
func (m *machine) drawFault(t *rapid.T, operations int) (rig.Fault, int) {
	faults := []rig.Fault{
		rig.None, rig.None, rig.None, rig.None, rig.None, rig.None,
		rig.DieBefore, rig.DieAfter, rig.FailBefore, rig.FailAfter,
	}
	if len(m.stalled) < maxStalled {
		faults = append(faults, rig.StallBefore, rig.StallAfter, rig.StallBefore, rig.StallAfter)
		if operations <= 3 { // there are few places to stall at, and all of them matter
			faults = append(faults, rig.StallBefore, rig.StallAfter, rig.StallBefore, rig.StallAfter)
		}
	}
	fault := rapid.SampledFrom(faults).Draw(t, "fault")
	if fault == rig.None {
		return fault, 0
	}
	return fault, rapid.IntRange(0, operations-1).Draw(t, "operations before the fault")
}

// call makes a call, of about so many operations, that something may befall.
func (m *machine) call(t *rapid.T, operations int, held *rig.Held, do func(ctx context.Context) error, end func(t *rapid.T, err error)) {
	fault, after := m.drawFault(t, operations)
	c := &call{actor: rig.Start(t.Context(), fault, after, do), held: held, end: end}
	m.stalled = append(m.stalled, c)
	m.settle(t)
}

// settle takes note of the calls that have come to their end.
func (m *machine) settle(t *rapid.T) {
	for _, c := range slices.Clone(m.stalled) {
		if !c.actor.Finished() {
			continue
		}
		m.stalled = slices.DeleteFunc(m.stalled, func(other *call) bool { return other == c })
		err := c.actor.Err()
		if err != nil && !c.actor.Died() {
			require.ErrorIs(t, err, rig.ErrInjected)
		}
		if c.actor.Died() && err == nil {
			err = rig.ErrDead // the call may have taken effect, but no caller has its answer
		}
		if c.held != nil {
			require.NoError(t, c.held.Expire(t.Context()))
		}
		c.end(t, err)
	}
}

func (m *machine) pickStalled(t *rapid.T) *call {
	if len(m.stalled) == 0 {
		t.Skip("nobody is stalled")
	}
	return m.stalled[rapid.IntRange(0, len(m.stalled)-1).Draw(t, "stalled")]
}

// resume lets a stalled call go on.
func (m *machine) resume(t *rapid.T) {
	c := m.pickStalled(t)
	c.actor.Resume(m.drawFault(t, 8))
	m.settle(t)
}

// kill lets a stalled call die where it stands.
func (m *machine) kill(t *rapid.T) {
	m.pickStalled(t).actor.Kill()
	m.settle(t)
}

// expire lets the lease of a stalled call run out: another worker receives its task, and the stalled call continues
// later.
func (m *machine) expire(t *rapid.T) {
	if c := m.pickStalled(t); c.held != nil {
		require.NoError(t, c.held.Expire(t.Context()))
	}
}
