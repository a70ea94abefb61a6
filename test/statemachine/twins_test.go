package statemachine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// twinCount is how many users come and go.
const twinCount = 3

// TestTwins lets users come and go at random while messages are published and fanned out, attempts at rehydrations
// overlap, stall, fail and die at any operation, and the process crashes. Each user has a twin who gets the same
// messages and was never dormant. Whenever all work has ended and all users have returned, the inboxes of both are equal.
func TestTwins(t *testing.T) {
	t.Parallel()
	check(t, func(t *rapid.T, w world) {
		m := newTwins(t, w)
		defer m.stop(t)
		t.Repeat(w.weighted(map[string]action{
			"publish":   {5, m.publish},
			"late":      {4, m.late},
			"route":     {3, m.route},
			"deliver":   {5, m.deliver},
			"first":     {3, m.first},
			"overtake":  {3, m.overtake},
			"resume":    {4, m.resume},
			"kill":      {1, m.kill},
			"expire":    {1, m.expire},
			"duplicate": {1, m.duplicate},
			"lose":      {1, m.lose},
			"crash":     {1, m.crash},
			"sweep":     {1, m.sweep},
			"conclude":  {1, m.conclude},
			"follow":    {2, m.follow},
			"unfollow":  {1, m.unfollow},
			"subscribe": {2, m.subscribe},
			"age":       {4, m.age},
			"login":     {4, m.login},
			"open":      {2, m.open},
			"set seen":  {2, m.setSeen},
			"work":      {6, m.work},
			"reap":      {2, m.reap},
			"page":      {3, m.page},
			"mark":      {2, m.mark},
			"mark all":  {2, m.markAll},
			"flag":      {3, m.flag},
			"seen":      {1, m.see},
			"look":      {2, m.look},
			"delete":    {2, m.delete},
			"frame":     {5, m.frame},
			"reconnect": {1, m.reconnect},
			"fetch":     {2, m.fetch},
			"purge":     {2, m.purge},
			"empty":     {2, m.empty},
			"walk":      {3, m.walk},
			"retention": {2, m.retention},
			"trim":      {2, m.trim},
			"rest":      {1, m.rest},

			"unsubscribe":   {1, m.unsubscribe},
			"dormant after": {1, m.dormantAfter},
		}))
		m.rest(t)
		m.checkPairs(t, slices.Concat(m.model.users, m.twinsOf()), func(stored, message.UserID) bool { return false })
	})
}

// twins is the pipeline with users who come and go.
type twins struct {
	*machine
	users   []*rig.Twins
	reading *reading
	looks   []looked
	// followers follow the inboxes of the users by frames.
	followers []*follower
}

// reading is a user who pages through their inbox.
type reading struct {
	of     *rig.Twins
	cursor string
	shown  []message.ID
	// there holds the content of the inbox when the reading began.
	there []message.ID
	// crashed says that a crash may have undone the rebuilding of the inbox since then, and the cursor with it.
	crashed bool
}

func newTwins(t *rapid.T, w world) *twins {
	require.NoError(t, w.bus.Clear(t.Context()))
	users := []message.UserID{"author-0", "author-1", "author-2"}
	m := &twins{
		machine: &machine{clock: rig.NewClock(), mates: make(map[message.UserID]message.UserID), endings: make(map[message.ID]message.Ending)},
	}
	for i := range twinCount {
		user := message.UserID(fmt.Sprintf("user-%d", i))
		m.mates[user] = user + "-twin"
		m.users = append(m.users, rig.NewTwins(user, m.mates[user]))
		m.followers = append(m.followers, newFollower(m.users[i]), newFollower(m.users[i]))
		users = append(users, user)
	}
	m.model, m.limit = newModel(users), rapid.SampledFrom([]int{0, 2, 3, 5}).Draw(t, "limit")
	m.batchOwners = rapid.SampledFrom(batchSizes).Draw(t, "owners in a batch")
	var err error
	m.rig, err = rig.OpenSized(t.Context(), w.drawBackend(t), drawBucketSize(t), m.clock, w.bus, m.model)
	require.NoError(t, err)
	m.model.lossless = m.rig.DB.Lossless
	m.hire()
	for i, w := range m.users {
		m.populate(t, i, w)
	}
	return m
}

// populate draws whether a user has been seen, whom they follow, and how much is in their inbox.
func (m *twins) populate(t *rapid.T, i int, w *rig.Twins) {
	var inserted []message.Message
	for n := range rapid.SampledFrom([]int{0, 0, 1, 46, 49, 50, 98}).Draw(t, "prefilled") {
		id := prefilledID(-time.Duration(i+1)*time.Second, n)
		inserted = append(inserted, message.Message{ID: id, From: "author-0", To: []message.UserID{w.User, w.Twin}, Body: "before"})
	}
	_, err := m.rig.Messages.Insert(t.Context(), inserted, rig.Rules().Timing())
	require.NoError(t, err)
	endings, entries := make([]message.Ending, len(inserted)), make([]bucket.Entry, len(inserted))
	for k, before := range inserted {
		endings[k], entries[k] = message.Ending{Ref: before.Ref()}, bucket.EntryOf(before)
	}
	require.NoError(t, m.rig.Messages.Conclude(t.Context(), endings))
	appends := []bucket.Append{{Owner: w.Twin, Entries: entries}}
	if rapid.IntRange(0, 3).Draw(t, "seen") > 0 {
		require.NoError(t, storetest.See(t.Context(), m.rig.DB.Users, m.clock.Now(), rig.DormantAfter, w.User))
		appends = append(appends, bucket.Append{Owner: w.User, Entries: entries})
	}
	require.NoError(t, storetest.See(t.Context(), m.rig.DB.Users, m.clock.Now().AddDate(10, 0, 0), rig.DormantAfter, w.Twin))
	_, err = m.rig.Appender.Append(t.Context(), appends)
	require.NoError(t, err)
	for _, source := range m.sources() {
		if rapid.IntRange(0, 3).Draw(t, "follows") > 0 {
			_, err = m.rig.Edges.Follow(t.Context(), m.pairs(w, source), m.clock.Now().Add(-time.Minute))
			require.NoError(t, err)
		}
	}
}

func (m *twins) pairs(w *rig.Twins, source message.Source) []follow.Pair {
	return []follow.Pair{{Follower: w.User, Followee: source}, {Follower: w.Twin, Followee: source}}
}

func (m *twins) draw(t *rapid.T) *rig.Twins { return rapid.SampledFrom(m.users).Draw(t, "user") }

func (m *twins) drawPairs(t *rapid.T) []follow.Pair {
	return m.pairs(m.draw(t), rapid.SampledFrom(m.model.users[:authorCount]).Draw(t, "author").Source())
}

// follow lets a user and their twin follow an author.
func (m *twins) follow(t *rapid.T) {
	require.NoError(t, m.rig.Following(m.worker(t).skew).Follow(t.Context(), m.drawPairs(t)))
}

// unfollow ends an edge.
func (m *twins) unfollow(t *rapid.T) { m.end(t, m.drawPairs(t)) }

// age lets time pass: either so little that it has no effect, or so much that all users are dormant.
func (m *twins) age(t *rapid.T) {
	ages := []time.Duration{
		time.Millisecond, time.Second, rig.Slack / 2, 2 * rig.Slack,
		rig.DormantAfter - rig.ClockTolerance, rig.DormantAfter, rig.DormantAfter + time.Millisecond, 2 * rig.DormantAfter,
	}
	m.clock.Advance(rapid.SampledFrom(ages).Draw(t, "age"))
	m.keys++
}

// late publishes a message to a user by a clock that is so far behind that the message lies in a gap of the user.
func (m *twins) late(t *rapid.T) {
	w := m.draw(t)
	st := m.rig.State(t.Context(), t, w.User)
	shown, _ := m.rig.ReadInbox(t.Context(), t, w.User, 50)
	in := slices.DeleteFunc(shown, func(id message.ID) bool { return !st.InGap(id.Time()) })
	if len(in) == 0 {
		t.Skip("no message is in a gap")
	}
	sent := rapid.SampledFrom(in).Draw(t, "beside").Time().Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "after")) * time.Millisecond)
	if !st.InGap(sent) {
		t.Skip("it is beside the gap")
	}
	now := m.clock.Now()
	m.clock.Advance(sent.Sub(now))
	defer m.clock.Advance(now.Sub(sent))
	draft := message.Draft{From: "author-0", To: []message.UserID{w.User, w.Twin}, Topics: drawTopics(t), Body: "late"}
	m.published(t, m.rig.Publisher(0).Publish(t.Context(), []publish.Request{{Draft: draft}}))
}

// unlessLate passes over the error of a call that has lain still for too long, by the machine's clock, and gave up.
func unlessLate(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// jumps are those of the clock of a host where a user looks.
var jumps = []time.Duration{0, 0, 0, maxJump, -maxJump, -rig.DormantAfter}

// maxJump is how far a clock jumps ahead at most: much farther than the clocks of the workers differ.
const maxJump = 20 * rig.ClockTolerance

// login lets a user look, who does not wait for what comes of it. The clock there may have jumped: nothing is lost.
func (m *twins) login(t *rapid.T) {
	user, w := m.draw(t).User, m.worker(t)
	at, by := m.clock.Skewed(w.skew)(), w.rehydrator
	if jump := rapid.SampledFrom(jumps).Draw(t, "jump of the clock"); jump != 0 {
		at, by = at.Add(jump), m.rig.Rehydrator(w.skew+jump, m.limit) // another worker takes over what it begins
	}
	m.call(t, 3, nil, func(ctx context.Context) error {
		_, err := by.Login(ctx, user, at, 0)
		return unlessLate(err)
	}, func(*rapid.T, error) {})
}

// open lets a user open their inbox, which counts as looking.
func (m *twins) open(t *rapid.T) {
	user, w := m.draw(t).User, m.worker(t)
	m.call(t, 6, nil, func(ctx context.Context) error {
		_, err := w.inboxes.Read(ctx, user, inbox.Request{Limit: 50})
		return unlessLate(err)
	}, func(*rapid.T, error) {})
}

// setSeen tells when a user was seen, now or long ago.
func (m *twins) setSeen(t *rapid.T) {
	user, w := m.draw(t).User, m.worker(t)
	ago := rapid.SampledFrom([]time.Duration{0, time.Minute, rig.DormantAfter / 2, rig.DormantAfter, 3 * rig.DormantAfter}).Draw(t, "ago")
	m.call(t, 4, nil, func(ctx context.Context) error {
		errs, err := w.inboxes.SetSeen(ctx, []inbox.Seen{{User: user, At: m.clock.Skewed(w.skew)().Add(-ago)}})
		if err == nil && !errors.Is(errs[0], rehydrate.ErrUnfinished) && !errors.Is(errs[0], userstate.ErrBackwards) {
			err = errs[0]
		}
		return unlessLate(err)
	}, func(*rapid.T, error) {})
}

// work carries out a rehydration that waits somewhere.
func (m *twins) work(t *rapid.T) {
	waits := slices.DeleteFunc(slices.Clone(m.workers), func(w *worker) bool { return w.rehydrator.Load().Waiting == 0 })
	if len(waits) == 0 {
		t.Skip("nothing waits")
	}
	w := rapid.SampledFrom(waits).Draw(t, "worker")
	m.call(t, 20, nil, func(ctx context.Context) error {
		w.rehydrator.Work(ctx)
		return nil
	}, func(*rapid.T, error) {})
}

// reap takes over rehydrations whose host is gone or slow.
func (m *twins) reap(t *rapid.T) {
	if rapid.Bool().Draw(t, "leases die") {
		m.clock.Advance(rig.Lease + rig.ClockTolerance)
	}
	w := m.worker(t)
	m.call(t, 2, nil, func(ctx context.Context) error {
		return w.rehydrator.Reap(ctx, m.clock.Skewed(w.skew)())
	}, func(*rapid.T, error) {})
}

// crash is that of the machine.
func (m *twins) crash(t *rapid.T) {
	m.machine.crash(t)
	m.looks = nil
	if m.reading != nil {
		m.reading.crashed = true
	}
}

// page lets a user read the next page. At the end it requires that the user saw every message that was there at the
// beginning, in order and none twice, whatever happened to the inbox meanwhile.
func (m *twins) page(t *rapid.T) {
	limit := rapid.SampledFrom([]int{1, 3, 20, 50}).Draw(t, "limit")
	if m.reading == nil {
		m.reading = &reading{of: m.draw(t)}
		m.reading.there, _ = m.rig.ReadInbox(t.Context(), t, m.reading.of.User, 50)
	}
	r := m.reading
	page, err := m.worker(t).inboxes.Read(t.Context(), r.of.User, inbox.Request{
		Before: r.cursor, Limit: limit, Peek: true, Filter: inbox.Filter{Archived: inbox.ArchivedToo},
	})
	if r.crashed && errors.Is(err, bucket.ErrCursor) || errors.Is(err, userstate.ErrNotFound) { // the user was never seen
		m.reading = nil
		return
	}
	require.NoError(t, err)
	for _, e := range page.Entries {
		if len(r.shown) > 0 {
			require.True(t, e.ID.Less(r.shown[len(r.shown)-1]), "%s is shown after %s", e.ID, r.shown[len(r.shown)-1])
		}
		r.shown = append(r.shown, e.ID)
	}
	if r.cursor = page.Next; r.cursor != "" {
		return
	}
	purged := m.rig.State(t.Context(), t, r.of.User).Purged
	for _, id := range r.there {
		require.True(t, r.of.Deleted[id] || slices.Contains(r.shown, id) || !purged.Less(id), "%s was left out", id)
	}
	m.reading = nil
}

// there returns what of an inbox is in buckets and in gaps, and not still to be rebuilt, and its gaps.
func (m *twins) there(t *rapid.T, w *rig.Twins) (inBuckets, inGaps []message.ID, gaps []userstate.Gap) {
	shown, _ := m.rig.ReadInbox(t.Context(), t, w.User, 50)
	st, buckets := m.rig.State(t.Context(), t, w.User), m.rig.Buckets(t.Context(), t, w.User)
	for _, id := range shown {
		switch {
		case st.InGap(id.Time()):
			inGaps = append(inGaps, id)
		case rig.Holds(buckets, id):
			inBuckets = append(inBuckets, id)
		}
	}
	return inBuckets, inGaps, st.Gaps
}

// undone reports whether a call of a user has done nothing.
func undone(t *rapid.T, err error) bool {
	if errors.Is(err, rehydrate.ErrUnfinished) || errors.Is(err, userstate.ErrNotFound) {
		return true
	}
	require.NoError(t, err)
	return false
}

// mark sets a read mark. It counts for what is in the inbox, and not for what is still to be rebuilt.
func (m *twins) mark(t *rapid.T) {
	w := m.draw(t)
	upTo := m.drawShown(t, w)
	inBuckets, inGaps, gaps := m.there(t, w)
	before := m.rig.State(t.Context(), t, w.User)
	if undone(t, m.worker(t).inboxes.MarkRead(t.Context(), w.User, upTo)) {
		return
	}
	for _, id := range slices.Concat(inBuckets, inGaps) {
		if !upTo.Less(id) {
			w.Read[id] = true
		}
	}
	m.list(t, w, gaps, before)
}

// list notes the gaps that were there when a read mark was stored, if one was.
func (m *twins) list(t *rapid.T, w *rig.Twins, gaps []userstate.Gap, before userstate.State) {
	if after := m.rig.State(t.Context(), t, w.User); after.Marks != before.Marks {
		for _, gap := range gaps {
			w.Listed = append(w.Listed, gap.Stretch().Within(bucket.Stretch{Before: after.ReadMark.UpTo.Next()}))
		}
	}
}

// markAll marks all as read that a user knew.
func (m *twins) markAll(t *rapid.T) {
	l := m.drawLook(t)
	before := m.rig.State(t.Context(), t, l.of.User)
	if undone(t, m.worker(t).inboxes.MarkAllRead(t.Context(), l.of.User, l.cursor)) {
		return
	}
	for _, id := range slices.Concat(l.inBuckets, l.inGaps) {
		l.of.Read[id] = true
	}
	m.list(t, l.of, l.gaps, before)
}

// looked is what a user knew of their inbox when they looked.
type looked struct {
	of        *rig.Twins
	cursor    string
	inBuckets []message.ID
	inGaps    []message.ID
	gaps      []userstate.Gap
}

// look lets a user look at their inbox, and remember the cursor.
func (m *twins) look(t *rapid.T) {
	w := m.draw(t)
	page, err := m.worker(t).inboxes.Read(t.Context(), w.User, inbox.Request{Limit: 1, Peek: true})
	if undone(t, err) {
		return
	}
	l := looked{of: w, cursor: page.Cursor}
	l.inBuckets, l.inGaps, l.gaps = m.there(t, w)
	m.looks = append(m.looks, l)
}

// drawLook returns what a user knew, or knows now if they have not looked.
func (m *twins) drawLook(t *rapid.T) looked {
	if len(m.looks) > 0 && rapid.Bool().Draw(t, "as of a look") {
		return rapid.SampledFrom(m.looks).Draw(t, "look")
	}
	l := looked{of: m.draw(t)}
	l.inBuckets, l.inGaps, l.gaps = m.there(t, l.of)
	return l
}

// see lets a user see all that they knew.
func (m *twins) see(t *rapid.T) {
	l := m.drawLook(t)
	if undone(t, m.worker(t).inboxes.MarkSeen(t.Context(), l.of.User, l.cursor)) {
		return
	}
	for _, id := range l.inBuckets {
		l.of.Seen[id] = true
	}
}

// flag marks some messages one by one, some of which may not be there.
func (m *twins) flag(t *rapid.T) {
	w := m.draw(t)
	ids := []message.ID{m.drawShown(t, w), m.drawShown(t, w)}
	var change flag.Change
	if rapid.Bool().Draw(t, "marks") {
		change.Read = new(rapid.Bool().Draw(t, "read"))
	} else {
		change.Archived = new(rapid.Bool().Draw(t, "archived"))
	}
	marked, err := m.worker(t).inboxes.Mark(t.Context(), w.User, ids, change)
	if undone(t, err) {
		return
	}
	for _, id := range ids {
		switch {
		case slices.Contains(marked.Missing, id):
			inBuckets, inGaps, _ := m.there(t, w)
			require.NotContains(t, slices.Concat(inBuckets, inGaps), id, "missing")
		case change.Read != nil:
			w.Read[id] = *change.Read
		default:
			w.Archived[id] = *change.Archived
		}
	}
}

// delete deletes what an inbox shows, wherever it was found.
func (m *twins) delete(t *rapid.T) {
	w := m.draw(t)
	id := m.drawShown(t, w)
	require.NoError(t, m.worker(t).inboxes.Delete(t.Context(), w.User, id))
	w.Deleted[id] = true
}

// purge lets the messages of a user and their twin expire up to a time: that of a message, or one beside it.
func (m *twins) purge(t *rapid.T) {
	w, by := m.draw(t), m.worker(t)
	until := m.drawShown(t, w).Time().Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "beside")) * time.Millisecond)
	if until.After(m.clock.Now()) || !m.rig.State(t.Context(), t, w.User).Known() {
		t.Skip("it is in the future, or the user was never seen")
	}
	_, err := by.inboxes.Purge(t.Context(), w.Twin, until, false)
	require.NoError(t, err)
	m.call(t, 8, nil, func(ctx context.Context) error {
		_, err := by.inboxes.Purge(ctx, w.User, until, false)
		return unlessLate(err)
	}, func(*rapid.T, error) {})
}

// empty empties buckets of a user or their twin.
func (m *twins) empty(t *rapid.T) {
	w := m.draw(t)
	user := rapid.SampledFrom([]message.UserID{w.User, w.Twin}).Draw(t, "which")
	st := m.rig.State(t.Context(), t, user)
	if st.Purged.IsZero() {
		t.Skip("nothing has expired")
	}
	emptying := bucket.NewEmptying(m.rig.Inbox, user, st.Head, st.Purged)
	m.call(t, 4, nil, func(ctx context.Context) error {
		for {
			if _, more, err := emptying.Step(ctx, 1); err != nil || !more {
				return err
			}
		}
	}, func(*rapid.T, error) {})
}

func (m *twins) drawShown(t *rapid.T, w *rig.Twins) message.ID {
	shown, _ := m.rig.ReadInbox(t.Context(), t, w.User, 50)
	if len(shown) == 0 {
		t.Skip("the inbox is empty")
	}
	return shown[rapid.IntRange(0, min(len(shown), 20)-1).Draw(t, "entry")]
}

// rest lets all work end and all users return, and compares the users with their twins.
func (m *twins) rest(t *rapid.T) {
	m.finish(t)
	w := m.workers[0]
	for _, user := range m.users {
		_, err := w.rehydrator.Login(t.Context(), user.User, m.clock.Now(), 0)
		require.NoError(t, err)
	}
	for worked := true; worked; {
		m.clock.Advance(rig.Lease + maxJump + rig.ClockTolerance)
		require.NoError(t, w.rehydrator.Reap(t.Context(), m.clock.Now()))
		worked = false
		for w.rehydrator.Work(t.Context()) {
			worked = true
		}
	}
	m.finishRounds(t)
	limit := rapid.SampledFrom([]int{2, 5, 49, 50, 51, 200}).Draw(t, "page size")
	for _, user := range m.users {
		m.expireAlike(t, user)
		m.rig.RequireAlike(t.Context(), t, *user, limit)
	}
	m.requireFollowed(t)
	m.requireCounts(t)
}

// requireCounts demands of every message that was fanned out that each of its recipients was counted once: fan-out
// delivers to them, or leaves them to a rehydration.
func (m *twins) requireCounts(t *rapid.T) {
	for _, s := range m.model.messages {
		if s.Void || s.Body == "before" {
			continue
		}
		var named, candidates int64
		for _, user := range slices.Concat(m.model.users, m.twinsOf()) {
			v := m.model.judge(s, user)
			named += count(v.recipient)
			candidates += count(v.candidate)
		}
		counts := m.outcome(t, s.Ref())
		require.LessOrEqual(t, named, counts.Delivered+counts.Skipped, "recipients of %s who were not counted", s.ID)
		require.GreaterOrEqual(t, candidates, counts.Delivered+counts.Skipped, "recipients of %s who were counted in vain", s.ID)
	}
}

func (m *twins) twinsOf() (all []message.UserID) {
	for _, w := range m.users {
		all = append(all, w.Twin)
	}
	return all
}
