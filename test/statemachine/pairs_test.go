package statemachine_test

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/pkg/verdict"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

var (
	// visible are the verdicts of messages that the pages of a user show.
	visible = []verdict.Verdict{verdict.Delivered, verdict.Recovered, verdict.InGap, verdict.Dormant, verdict.Rehydrating}
	// gone are the verdicts of messages that a user had, or may have had.
	gone = []verdict.Verdict{verdict.Expired, verdict.Deleted, verdict.Void}
	// others are the verdicts of messages that are for other users.
	others = []verdict.Verdict{verdict.NotFollowedThen, verdict.NotFollowedYet, verdict.NotSubscribedThen, verdict.NotSubscribedYet, verdict.NotAddressed}
)

// checkPairs demands of every message and user that pages, fan-out, Audit and Explain agree. Everything is at rest. mayMiss tells of which
// messages a user may have none although they are for the user.
func (m *machine) checkPairs(t *rapid.T, users []message.UserID, mayMiss func(s stored, user message.UserID) bool) {
	auditor := newAuditor(m.rig)
	for _, user := range users {
		p := pairs{machine: m, user: user}
		p.pages, _ = m.rig.ReadInbox(t.Context(), t, user, 50)
		summary := p.audit(t, auditor)
		expected := int64(0)
		for _, s := range m.model.messages {
			e, err := auditor.Explain(t.Context(), user, s.ID)
			require.NoError(t, err)
			p.check(t, s, e)
			require.True(t, e.Verdict != verdict.Missing || mayMiss(s, user), e.Sentence)
			expected += count(expects(e))
		}
		require.Empty(t, p.found, "findings of %s that Explain knows nothing of", user)
		require.Equal(t, expected, summary.Expected, "messages that the inbox of %s has to hold", user)
	}
}

// expects reports whether by what Explain tells the message has to be in the inbox.
func expects(e audit.Explanation) bool {
	return e.Verdict != verdict.Expired && e.Verdict != verdict.Deleted && e.Verdict != verdict.Void && e.Gap == nil && !e.Stored.Sent().After(e.Horizon) && e.State.Known() &&
		follow.ForAny(e.Stored.Message, e.User, e.Edges)
}

// pairs are a user and each message.
type pairs struct {
	*machine
	user message.UserID
	// pages are the messages that the pages of the user show.
	pages []message.ID
	// found is what Audit finds, by message.
	found map[message.ID]audit.Finding
}

// check compares what is known of the user and one message, and removes what Audit finds of the message.
func (p *pairs) check(t *rapid.T, s stored, e audit.Explanation) {
	v := p.model.judge(s, p.user)
	finding, found := p.found[s.ID]
	delete(p.found, s.ID)
	switch {
	case e.Verdict == verdict.Missing:
		require.Equal(t, verdict.MissingEntry, finding.Kind, e.Sentence)
	case found:
		// A request that ends an edge stalls, and fan-out delivers what is sent meanwhile.
		require.Equal(t, verdict.ExtraEntry, finding.Kind, finding.Detail)
		require.True(t, v.candidate && !follow.ForAny(s.Message, p.user, e.Edges), finding.Detail)
	}
	require.True(t, !e.State.Known() || slices.Contains(visible, e.Verdict) == slices.Contains(p.pages, s.ID), "pages of %s show it or not, but: %s", p.user, e.Sentence)

	inBucket := e.Entry != nil && !e.Entry.Deleted && !e.Entry.Expired
	require.Equal(t, e.Verdict == verdict.Delivered || e.Verdict == verdict.Recovered, inBucket && e.Verdict != verdict.Expired, e.Sentence)
	require.False(t, v.recipient && slices.Contains(others, e.Verdict), "it is for %s, but: %s", p.user, e.Sentence)
	require.True(t, v.candidate || slices.Contains(others, e.Verdict) || slices.Contains(gone, e.Verdict), "it is not for %s, but: %s", p.user, e.Sentence)
}

// audit audits the user. It passes over entries that are there since the beginning, and are of no message.
func (p *pairs) audit(t *rapid.T, auditor *audit.Service) verdict.Summary {
	p.found = make(map[message.ID]audit.Finding)
	summary, err := auditor.Audit(t.Context(), audit.Request{User: p.user}, func(e audit.Event) error {
		if e.Finding != nil {
			p.found[e.Finding.Message] = *e.Finding
		}
		return nil
	})
	require.NoError(t, err)
	require.Zero(t, summary.InFlight+summary.DeadLettered+summary.Rehydrating, "audit of %s", p.user)
	if box, ok := p.model.inboxes[p.user]; ok {
		for _, id := range box.prefilled {
			if f, found := p.found[id]; found {
				require.Equal(t, verdict.ExtraEntry, f.Kind, f.Detail)
				delete(p.found, id)
			}
		}
	}
	return summary
}

// newAuditor returns an audit service by the rules that a rig has now.
func newAuditor(r *rig.Rig) *audit.Service {
	rules := r.Rules
	return audit.New(audit.Stores{
		Messages: r.Messages, Progress: r.Progress, Users: r.Users, Edges: r.Edges, Flags: r.Flags, Buckets: r.Inbox, Appender: r.Appender,
	}, audit.Options{
		Partitions: rig.Partitions, Rules: func() userstate.Rules { return rules }, CatchUp: time.Millisecond, Now: r.Clock.Now,
		Recount: r.Rehydrator(0, 0).Recount,
	})
}
