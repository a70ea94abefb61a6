package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// message is a published message with its expected effects.
type message struct {
	published
	sent time.Time
	// recipients is the number of inboxes that the message belongs in. delivered is the number of inboxes that fan-out writes to,
	// skipped the number that it skips.
	recipients, delivered, skipped bounds
}

// bounds are the least and the greatest allowed value of a number.
type bounds struct{ least, most int64 }

// andOne returns the bounds after adding one recipient. If the recipient is not certain, only the upper bound rises.
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
	// perhaps means that the inbox may also lack the message, because it was sent while the recipient's edge to the author was
	// changing.
	perhaps bool
}

// expected is the state that the server must have.
type expected struct {
	messages []*message // ascending by id
	byID     map[string]*message
	twice    []string // ids with which several messages were accepted
	badIDs   []string // ids that are not UUIDs of version 7
	// inboxes has the messages that belong in each inbox, ascending by id. A user without messages has an empty list.
	inboxes map[string][]belonging
	// perhaps counts the uncertain belongings.
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
			case len(in.looks[user]) > 0 || in.twins[user]: // the user may have returned before or after the fan-out
				m.delivered = m.delivered.andOne(false)
				m.skipped = m.skipped.andOne(false)
			default:
				m.skipped = m.skipped.andOne(!perhaps)
			}
		}
	}
	return want
}

// audience returns the recipients of a message without duplicates. The value is true if the recipient is uncertain.
func audience(m *message, in input) map[string]bool {
	users := make(map[string]bool, len(m.To))
	if m.Audience == "followers" {
		for follower, edge := range in.followers[m.From] {
			if holds, perhaps := edge.hold(m.sent); holds || perhaps {
				users[follower] = !holds
			}
		}
	}
	for _, user := range m.To {
		users[user] = false
	}
	return users
}

// timeOf returns the time in a UUID of version 7, or an error.
func timeOf(id string) (time.Time, error) {
	digits := strings.ReplaceAll(id, "-", "")
	if len(id) != 36 || len(digits) != 32 || id[14] != '7' || id != strings.ToLower(id) {
		return time.Time{}, fmt.Errorf("%q is not a UUID of version 7", id)
	}
	millis, err := strconv.ParseInt(digits[:12], 16, 64)
	return time.UnixMilli(millis), err
}
