package main

import (
	"context"
	"slices"
)

// twinPage is the page size for the inboxes of twins.
const twinPage = 50

// checkTwins reads the inboxes of both of each pair, and compares them, message by message. If a user followed or
// unfollowed an author while the author published, one inbox alone may have the message. checkTwins counts all such differences.
func (s *server) checkTwins(ctx context.Context, in input, want *expected, found *report) error {
	return each(ctx, s.workers, in.pairs, func(ctx context.Context, pair [2]string) error {
		var inboxes [2][]entry
		for i, user := range pair {
			got, err := s.readInbox(ctx, user, twinPage, len(want.inboxes[user]), found)
			if err != nil {
				return err
			}
			inboxes[i] = got.entries
		}
		compareTwins(pair, inboxes, want, found)
		return nil
	})
}

func compareTwins(pair [2]string, inboxes [2][]entry, want *expected, found *report) {
	perhaps := make(map[string]bool)
	for _, user := range pair {
		for _, b := range want.inboxes[user] {
			if b.perhaps {
				perhaps[b.ID] = true
			}
		}
	}
	tolerated := 0
	for i, user := range pair {
		other := make(map[string]bool, len(inboxes[1-i]))
		for _, e := range inboxes[1-i] {
			other[e.ID] = true
		}
		inboxes[i] = slices.DeleteFunc(inboxes[i], func(e entry) bool {
			switch {
			case other[e.ID]:
				return false
			case perhaps[e.ID]:
				tolerated++
			default:
				found.add("twins differ", "%s has %s from %s, and %s has not", user, e.ID, e.From, pair[1-i])
			}
			return true
		})
	}
	if !slices.EqualFunc(inboxes[0], inboxes[1], func(a, b entry) bool {
		return a.ID == b.ID && a.From == b.From && a.Body == b.Body && a.Sent.Equal(b.Sent)
	}) {
		found.add("twins differ", "%s and %s have the same messages in another order or with other contents", pair[0], pair[1])
	}
	found.countPair(len(inboxes[0]), tolerated)
}
