package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// seen is what clients see of a store.
type seen struct {
	Users map[message.UserID]user `json:"users"`
	// Messages are all messages in inboxes, ascending by id.
	Messages []published `json:"messages"`
}

// user is what clients see of a user.
type user struct {
	// State is empty for a user who was never seen.
	State     client.Activity  `json:"state"`
	Following []message.UserID `json:"following"`
	Followers []message.UserID `json:"followers"`
	Total     int64            `json:"total"`
	Unread    int64            `json:"unread"`
	Complete  bool             `json:"complete"`
	// Inbox has the positions of the messages in seen.Messages, newest first.
	Inbox []int `json:"inbox"`

	entries []client.InboxMessage
}

// published is what clients see of a message.
type published struct {
	ID          message.ID       `json:"id"`
	From        message.UserID   `json:"from"`
	Sent        client.Time      `json:"sent"`
	To          []message.UserID `json:"to,omitempty"`
	Audience    message.Audience `json:"audience,omitempty"`
	Body        string           `json:"body"`
	ContentType string           `json:"content_type,omitempty"`
	Attrs       json.RawMessage  `json:"attrs,omitempty"`
	Recipients  int64            `json:"recipients"`
	// Delivered is 0 for a message of which the recording process died, because a rehydration may come before the fan-out or after it.
	Delivered int64 `json:"delivered"`
}

// pageSize is so small that most inboxes have several pages, which begin and end in the middle of buckets.
const pageSize = 7

// look waits until all fan-outs and rehydrations are done, and returns what clients see then.
func look(ctx context.Context, c *client.Client) (*seen, error) {
	for rested := false; ; {
		all, resting, err := lookOnce(ctx, c)
		if err != nil || rested && resting { // the work may have ended after the look at a user
			return all, err
		}
		if rested = resting; rested {
			continue
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// pause waits for a moment.
func pause(ctx context.Context) error {
	const while = 50 * time.Millisecond
	select {
	case <-time.After(while):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lookOnce returns what clients see now, and whether no fan-out or rehydration can change it.
func lookOnce(ctx context.Context, c *client.Client) (all *seen, resting bool, err error) {
	all, resting = &seen{Users: make(map[message.UserID]user)}, true
	ids := make(map[message.ID]bool)
	for _, name := range everybody() {
		u, err := lookAt(ctx, c, name)
		if err != nil {
			return nil, false, err
		}
		resting = resting && u.State != client.Rehydrating
		for _, m := range u.entries {
			ids[m.ID] = true
		}
		all.Users[name] = u
	}
	positions := make(map[message.ID]int)
	for i, id := range slices.SortedFunc(maps.Keys(ids), message.ID.Compare) {
		positions[id] = i
		status, err := c.Status(ctx, id)
		if err != nil {
			return nil, false, err
		}
		resting = resting && status.Fanout.State == client.StateDone
		all.Messages = append(all.Messages, publishedOf(status))
	}
	for name, u := range all.Users {
		for _, m := range u.entries {
			shown, stored := m, all.Messages[positions[m.ID]]
			if shown.From != stored.From || shown.Body != stored.Body || !shown.Sent.Equal(stored.Sent.Time) || string(shown.Attrs) != string(stored.Attrs) {
				return nil, false, errors.New(m.ID.String() + " in the inbox of " + string(name) + " is not the message that was published")
			}
			u.Inbox = append(u.Inbox, positions[m.ID])
		}
		all.Users[name] = u
	}
	return all, resting, nil
}

func publishedOf(s client.Status) published {
	p := published{
		ID: s.ID, From: s.From, Sent: s.Sent, To: s.To, Audience: s.Audience, Body: s.Body, ContentType: s.ContentType, Attrs: s.Attrs,
		Recipients: s.Fanout.Recipients, Delivered: s.Fanout.Delivered,
	}
	if s.Body == unfinishedBody {
		p.Delivered = 0
	}
	return p
}

// lookAt reads what there is of a user, without counting as a look.
func lookAt(ctx context.Context, c *client.Client, name message.UserID) (u user, err error) {
	known, err := c.User(ctx, name)
	if problem, ok := errors.AsType[*client.Problem](err); err != nil && (!ok || problem.Type != client.ProblemNotFound) {
		return u, err
	}
	u.State, u.Inbox = known.State, []int{}
	if u.Following, err = list(ctx, c.Following, name); err != nil {
		return u, err
	}
	if u.Followers, err = list(ctx, c.Followers, name); err != nil {
		return u, err
	}
	slices.SortFunc(u.Followers, cmp.Compare) // partition by partition in the store
	for first, before := true, client.Cursor(""); first || before != ""; first = false {
		page, err := c.Inbox(ctx, name, client.InboxOptions{Limit: pageSize, Before: before, Peek: true})
		if err != nil {
			return u, err
		}
		if first {
			u.Total, u.Unread, u.Complete = page.Total, page.Unread, page.Complete
		}
		u.entries = append(u.entries, page.Messages...)
		before = page.Next
	}
	return u, nil
}

// list returns a whole list of users.
func list(
	ctx context.Context, page func(context.Context, message.UserID, client.Cursor, int) (client.UserPage, error), of message.UserID,
) ([]message.UserID, error) {
	users := []message.UserID{}
	for after := client.Cursor(""); ; {
		got, err := page(ctx, of, after, 0)
		if err != nil {
			return nil, err
		}
		users = append(users, got.Users...)
		if after = got.Next; after == "" {
			return users, nil
		}
	}
}

// logIn logs all users in.
func logIn(ctx context.Context, c *client.Client) error {
	for _, name := range everybody() {
		for {
			got, err := c.Login(ctx, name, client.DefaultLoginWait)
			if err != nil {
				return err
			}
			if got.State == client.Active {
				break
			}
		}
	}
	return nil
}
