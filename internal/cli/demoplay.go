package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// The users of the demo. There are enough followers for the shared scan of large audiences. One in demoDormantEvery followers was
// last seen demoAway ago.
const (
	demoFollowers    = 2000
	demoDormantEvery = 8
	demoAway         = 60 * 24 * time.Hour

	demoAnn message.UserID = "ann"
	demoBen message.UserID = "ben"
)

// demoTalk is the dialog of the celebrities.
var demoTalk = []struct {
	from, to message.UserID
	body     string
}{
	{"nova", "atlas", "New single out at midnight. Don't sleep."},
	{"atlas", "nova", "I was asleep by nine yesterday. I'll need coffee."},
	{"nova", "atlas", "I'm sending a crate. And a drummer."},
	{"atlas", "nova", "The drummer arrived first. The neighbours send regards."},
	{"nova", "atlas", "Tell them the second verse is about them."},
	{"atlas", "nova", "They want a credit."},
	{"nova", "atlas", "They get the bridge. All of it."},
	{"atlas", "nova", "See everybody in Lisbon on Friday?"},
	{"nova", "atlas", "Lisbon! Doors at eight. Bring the neighbours."},
	{"atlas", "nova", "They are already packing."},
}

// demo runs a small scenario on a server.
type demo struct {
	process program.Process
	client  *client.Client
}

// demoMessage is a message of the demo, its expected counts, and its result.
type demoMessage struct {
	draft              message.Draft
	delivered, skipped int64
	id                 message.ID
	fanout             client.Fanout
	took               time.Duration
}

func demoFollower(i int) message.UserID { return message.UserID(fmt.Sprintf("fan-%04d", i)) }

func demoDormant(i int) bool { return i%demoDormantEvery == 0 }

// play creates the users and edges, publishes, waits, and checks.
func (d *demo) play(ctx context.Context) (*demoReport, error) {
	if err := d.populate(ctx); err != nil {
		return nil, err
	}
	messages := d.script()
	begun := d.process.Now()
	if err := d.publishAll(ctx, messages); err != nil {
		return nil, err
	}
	took := d.process.Now().Sub(begun)
	report := newDemoReport(messages, took)
	return report, d.checkInboxes(ctx, messages, report)
}

// populate imports the users and the edges.
func (d *demo) populate(ctx context.Context) error {
	now := d.process.Now()
	seen := []client.Seen{
		{User: "nova", LastViewed: now},
		{User: "atlas", LastViewed: now},
		{User: demoAnn, LastViewed: now},
		{User: demoBen, LastViewed: now},
	}
	var edges []follow.Pair
	for i := range demoFollowers {
		fan, at := demoFollower(i), now
		if demoDormant(i) {
			at = now.Add(-demoAway)
		}
		seen = append(seen, client.Seen{User: fan, LastViewed: at})
		edges = append(edges, follow.Pair{Follower: fan, Followee: "nova"}, follow.Pair{Follower: fan, Followee: "atlas"})
	}
	users, err := d.client.SetSeenBatch(ctx, seen)
	if err != nil {
		return err
	}
	follows, err := d.client.FollowBatch(ctx, edges)
	if err != nil {
		return err
	}
	for _, r := range append(users.Rejected, follows.Rejected...) {
		return fmt.Errorf("the server rejected line %d: %s", r.Line, r.Error)
	}
	return nil
}

// script returns the messages: those of the celebrities, and a direct one in the middle of them.
func (d *demo) script() []*demoMessage {
	var messages []*demoMessage
	dormant := int64((demoFollowers + demoDormantEvery - 1) / demoDormantEvery)
	for _, line := range demoTalk {
		messages = append(messages, &demoMessage{
			draft:     message.Draft{From: line.from, To: []message.UserID{line.to}, Audience: message.AudienceFollowers, Body: line.body},
			delivered: demoFollowers + 1 - dormant, // the other celebrity does not follow, but the message names them
			skipped:   dormant,
		})
	}
	direct := &demoMessage{
		draft:     message.Draft{From: demoAnn, To: []message.UserID{demoBen}, Body: "Are you reading this, too?"},
		delivered: 1,
	}
	return slices.Insert(messages, len(messages)/2, direct)
}

// publishAll publishes the messages in their order, without waiting for their fan-outs. Then it waits until all are done.
func (d *demo) publishAll(ctx context.Context, messages []*demoMessage) error {
	total := int64(0)
	for _, m := range messages {
		total += m.delivered + m.skipped
	}
	bar := newProgress(d.process, "delivering", total)
	defer bar.close()
	group, waiting := errgroup.WithContext(ctx)
	for _, m := range messages {
		published := d.process.Now()
		receipt, err := d.client.Publish(waiting, m.draft, "")
		if err != nil {
			group.Go(func() error { return err })
			break
		}
		m.id = receipt.ID
		group.Go(func() error {
			handled := int64(0)
			status, err := waitDone(waiting, d.client, m.id, func(s client.Status) {
				bar.add(int(s.Fanout.Recipients - handled))
				handled = s.Fanout.Recipients
			})
			m.fanout, m.took = status.Fanout, d.process.Now().Sub(published)
			return err
		})
	}
	return group.Wait()
}
