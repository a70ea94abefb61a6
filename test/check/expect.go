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
	sent      time.Time
	delivered int64
	skipped   int64
}

// expected is what everything on the server must look like.
type expected struct {
	messages []*message // ascending by id
	byID     map[string]*message
	twice    []string // ids under which several messages were accepted
	badIDs   []string // ids that are no UUIDs of version 7
	// inboxes holds what belongs in each inbox, ascending by id. Users who get nothing have an empty one.
	inboxes map[string][]*message
}

func expect(in input, dormantAfter time.Duration) *expected {
	want := &expected{byID: make(map[string]*message), inboxes: make(map[string][]*message)}
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
	for _, m := range want.messages {
		for user := range audience(m, in) {
			if _, listed := want.inboxes[user]; !listed {
				want.inboxes[user] = nil
			}
			seen, known := in.seen[user]
			if known && !m.sent.After(seen.Add(dormantAfter)) {
				m.delivered++
				want.inboxes[user] = append(want.inboxes[user], m)
			} else {
				m.skipped++
			}
		}
	}
	return want
}

// audience returns everybody whom a message is for, each once.
func audience(m *message, in input) map[string]bool {
	users := make(map[string]bool, len(m.To))
	for _, user := range m.To {
		users[user] = true
	}
	if m.Audience == "followers" {
		for _, user := range in.followers[m.From] {
			users[user] = true
		}
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
