package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

func (o options) openFanmail() (*client.Client, error) {
	return client.New(fmt.Sprintf("http://127.0.0.1:%d", o.fanmail), client.Options{})
}

// fillFanmail makes the followers active, and follow.
func fillFanmail(ctx context.Context, o options) error {
	fanmail, err := o.openFanmail()
	if err != nil {
		return err
	}
	defer fanmail.Close()
	seen := time.Now()
	for some := range slices.Chunk(followersOf(o.followers), chunk) {
		views, edges := make([]client.Seen, len(some)), make([]follow.Pair, len(some))
		for i, name := range some {
			views[i] = client.Seen{User: message.UserID(name), LastViewed: seen}
			edges[i] = follow.Pair{Follower: message.UserID(name), Followee: message.UserID(author).Source()}
		}
		if err := accepted(fanmail.SetSeenBatch(ctx, views)); err != nil {
			return err
		}
		if err := accepted(fanmail.FollowBatch(ctx, edges)); err != nil {
			return err
		}
	}
	return nil
}

// accepted returns an error unless the server has accepted every line of a batch.
func accepted(result client.BatchResult, err error) error {
	if err == nil && len(result.Rejected) > 0 {
		err = fmt.Errorf("%d lines are rejected; line %d: %s", len(result.Rejected), result.Rejected[0].Line, result.Rejected[0].Error)
	}
	return err
}

// fanmailInboxes are inboxes of a Fanmail server.
type fanmailInboxes struct {
	client *client.Client
	// someone is the owner of one of the inboxes.
	someone string
}

func (f fanmailInboxes) counts(ctx context.Context, owners []string) ([]int, error) {
	users := make([]message.UserID, len(owners))
	for i, owner := range owners {
		users[i] = message.UserID(owner)
	}
	answers, err := f.client.Counts(ctx, users)
	if err != nil {
		return nil, err
	}
	counts := make([]int, len(owners))
	for i, answer := range answers {
		counts[i] = int(answer.Total)
	}
	return counts, nil
}

func (f fanmailInboxes) bodies(ctx context.Context, owner string) ([]string, error) {
	var bodies []string
	for m, err := range f.client.InboxAll(ctx, message.UserID(owner), client.InboxOptions{Peek: true}) {
		if err != nil {
			return nil, err
		}
		bodies = append(bodies, m.Body)
	}
	return bodies, nil
}

// settled reports whether the status of each message in an inbox is done: before that, entries may not be synced yet.
func (f fanmailInboxes) settled(ctx context.Context) (bool, error) {
	for m, err := range f.client.InboxAll(ctx, message.UserID(f.someone), client.InboxOptions{Peek: true}) {
		if err != nil {
			return false, err
		}
		if status, err := f.client.Status(ctx, m.ID); err != nil || status.Fanout.State != message.StateDone {
			return false, err
		}
	}
	return true, nil
}

// fanmailQueue is the publisher of the Fanmail row. The server delivers.
type fanmailQueue struct{ client *client.Client }

func startFanmail(o options) (fanmailQueue, error) {
	fanmail, err := o.openFanmail()
	return fanmailQueue{fanmail}, err
}

func (f fanmailQueue) accept(ctx context.Context, p post) error {
	draft := message.Draft{From: message.UserID(p.From), Audience: message.AudienceFollowers, Body: p.Body}
	_, err := f.client.Publish(ctx, draft, p.ID)
	return err
}

func (f fanmailQueue) stop(context.Context) error {
	f.client.Close()
	return nil
}
