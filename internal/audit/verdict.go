package audit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/verdict"
)

// timeLayout is the format of times in sentences: milliseconds, as they are stored.
const timeLayout = "2006-01-02T15:04:05.000Z"

func at(t time.Time) string { return t.UTC().Format(timeLayout) }

// judge returns the verdict that follows from the facts, and its sentence.
func (s operation) judge(e *Explanation) (verdict.Verdict, string) {
	switch {
	case e.expired():
		return verdict.Expired, fmt.Sprintf("%s does not have %s: all messages for them that were sent up to %s have expired.",
			e.User, e.Message, at(e.State.Purged.Time()))
	case e.unknown():
		return verdict.UnknownMessage, e.unknownSentence()
	case e.Entry != nil:
		return s.judgeEntry(e)
	case e.Stored.Void:
		after := "; its publisher was told, and publishes it again under another id."
		if e.Stored.FromFuture() {
			after = "; its publisher was told that it was not published."
		}
		return verdict.Void, s.voidSentence(e.Stored) + after
	case !follow.ForAny(e.Stored.Message, e.User, e.Edges):
		v, why := notFor(e.Stored.Message, e.User, e.Edges)
		return v, why + "."
	case !e.State.Known():
		return verdict.Dormant, fmt.Sprintf("%s does not have %s yet: %s was never seen, so that nothing is copied for them; a rehydration "+
			"recovers it when they look for the first time.", e.User, e.Message, e.User)
	case e.Gap != nil:
		return verdict.InGap, fmt.Sprintf("%s has %s by fan out on read: it was sent at %s, in the gap after %s and before %s, which a "+
			"rehydration left to be read from the canonical store whenever the inbox is paged.",
			e.User, e.Message, at(e.Stored.Sent()), at(e.Gap.After), at(e.Gap.Before))
	default:
		return s.judgeAbsent(e)
	}
}

func (e *Explanation) unknownSentence() string {
	if e.Entry == nil || e.Entry.Deleted {
		return fmt.Sprintf("There is no message %s: check the id.", e.Message)
	}
	return fmt.Sprintf("There is no message %s, although the inbox of %s has an entry of that id in %s: 'fanmail audit --user %s --repair' removes it.",
		e.Message, e.User, e.At, e.User)
}

// judgeEntry judges a message that is, or was, in the inbox.
func (s operation) judgeEntry(e *Explanation) (verdict.Verdict, string) {
	if e.Entry.Deleted {
		return verdict.Deleted, fmt.Sprintf("%s had %s and does not any more: it was deleted from their inbox, and the tombstone in %s keeps it from coming back.",
			e.User, e.Message, e.At)
	}
	v, how := verdict.Delivered, "it was delivered into"
	if e.Entry.Recovered {
		v, how = verdict.Recovered, "a rehydration recovered it into"
	}
	sentence := fmt.Sprintf("%s has %s: %s %s of their inbox.", e.User, e.Message, how, e.At)
	if why := s.extraReason(e.Stored, e.User, e.Edges); why != "" {
		sentence += " But " + why + ": 'fanmail audit --user " + string(e.User) + "' says whether that is tolerated."
	}
	return v, sentence
}

// extraReason returns the reason why a message does not belong in a user's inbox, or "" if it belongs there.
func (s operation) extraReason(m message.Stored, user message.UserID, edges []follow.Edge) string {
	switch {
	case m.Void:
		return s.voidSentence(m)
	case follow.ForAny(m.Message, user, edges):
		return ""
	}
	_, why := notFor(m.Message, user, edges)
	return why
}

func (s operation) voidSentence(m message.Stored) string {
	stored := fmt.Sprintf("%s is void and has no recipients: it was stored at %s, ", m.ID, at(m.StoredAt))
	switch {
	case m.FromFuture():
		return stored + fmt.Sprintf("%v before the time in its id, which was more than clock_tolerance", m.Sent().Sub(m.StoredAt))
	default:
		return stored + fmt.Sprintf("%v after it was sent, which was more than publish_slack", m.StoredAt.Sub(m.Sent()))
	}
}

// notFor returns the reason why a message is not for a user. If it has topics, they decide which verdict it is.
func notFor(m message.Message, user message.UserID, edges []follow.Edge) (verdict.Verdict, string) {
	var whys []string
	v := verdict.NotAddressed
	if len(m.Topics) > 0 {
		var why string
		v, why = notSubscribed(m, edges)
		whys = append(whys, why)
	}
	switch {
	case m.ToFollowers() && m.From == user:
		whys = append(whys, "they sent it to their followers, and it does not name them")
	case m.ToFollowers():
		at := slices.IndexFunc(edges, func(e follow.Edge) bool { return e.Followee == m.From.Source() })
		var edge follow.Edge
		if at >= 0 {
			edge = edges[at]
		}
		then, why := notFollowed(m, edge)
		if whys = append(whys, why); v == verdict.NotAddressed {
			v = then
		}
	case len(m.Topics) == 0:
		whys = append(whys, "it is to a list, which does not name them")
	}
	if m.Blocked > 0 {
		whys = append(whys, fmt.Sprintf("it leaves out users who blocked %s, %d of them, perhaps this one", m.From, m.Blocked))
	}
	return v, fmt.Sprintf("%s is not for %s: %s", m.ID, user, strings.Join(whys, "; and "))
}

// notFollowed returns the reason why a message to followers is not for a user with this edge to the author.
func notFollowed(m message.Message, edge follow.Edge) (verdict.Verdict, string) {
	sent := m.Sent()
	switch {
	case len(edge.Spans) == 0:
		return verdict.NotFollowedThen, fmt.Sprintf("it is to the followers of %s, whom they have never followed", m.From)
	case sent.Before(edge.Spans[0].Since):
		return verdict.NotFollowedYet, fmt.Sprintf("it was sent at %s, and they began to follow %s at %s, %v later",
			at(sent), m.From, at(edge.Spans[0].Since), edge.Spans[0].Since.Sub(sent))
	}
	last, again := around(edge, sent)
	return verdict.NotFollowedThen, fmt.Sprintf("it was sent at %s, and they had ended following %s at %s, %v before%s",
		at(sent), m.From, at(last), sent.Sub(last), again)
}

// around returns when the last span before a time ended, and when the next one began, in words.
func around(edge follow.Edge, sent time.Time) (ended time.Time, again string) {
	next := slices.IndexFunc(edge.Spans, func(span follow.Span) bool { return sent.Before(span.Since) })
	last := edge.Spans[len(edge.Spans)-1]
	if next >= 0 {
		last, again = edge.Spans[next-1], ", and began again only at "+at(edge.Spans[next].Since)
	}
	return last.Until, again
}

// notSubscribed returns the reason why a message to topics is not for a user with these edges.
func notSubscribed(m message.Message, edges []follow.Edge) (verdict.Verdict, string) {
	paths := make([]string, len(m.Topics))
	for i, t := range m.Topics {
		paths[i] = string(t)
	}
	v, sent := verdict.NotSubscribedThen, m.Sent()
	whys := []string{"it is to " + strings.Join(paths, ", ")}
	for _, e := range edges {
		topic, ok := e.Followee.Topic()
		if !ok || len(e.Spans) == 0 {
			continue
		}
		if since := e.Spans[0].Since; sent.Before(since) {
			v = verdict.NotSubscribedYet
			whys = append(whys, fmt.Sprintf("and they subscribed to %s at %s, %v after it was sent", topic, at(since), since.Sub(sent)))
			continue
		}
		last, again := around(e, sent)
		whys = append(whys, fmt.Sprintf("and they had ended their subscription to %s at %s, %v before it was sent%s", topic, at(last), sent.Sub(last), again))
	}
	if len(whys) == 1 {
		whys = append(whys, "and they were never subscribed to any of that or to what is above it")
	}
	return v, strings.Join(whys, ", ")
}

// judgeAbsent judges a message that is for a user who was seen before, lies in no gap, and is not in the inbox.
func (s operation) judgeAbsent(e *Explanation) (verdict.Verdict, string) {
	sent, yet := e.Stored.Sent(), fmt.Sprintf("%s does not have %s yet: ", e.User, e.Message)
	state := e.State
	passed := e.Passed()
	switch {
	case state.Mark != nil && sent.After(state.Mark.From):
		return verdict.Rehydrating, yet + fmt.Sprintf("it was sent at %s, %s, and the rehydration that is due since %s appends it; "+
			"until then, reading the inbox finds it by fan out on read.", at(sent), s.former(state.Mark.From), at(state.Lease.Since))
	case sent.After(e.Horizon):
		return verdict.Dormant, yet + fmt.Sprintf("it was sent at %s, after their horizon, which is %s (last viewed at %s); "+
			"a rehydration recovers it when a view raises the horizon.", at(sent), at(e.Horizon), at(state.LastViewed))
	case !e.Planned && e.WaitingFor == message.WaitingForWorker:
		return verdict.InFlight, yet + fmt.Sprintf("its fan-out has not been planned since it was stored at %s%s.", at(e.Stored.StoredAt), s.waits(e))
	case !e.Planned:
		return verdict.InFlight, yet + fmt.Sprintf("its fan-out has not been planned since it was stored at %s; it is as soon as the router comes to it, "+
			"and is emitted again if that takes too long.", at(e.Stored.StoredAt))
	case !passed && e.Scan.GivenUp:
		return verdict.DeadLettered, fmt.Sprintf("%s does not have %s: an operator gave up its fan-out in their partition, %d, which had come %s.",
			e.User, e.Message, e.Partition, e.position())
	case e.Ending != nil && e.Ending.GivenUp > 0:
		return verdict.DeadLettered, fmt.Sprintf("%s does not have %s: its fan-out was given up in %d of its partitions. It is not recorded any more in which.",
			e.User, e.Message, e.Ending.GivenUp)
	case !passed && e.Scan.Dead:
		return verdict.DeadLettered, fmt.Sprintf("%s does not have %s: its fan-out in their partition, %d, was given up %s: unless its dead letter was dropped, "+
			"'fanmail dlq redrive' lets it go on.", e.User, e.Message, e.Partition, e.position())
	case !passed:
		return verdict.InFlight, yet + fmt.Sprintf("its fan-out in their partition, %d, stands %s and has yet to come to them%s.",
			e.Partition, e.position(), s.waits(e))
	case state.Sweep != nil && !sent.Before(state.Sweep.From):
		return verdict.Rehydrating, yet + fmt.Sprintf("it was sent at %s, and the rehydration that is about to finish looks once more for everything "+
			"sent since %s.", at(sent), at(state.Sweep.From))
	case s.fresh(e.Stored.Message, e.User, e.Edges):
		return verdict.Missing, fmt.Sprintf("%s should have %s and does not yet: it was sent at %s, when their edge to %s had just begun. The request that began it appends "+
			"it if fan-out did not; unless it is there in a moment, 'fanmail audit --user %s --repair' appends it.",
			e.User, e.Message, at(sent), e.followed(), e.User)
	default:
		return verdict.Missing, fmt.Sprintf("%s should have %s and does not: it was sent at %s, before their horizon, which is %s, and its fan-out in their "+
			"partition, %d, has passed them; 'fanmail audit --user %s --repair' appends it.",
			e.User, e.Message, at(sent), at(e.Horizon), e.Partition, e.User)
	}
}

// former describes the horizon that a user had before returning.
func (s *Service) former(horizon time.Time) string {
	if horizon.IsZero() {
		return "and they had no horizon, for they had never been seen"
	}
	return "after the horizon that they had when they came back, which was " + at(horizon)
}

// waits says what the fan-out waits for.
func (s operation) waits(e *Explanation) string {
	switch {
	case e.WaitingFor == "":
		return ""
	case e.WaitingFor == message.WaitingForWorker && s.opts.Waits.None():
		return "; no fan-out worker runs: start one"
	case e.Until.IsZero():
		return "; it waits for: " + string(e.WaitingFor)
	default:
		return fmt.Sprintf("; it waits for: %s, until about %s", e.WaitingFor, at(e.Until))
	}
}

// position describes the position of the scan.
func (e *Explanation) position() string {
	if !e.Scan.Joined || e.Scan.At == "" {
		return "at the beginning"
	}
	return "at " + strconv.Quote(string(e.Scan.At))
}

// followed names the source by which the message is for the user.
func (e *Explanation) followed() string {
	for _, edge := range e.Edges {
		if edge.Holds(e.Stored.Sent()) {
			return edge.Followee.String()
		}
	}
	return string(e.Stored.From)
}

// borderline reports whether a message was sent within PublishSlack of the beginning or end of a span. It may then be in the user's inbox
// although no span holds it: fan-out may have read the edge before the span ended, and clocks differ.
func (s operation) borderline(m message.Message, user message.UserID, edges []follow.Edge) bool {
	near := func(t time.Time) bool { return !t.IsZero() && m.Sent().Sub(t).Abs() <= s.rules.PublishSlack }
	return !m.Names(user) && anySpan(m, edges, func(span follow.Span) bool { return near(span.Since) || near(span.Until) })
}

// fresh reports whether a message is for a user because of spans that began just before the message was sent. Then fan-out may have
// passed the user before the edge was visible, and the request that opened the span may be about to append the message.
func (s operation) fresh(m message.Message, user message.UserID, edges []follow.Edge) bool {
	now := s.opts.Now()
	return !m.Names(user) && anySpan(m, edges, func(span follow.Span) bool {
		return span.Holds(m.Sent()) && m.Sent().Sub(span.Since) <= s.rules.PublishSlack && now.Sub(span.Since) <= s.rules.PublishSlack
	})
}

// anySpan reports whether is holds for any span of the edges to sources of a message.
func anySpan(m message.Message, edges []follow.Edge, is func(follow.Span) bool) bool {
	return slices.ContainsFunc(edges, func(e follow.Edge) bool {
		return m.Reaches(e.Followee) && slices.ContainsFunc(e.Spans, is)
	})
}
