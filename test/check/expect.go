package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// message is what is to become of a published message.
type message struct {
	published
	sent time.Time
	// recipients are how many inboxes it belongs in, delivered how many of them fan-out brings it to, skipped how many
	// it leaves it out of.
	recipients, delivered, skipped bounds
}

// bounds are between what a number has to be, both included.
type bounds struct{ least, most int64 }

// andOne returns the bounds with one more, which need not be there unless it is certain.
func (b bounds) andOne(certain bool) bounds {
	b.most++
	if certain {
		b.least++
	}
	return b
}

func (b bounds) holds(n int64) bool { return b.least <= n && n <= b.most }

func (b bounds) String() string {
	if b.least == b.most {
		return strconv.FormatInt(b.least, 10)
	}
	return fmt.Sprintf("%d to %d", b.least, b.most)
}

// belonging is a message that belongs in an inbox.
type belonging struct {
	*message
	// perhaps tells that it may as well not belong there: it was sent while its recipient began or ceased to follow its author.
	perhaps bool
}

// expected is what everything on the server must look like.
type expected struct {
	messages []*message // ascending by id
	byID     map[string]*message
	twice    []string // ids under which several messages were accepted
	badIDs   []string // ids that are no UUIDs of version 7
	// inboxes holds what belongs in each inbox, ascending by id. Users who get nothing have an empty one.
	inboxes map[string][]belonging
	// perhaps counts the belongings that are not certain.
	perhaps int
}

func expect(in input, opts options) *expected {
	want := &expected{byID: make(map[string]*message), inboxes: make(map[string][]belonging)}
	for _, p := range in.messages {
		sent, err := timeOf(p.ID)
		if err != nil {
			want.badIDs = append(want.badIDs, p.ID)
			continue
		}
		if want.byID[p.ID] != nil {
			want.twice = append(want.twice, p.ID)
			continue
		}
		m := &message{published: p, sent: sent}
		want.byID[p.ID] = m
		want.messages = append(want.messages, m)
	}
	slices.SortFunc(want.messages, func(a, b *message) int { return cmp.Compare(a.ID, b.ID) })
	for user := range in.seen {
		want.inboxes[user] = nil
	}
	for user := range in.looks {
		want.inboxes[user] = nil
	}
	for _, m := range want.messages {
		for user, perhaps := range audience(m, in) {
			want.inboxes[user] = append(want.inboxes[user], belonging{m, perhaps})
			if perhaps {
				want.perhaps++
			}
			m.recipients = m.recipients.andOne(!perhaps)
			seen, known := in.seen[user]
			switch {
			case known && !m.sent.After(seen.Add(opts.dormantAfter)):
				m.delivered = m.delivered.andOne(!perhaps)
			case len(in.looks[user]) > 0 || in.twins[user]: // who had come back by then is not known
				m.delivered = m.delivered.andOne(false)
				m.skipped = m.skipped.andOne(false)
			default:
				m.skipped = m.skipped.andOne(!perhaps)
			}
		}
	}
	return want
}

// audience returns the recipients of a message, each once, and whether each is uncertain.
func audience(m *message, in input) map[string]bool {
	users := make(map[string]bool, len(m.To))
	if m.Audience == "followers" {
		for follower, spans := range in.followers[m.From] {
			if holds, perhaps := spans.hold(m.sent); holds || perhaps {
				users[follower] = !holds
			}
		}
	}
	for _, user := range m.To {
		users[user] = false
	}
	return users
}

// timeOf returns the time in a UUID of version 7.
func timeOf(id string) (time.Time, error) {
	digits := strings.ReplaceAll(id, "-", "")
	if len(id) != 36 || len(digits) != 32 || id[14] != '7' || id != strings.ToLower(id) {
		return time.Time{}, fmt.Errorf("%q is not a UUID of version 7", id)
	}
	millis, err := strconv.ParseInt(digits[:12], 16, 64)
	return time.UnixMilli(millis), err
}
