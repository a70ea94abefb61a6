package statemachine_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// model is what the pipeline has to come to, told by what took effect in the stores: messages, edges and views. It
// knows nothing of buckets, tasks or positions.
type model struct {
	users    []message.UserID
	messages []stored
	edges    map[follow.Pair][]version
	moment   int // counts what took effect
	seen     map[message.UserID]look
	// recorded is what of seen survives a crash.
	recorded map[message.UserID]look
	caught   map[follow.Pair][]caughtUp
	inboxes  map[message.UserID]*inboxModel
	// lossless tells that a crash loses no view that has returned.
	lossless bool
	// wrong is the first answer of a store that is not what the model knows.
	wrong error
}

// look is when a user last looked, and until when messages are copied for them.
type look struct{ at, horizon time.Time }

// stored is a message, with the facts known when it was stored. No worker delivered it before.
type stored struct {
	message.Stored
	moment int
	// horizons are those of the users who had looked.
	horizons map[message.UserID]time.Time
}

// version is an edge as it was from a moment on.
type version struct {
	moment int
	edge   follow.Edge
}

// caughtUp records that a Follow has ended. It caught up with messages sent from since on, and up to until unless until is
// zero.
type caughtUp struct{ since, until time.Time }

// inboxModel is what an inbox holds besides what the messages tell.
type inboxModel struct {
	prefilled []message.ID
	deleted   map[message.ID]bool
	read      map[message.ID]bool
	purged    message.ID
}

var _ rig.Observer = (*model)(nil)

func newModel(users []message.UserID) *model {
	m := &model{
		users: users, edges: make(map[follow.Pair][]version), seen: make(map[message.UserID]look), recorded: make(map[message.UserID]look),
		caught: make(map[follow.Pair][]caughtUp), inboxes: make(map[message.UserID]*inboxModel),
	}
	for _, user := range users {
		m.inboxes[user] = &inboxModel{deleted: make(map[message.ID]bool), read: make(map[message.ID]bool)}
	}
	return m
}

func (m *model) disagree(format string, args ...any) {
	if m.wrong == nil {
		m.wrong = fmt.Errorf(format, args...)
	}
}

// Inserted implements rig.Observer.
func (m *model) Inserted(messages []message.Message, stamps []message.Stamp) {
	m.moment++
	for i, inserted := range messages {
		known := slices.IndexFunc(m.messages, func(s stored) bool { return s.ID == inserted.ID })
		if known >= 0 {
			if was := m.messages[known].Stamp; was != stamps[i] {
				m.disagree("message %s was stored as %v, and then as %v", inserted.ID, was, stamps[i])
			}
			continue
		}
		horizons := make(map[message.UserID]time.Time, len(m.seen))
		for user, seen := range m.seen {
			horizons[user] = seen.horizon
		}
		m.messages = append(m.messages, stored{
			Stored: message.Stored{Message: inserted, Stamp: stamps[i]}, moment: m.moment, horizons: horizons,
		})
	}
}

// edge returns an edge as it is now.
func (m *model) edge(p follow.Pair) follow.Edge {
	if versions := m.edges[p]; len(versions) > 0 {
		return versions[len(versions)-1].edge
	}
	return follow.Edge{Follower: p.Follower, Followee: p.Followee}
}

func (m *model) change(p follow.Pair, to follow.Edge) {
	m.moment++
	m.edges[p] = append(m.edges[p], version{moment: m.moment, edge: to})
}

// Followed implements rig.Observer.
func (m *model) Followed(edges []follow.Edge, at time.Time) {
	for _, got := range edges {
		p := follow.Pair{Follower: got.Follower, Followee: got.Followee}
		want, changed := m.edge(p).Follow(at)
		if !slices.EqualFunc(got.Spans, want.Spans, sameSpan) {
			m.disagree("after %v followed %v at %v the spans are %v, not %v", p.Follower, p.Followee, at, got.Spans, want.Spans)
		}
		if changed {
			m.change(p, want)
		}
	}
}

func sameSpan(x, y follow.Span) bool { return x.Since.Equal(y.Since) && x.Until.Equal(y.Until) }

// Unfollowed implements rig.Observer.
func (m *model) Unfollowed(p follow.Pair, at time.Time) {
	if ended, changed := m.edge(p).Unfollow(at); changed {
		m.change(p, ended)
	}
}

// Viewed implements rig.Observer.
func (m *model) Viewed(views []userstate.View, viewed []userstate.Viewed) {
	for i, v := range views {
		before := m.seen[v.User]
		applies := before.horizon.After(v.Beyond)
		if viewed[i].Applied != applies || !viewed[i].Previous.LastViewed.Equal(before.at) {
			m.disagree("a view of %s at %v after %v found %v, and was applied: %v", v.User, v.At, before,
				viewed[i].Previous.LastViewed, viewed[i].Applied)
		}
	}
}

// looked notes that an active user has looked, with the dormant_after that held for it. If the look need not survive a crash, it is lazy.
func (m *model) looked(user message.UserID, at time.Time, dormantAfter time.Duration, lazy bool) {
	seen := m.seen[user]
	at = at.Truncate(time.Millisecond)
	if !at.Before(seen.at) {
		seen.at = at
	}
	if to := at.Add(dormantAfter); !to.Before(seen.horizon.Add(dormantAfter / 32)) {
		seen.horizon = to
	}
	m.seen[user] = seen
	if m.lossless || !lazy {
		m.recorded[user] = seen
	}
}

// is reports whether a user's record says what the model knows.
func (l look) is(st userstate.State) bool {
	return st.LastViewed.Equal(l.at) && st.Horizon.Equal(l.horizon)
}

// crashed takes note of when a user had looked by what a crash has left. Views that were not recorded durably may be lost: then
// nothing is there either that came of them, so that they count for no message.
func (m *model) crashed(st userstate.State) error {
	seen, recorded := m.seen[st.User], m.recorded[st.User]
	if seen.at.IsZero() { // never seen, or not by a view
		return nil
	}
	left := look{at: st.LastViewed, horizon: st.Horizon}
	if left.at.Before(recorded.at) || left.at.After(seen.at) || left.horizon.Before(recorded.horizon) || left.horizon.After(seen.horizon) {
		return fmt.Errorf("after a crash, %s was seen at %v, which is not between %v and %v", st.User, left, recorded, seen)
	}
	m.seen[st.User], m.recorded[st.User] = left, left
	for _, s := range m.messages {
		if s.horizons[st.User].After(left.horizon) {
			s.horizons[st.User] = left.horizon
		}
	}
	return nil
}

// followed notes that a Follow, by a clock that showed now, has come to its end.
func (m *model) followed(p follow.Pair, now time.Time) {
	spans := m.edge(p).Spans
	if len(spans) == 0 {
		m.disagree("%s follows %s, but there is no edge", p.Follower, p.Followee)
		return
	}
	since := spans[len(spans)-1].Since
	done := caughtUp{since: since}
	if since.Before(now.Truncate(time.Millisecond)) {
		done.until = since.Add(rig.Slack) // it was a repetition
	}
	m.caught[p] = append(m.caught[p], done)
}

// judgement is what holds of a message and a user in the end.
type judgement struct {
	// recipient tells that fan-out comes across the user for certain, candidate that it may.
	recipient, candidate bool
	// must tells that the message has to be in the inbox, may that it is allowed to be.
	must, may bool
	// warm tells that the user was active for the message when it was stored, late that they are now.
	warm, late bool
}

// judge tells what holds of a message and a user now. Most of the time there are no two opinions; there are where the edge
// or the user's state changed after the message had been stored, and fan-out may have passed before or after.
func (m *model) judge(s stored, user message.UserID) (v judgement) {
	if s.Void {
		return judgement{}
	}
	v.warm, v.late = delivers(s.horizons[user], s.Sent()), delivers(m.seen[user].horizon, s.Sent())
	v.recipient = s.Names(user)
	v.candidate, v.must = v.recipient, v.recipient
	for _, pair := range follow.Pairs(s.Message, user) {
		always, ever := m.held(s, pair)
		v.recipient, v.candidate = v.recipient || always, v.candidate || ever
		v.must = v.must || always || follow.For(s.Message, user, m.edge(pair)) && m.hasCaughtUp(pair, s.Sent())
	}
	v.must, v.may = v.must && v.warm, v.candidate && v.late
	return v
}

// held tells whether a message was always for the follower of an edge since it was stored, and whether it ever was.
func (m *model) held(s stored, pair follow.Pair) (always, ever bool) {
	always = true
	before := follow.Edge{}
	for _, version := range m.edges[pair] {
		if version.moment < s.moment {
			before = version.edge
			continue
		}
		holds := follow.For(s.Message, pair.Follower, version.edge)
		always, ever = always && holds, ever || holds
	}
	holds := follow.For(s.Message, pair.Follower, before)
	return always && holds, ever || holds
}

// hasCaughtUp reports whether a Follow has caught up with messages sent at a time. It is the Follow that opened the span
// around that time.
func (m *model) hasCaughtUp(p follow.Pair, sent time.Time) bool {
	for _, span := range m.edge(p).Spans {
		if !span.Holds(sent) {
			continue
		}
		for _, c := range m.caught[p] {
			if c.since.Equal(span.Since) && (c.until.IsZero() || !sent.After(c.until)) {
				return true
			}
		}
	}
	return false
}

// leaves reports whether fan-out currently leaves a user's message to the rehydration of that user.
func (m *model) leaves(s stored, user message.UserID) bool {
	var edges []follow.Edge
	for _, pair := range follow.Pairs(s.Message, user) {
		edges = append(edges, m.edge(pair))
	}
	return !s.Void && follow.ForAny(s.Message, user, edges) && !delivers(m.seen[user].horizon, s.Sent())
}

// delivers reports whether fan-out copies what was sent at a time for a user with a horizon, if there is one.
func delivers(horizon, sent time.Time) bool { return !sent.After(horizon) }

func (m *model) known(user message.UserID) bool { return !m.seen[user].at.IsZero() }
