//go:build older

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// callers is the number of goroutines that send requests. Each has users and an author of its own, so that it knows the order of what
// happens to them. The messages to all users come from all callers.
const callers = 6

// workload sends requests to servers, and knows what the inboxes must show.
type workload struct {
	*expected
	servers []*client.Client
	callers []*caller
	looks   atomic.Int64
	logins  atomic.Int64
	changes atomic.Int64
	deleted atomic.Int64
}

// caller is what one goroutine knows.
type caller struct {
	*workload
	number int
	random *rand.Rand
	author message.UserID
	// here are the users who are active, away those who are not.
	here, away []message.UserID
	follows    map[message.UserID]bool // who follows the author
	keys       int
}

func newWorkload(seed uint64) *workload {
	l := &workload{expected: newExpected()}
	for n := range callers {
		c := &caller{workload: l, number: n, random: rand.New(rand.NewPCG(seed, uint64(n))), author: active(n), follows: make(map[message.UserID]bool)}
		for i := n; i < len(fans()); i += callers {
			if i < actives {
				c.here = append(c.here, fans()[i])
			} else {
				c.away = append(c.away, fans()[i])
			}
		}
		l.callers = append(l.callers, c)
	}
	return l
}

// begin lets all users follow the star, and makes some of them dormant.
func (l *workload) begin(ctx context.Context) error {
	var (
		views []client.Seen
		pairs []follow.Pair
	)
	for i, user := range fans() {
		switch {
		case i < actives:
			views = append(views, client.Seen{User: user, LastViewed: time.Now()})
		case i < actives+dormants:
			views = append(views, client.Seen{User: user, LastViewed: longAgo})
		}
		pairs = append(pairs, follow.Pair{Follower: user, Followee: star.Source()})
	}
	if _, err := l.servers[0].SetSeenBatch(ctx, views); err != nil {
		return err
	}
	_, err := l.servers[0].FollowBatch(ctx, pairs)
	return err
}

// run lets every caller take so many turns, all callers at the same time.
func (l *workload) run(ctx context.Context, turns int) error {
	working, ctx := errgroup.WithContext(ctx)
	for _, c := range l.callers {
		working.Go(func() error {
			for range turns {
				if err := c.turn(ctx); err != nil {
					return fmt.Errorf("caller %d: %w", c.number, err)
				}
			}
			return nil
		})
	}
	return working.Wait()
}

// await waits until the fan-out of all messages is done.
func (l *workload) await(ctx context.Context) error {
	for _, id := range l.ids() {
		if _, err := l.servers[0].WaitDone(ctx, id, 0); err != nil {
			return err
		}
	}
	return nil
}

// server returns a random server.
func (c *caller) server() *client.Client { return c.servers[c.random.IntN(len(c.servers))] }

// turn does one random thing.
func (c *caller) turn(ctx context.Context) error {
	const rareLogin = 3 // so that users return in every part of the test
	switch n := c.random.IntN(20); {
	case n < 3:
		return c.publish(ctx, toFollowers(star, "news"), fans()...)
	case n < 7:
		some := slices.Clone(fans())
		c.random.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		some = some[:1+c.random.IntN(6)]
		return c.publish(ctx, direct(poet, "a verse", some...), some...)
	case n < 11:
		return c.changeEdge(ctx)
	case n < 12 && len(c.away) > 0 && c.random.IntN(rareLogin) == 0:
		return c.login(ctx)
	default:
		return c.useInbox(ctx)
	}
}

// publish publishes a message, and every third time repeats that at another server.
func (c *caller) publish(ctx context.Context, draft message.Draft, recipients ...message.UserID) error {
	c.keys++
	key := fmt.Sprintf("%d-%d", c.number, c.keys)
	receipt, err := c.server().Publish(ctx, draft, key)
	if err != nil {
		return err
	}
	c.add(receipt.ID, recipients...)
	if c.random.IntN(3) > 0 {
		return nil
	}
	again, err := c.server().Publish(ctx, draft, key)
	if err == nil && again.ID != receipt.ID {
		err = fmt.Errorf("the message with the key %s was published twice, as %s and %s", key, receipt.ID, again.ID)
	}
	return err
}

// changeEdge lets a user begin or cease to follow the author, who then publishes to the followers.
func (c *caller) changeEdge(ctx context.Context) error {
	users := slices.Concat(c.here, c.away)
	user := users[c.random.IntN(len(users))]
	if user == c.author {
		return nil
	}
	change := c.server().Follow
	if c.follows[user] {
		change = c.server().Unfollow
	}
	if err := change(ctx, user, c.author); err != nil {
		return err
	}
	c.changes.Add(1)
	c.follows[user] = !c.follows[user]
	var followers []message.UserID
	for _, u := range users {
		if c.follows[u] {
			followers = append(followers, u)
		}
	}
	if err := c.publish(ctx, toFollowers(c.author, "to those who follow now"), followers...); err != nil {
		return err
	}
	return c.nextMillisecond(ctx)
}

// nextMillisecond returns when the clock has a later millisecond: a message is not for a user who ceases to follow in the same one.
func (c *caller) nextMillisecond(ctx context.Context) error {
	for begin := time.Now().UnixMilli(); time.Now().UnixMilli() <= begin; {
		if err := pause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// login lets a user return.
func (c *caller) login(ctx context.Context) error {
	i := c.random.IntN(len(c.away))
	for {
		got, err := c.server().Login(ctx, c.away[i], client.DefaultLoginWait)
		if err != nil {
			return err
		}
		if got.State == client.Active {
			break
		}
	}
	c.logins.Add(1)
	c.here = append(c.here, c.away[i])
	c.away = slices.Delete(c.away, i, i+1)
	return nil
}

// errTwice says that a page shows a message twice, or an older message before a newer one.
var errTwice = errors.New("a page is not strictly in order")

// useInbox looks at a page of an active user, and deletes a message or marks messages as read.
func (c *caller) useInbox(ctx context.Context) error {
	user := c.here[c.random.IntN(len(c.here))]
	page, err := c.server().Inbox(ctx, user, client.InboxOptions{})
	if err != nil {
		return err
	}
	c.looks.Add(1)
	for i := 1; i < len(page.Messages); i++ {
		if !page.Messages[i].ID.Less(page.Messages[i-1].ID) {
			return fmt.Errorf("%w: %s in the inbox of %s", errTwice, page.Messages[i].ID, user)
		}
	}
	if len(page.Messages) == 0 {
		return nil
	}
	id := page.Messages[c.random.IntN(len(page.Messages))].ID
	switch c.random.IntN(4) {
	case 0:
		if err := c.server().Delete(ctx, user, id); err != nil {
			return err
		}
		c.deleted.Add(1)
		c.remove(user, id)
	case 1:
		return c.server().MarkRead(ctx, user, id)
	}
	return nil
}
