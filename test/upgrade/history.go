package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	actives  = 24
	dormants = 16
	unseen   = 3

	star message.UserID = "star" // followed by everybody
	poet message.UserID = "poet" // followed by every other user

	damaged message.UserID = "active-11" // whose record was damaged for a while

	// unfinishedBody is in messages whose fan-out was under way when the recording process died.
	unfinishedBody = "unfinished"
)

// longAgo is when dormant users were seen. It lies dormant_after before a time that is past whenever the test runs.
var longAgo = time.Date(1971, time.June, 1, 0, 0, 0, 0, time.UTC)

func active(i int) message.UserID  { return message.UserID(fmt.Sprintf("active-%02d", i)) }
func dormant(i int) message.UserID { return message.UserID(fmt.Sprintf("dormant-%02d", i)) }
func stranger(i int) message.UserID {
	return message.UserID(fmt.Sprintf("stranger-%d", i))
}

// fans are the users who follow the star, in a fixed order.
func fans() []message.UserID {
	var users []message.UserID
	for i := range actives {
		users = append(users, active(i))
	}
	for i := range dormants {
		users = append(users, dormant(i))
	}
	for i := range unseen {
		users = append(users, stranger(i))
	}
	return users
}

func everybody() []message.UserID { return append(fans(), star, poet) }

// keyed is a message that was published with an idempotency key.
type keyed struct {
	Key   string        `json:"key"`
	Draft message.Draft `json:"draft"`
	ID    message.ID    `json:"id"`
}

// history is what happens on a server before its store is recorded.
type history struct {
	*client.Client
	keyed []keyed
}

// publish publishes messages, and waits until their fan-out is done.
func (h *history) publish(ctx context.Context, drafts ...message.Draft) error {
	answers, err := h.PublishBatch(ctx, drafts, "")
	if err != nil {
		return err
	}
	for _, answer := range answers {
		if answer.Err != nil {
			return answer.Err
		}
		if _, err := h.WaitDone(ctx, answer.ID, 0); err != nil {
			return err
		}
	}
	return nil
}

func direct(from message.UserID, body string, to ...message.UserID) message.Draft {
	return message.Draft{From: from, To: to, Body: body}
}

func toFollowers(from message.UserID, body string) message.Draft {
	return message.Draft{From: from, Audience: message.AudienceFollowers, Body: body}
}

// begin makes users and edges, and sends messages while a part of the users is away.
func (h *history) begin(ctx context.Context) error {
	now := time.Now().Truncate(time.Millisecond)
	var (
		views  []client.Seen
		pairs  []follow.Pair
		drafts []message.Draft
	)
	for i, user := range fans() {
		switch {
		case i < actives:
			views = append(views, client.Seen{User: user, LastViewed: now})
		case i < actives+dormants:
			views = append(views, client.Seen{User: user, LastViewed: longAgo})
		}
		pairs = append(pairs, follow.Pair{Follower: user, Followee: star.Source()})
		if i%2 == 0 {
			pairs = append(pairs, follow.Pair{Follower: user, Followee: poet.Source()})
		}
		drafts = append(drafts, direct(active(i%actives), "hello", user, star), direct(poet, "a verse", user))
		for j := range 4 {
			drafts = append(drafts, direct(active((i+j+1)%actives), fmt.Sprintf("note %d", j), user))
		}
	}
	views = append(views, client.Seen{User: star, LastViewed: now}, client.Seen{User: poet, LastViewed: now})
	if _, err := h.SetSeenBatch(ctx, views); err != nil {
		return err
	}
	if _, err := h.FollowBatch(ctx, pairs); err != nil {
		return err
	}
	const severalBuckets = 120
	for i := range severalBuckets {
		drafts = append(drafts, direct(active(1), fmt.Sprintf("letter %d", i), active(0)))
	}
	for i := range 5 {
		drafts = append(drafts, toFollowers(star, fmt.Sprintf("news %d", i)), toFollowers(poet, fmt.Sprintf("poem %d", i)))
	}
	if err := h.publish(ctx, drafts...); err != nil {
		return err
	}
	return h.changeEdges(ctx)
}

// changeEdges lets users end and resume to follow between messages to followers.
func (h *history) changeEdges(ctx context.Context) error {
	for _, user := range []message.UserID{active(2), active(4), dormant(2), dormant(4)} {
		if err := h.Unfollow(ctx, user, poet); err != nil {
			return err
		}
	}
	attrs := json.RawMessage(`{"page":7,"tags":["a","b"]}`)
	both := toFollowers(poet, "to followers and by name")
	both.To, both.ContentType, both.Attrs = []message.UserID{stranger(1), dormant(4), active(6)}, "text/markdown", attrs
	if err := h.publish(ctx, both, toFollowers(poet, "some have left")); err != nil {
		return err
	}
	for _, user := range []message.UserID{active(4), dormant(4)} {
		if _, err := h.FollowBatch(ctx, []follow.Pair{{Follower: user, Followee: poet.Source()}}); err != nil { // which is no view
			return err
		}
	}
	return h.publish(ctx, toFollowers(poet, "some are back"))
}

// comeBack lets users return in all ways, and then use their inboxes, which have gaps.
func (h *history) comeBack(ctx context.Context) error {
	for _, user := range []message.UserID{dormant(0), dormant(1), dormant(2), dormant(3), stranger(0)} {
		if _, err := h.Login(ctx, user, client.MaxLoginWait); err != nil {
			return err
		}
	}
	for _, user := range []message.UserID{dormant(4), dormant(5)} {
		if _, err := h.Inbox(ctx, user, client.InboxOptions{}); err != nil {
			return err
		}
	}
	if err := h.SetSeen(ctx, dormant(6), time.Now()); err != nil {
		return err
	}
	if _, err := look(ctx, h.Client); err != nil { // wait
		return err
	}
	err := h.publish(ctx, toFollowers(star, "welcome back"), toFollowers(poet, "an ode"), direct(star, "hello again", fans()...))
	if err != nil {
		return err
	}
	if err := h.useInboxes(ctx); err != nil {
		return err
	}
	for i := range 3 {
		k := keyed{Key: fmt.Sprintf("key-%d", i), Draft: direct(active(5), "once", active(6), dormant(i))}
		receipt, err := h.Publish(ctx, k.Draft, k.Key)
		if err != nil {
			return err
		}
		k.ID = receipt.ID
		h.keyed = append(h.keyed, k)
	}
	return h.publish(ctx, toFollowers(star, "after the marks"))
}

// useInboxes deletes messages and marks messages as read. A position counts from the newest message.
func (h *history) useInboxes(ctx context.Context) error {
	for _, use := range []struct {
		user    message.UserID
		deleted []int
		read    int // -1 for no mark
	}{
		{active(0), []int{0, 20, 60, 110}, 70},
		{active(3), nil, 0},
		{active(7), []int{1, 2}, 1},
		{dormant(0), []int{0, 12}, -1},
		{dormant(1), nil, 11},
		{dormant(2), []int{9}, 0},
		{dormant(3), []int{10, 12}, 11},
		{dormant(4), []int{2}, 5},
		{stranger(0), []int{7}, 6},
	} {
		u, err := lookAt(ctx, h.Client, use.user)
		if err != nil {
			return err
		}
		if use.read >= 0 {
			if err := h.MarkRead(ctx, use.user, u.entries[use.read].ID); err != nil {
				return err
			}
		}
		for _, i := range use.deleted {
			if err := h.Delete(ctx, use.user, u.entries[i].ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// errNotRefused says that a message was accepted that should be stored too late.
var errNotRefused = errors.New("a message from a process whose clock is behind was accepted")

// publishLate publishes messages by a process whose clock is behind that of the database. They are stored, but count as never published.
func (h *history) publishLate(ctx context.Context) error {
	_, err := h.Publish(ctx, toFollowers(star, "too late"), "")
	if problem, ok := errors.AsType[*client.Problem](err); ok && problem.Type == client.ProblemBusy {
		return nil
	}
	return errors.Join(errNotRefused, err)
}
