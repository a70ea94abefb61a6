package console

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// slowest is how many of the messages that have been under way for longest are shown with their partitions.
const slowest = 3

// overviewPage shows whether all is well, and what moves.
func (s *server) overviewPage(*http.Request) page {
	var once sync.Once
	var overview client.Overview
	var failed error
	ask := func(part func(client.Overview) any) func(context.Context, *client.Client) (any, error) {
		return func(ctx context.Context, c *client.Client) (any, error) {
			once.Do(func() {
				failed = errFailed // for the other panels, if the question panics
				if overview, failed = c.Overview(ctx); failed == nil {
					s.history.add(s.opts.Now(), overview.Totals)
				}
			})
			return part(overview), failed
		}
	}
	return page{title: "Overview", live: true, panels: []panel{
		{name: "health", heading: "Health", load: ask(func(o client.Overview) any { return o })},
		{name: "lanes", heading: "Lanes", load: ask(func(o client.Overview) any { return o.Lanes })},
		{name: "underway", heading: "Under way", load: underWay},
		{name: "processes", heading: "Processes", load: ask(func(o client.Overview) any { return o.Processes })},
		{name: "hour", heading: "The last hour", load: ask(func(client.Overview) any { return s.history.curves(s.opts.Now()) })},
	}}
}

// underWay returns the messages that are under way, and the partitions of the slowest.
func underWay(ctx context.Context, c *client.Client) (any, error) {
	list, err := c.Messages(ctx, client.MessagesQuery{Limit: 20})
	if err != nil {
		return nil, err
	}
	var grids []client.Status
	for _, m := range list.Messages[:min(slowest, len(list.Messages))] {
		status, err := c.Partitions(ctx, m.ID)
		if err != nil {
			return nil, err
		}
		grids = append(grids, status)
	}
	return map[string]any{"List": list, "Slowest": grids}, nil
}

// messagesPage lists messages by state and author.
func messagesPage(r *http.Request) page {
	asked := r.URL.Query()
	query := client.MessagesQuery{
		State: message.State(asked.Get("state")), From: message.UserID(asked.Get("from")), After: client.Cursor(asked.Get("after")), Limit: mostRows,
	}
	return page{title: "Messages", live: true, panels: []panel{
		{name: "filter", heading: "Which messages", still: true, load: func(context.Context, *client.Client) (any, error) { return query, nil }},
		{name: "messages", heading: "Messages", load: func(ctx context.Context, c *client.Client) (any, error) {
			list, err := c.Messages(ctx, query)
			more := url.Values{"state": {string(query.State)}, "from": {string(query.From)}, "after": {string(list.Next)}}
			return map[string]any{"List": list, "More": "?" + more.Encode()}, err
		}},
	}}
}

// messagePage shows how far one message is.
func messagePage(r *http.Request) page {
	id, invalid := message.ParseID(r.PathValue("id"))
	return page{title: "Message", live: true, panels: []panel{
		{name: "message", heading: "Message " + r.PathValue("id"), load: func(ctx context.Context, c *client.Client) (any, error) {
			if invalid != nil {
				return nil, invalid
			}
			return c.Partitions(ctx, id)
		}},
	}}
}

// whyPage explains why a user has a message or not.
func whyPage(r *http.Request) page {
	user, id := strings.TrimSpace(r.FormValue("user")), strings.TrimSpace(r.FormValue("message"))
	form := panel{name: "whose", heading: "Why does a user have a message, or not?", load: func(context.Context, *client.Client) (any, error) {
		return map[string]string{"User": user, "Message": id}, nil
	}}
	p := page{title: "Why", panels: []panel{form}}
	if user+id != "" {
		p.panels = append(p.panels, panel{name: "why", heading: "Because", load: func(ctx context.Context, c *client.Client) (any, error) {
			parsed, err := message.ParseID(id)
			if err != nil {
				return nil, err
			}
			e, err := c.Explain(ctx, message.UserID(user), parsed)
			return map[string]any{"E": e, "Picture": pictureOf(e), "Steps": stepsOf(e)}, err
		}})
	}
	return p
}

// inboxPage shows an inbox as it is stored.
func inboxPage(r *http.Request) page {
	user, before := message.UserID(r.PathValue("user")), client.Cursor(r.FormValue("before"))
	return page{title: "Stored inbox", panels: []panel{
		{name: "stored", heading: "Inbox of " + string(user) + ", as it is stored", load: func(ctx context.Context, c *client.Client) (any, error) {
			stored, err := c.StoredInbox(ctx, user, before)
			return map[string]any{"User": user, "Inbox": stored}, err
		}},
	}}
}

// dormancyPage shows what dormancy saves.
func dormancyPage(*http.Request) page {
	return page{title: "Dormancy", panels: []panel{
		{name: "dormancy", heading: "What dormancy saves", load: func(ctx context.Context, c *client.Client) (any, error) {
			return c.Dormancy(ctx)
		}},
	}}
}
