package client

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

// Archived says which messages a page shows.
type Archived string

const (
	// ArchivedOut leaves archived messages out.
	ArchivedOut Archived = "false"
	// ArchivedOnly selects archived messages only.
	ArchivedOnly Archived = "true"
	// ArchivedToo selects all messages.
	ArchivedToo Archived = "all"
)

// InboxOptions selects a part of an inbox.
type InboxOptions struct {
	// Limit is the maximum number of messages on a page; with 0 the server chooses.
	Limit int
	// Before is the Next of an earlier page. If it is empty, the page begins with the newest message.
	Before Cursor
	// Since and Until bound when the messages were sent: at or after Since, and before Until. The zero times bound nothing. Give each page of a listing the same bounds.
	Since, Until time.Time
	// From selects the messages of an author, Unread those that are not read, and Attrs those whose declared attributes meet conditions such as
	// total:gte:64. At most four conditions are allowed, and all must hold. A page may then be empty and have a Next: give each page of a listing
	// the same conditions.
	From   message.UserID
	Unread bool
	Attrs  []string
	// Archived selects messages by whether they are archived: empty stands for ArchivedOut.
	Archived Archived
	// Peek makes the request not count as viewing the inbox. For a user who was never seen, it is a *Problem of type ProblemNotFound.
	Peek bool
}

// Inbox returns one page of a user's inbox. It counts as viewing the inbox unless Peek is set.
func (c *Client) Inbox(ctx context.Context, user message.UserID, opts InboxOptions) (InboxPage, error) {
	to, query := atUser(user, "/inbox"), url.Values{}
	if to.err != nil {
		return InboxPage{}, to.err
	}
	if opts.Limit != 0 {
		query.Set("limit", strconv.Itoa(opts.Limit))
	}
	if opts.Before != "" {
		query.Set("before", string(opts.Before))
	}
	for name, t := range map[string]time.Time{"since": opts.Since, "until": opts.Until} {
		if !t.IsZero() {
			query.Set(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	if opts.Peek {
		query.Set("peek", "true")
	}
	if opts.From != "" {
		query.Set("from", string(opts.From))
	}
	if opts.Unread {
		query.Set("unread", "true")
	}
	if opts.Archived != "" {
		query.Set("archived", string(opts.Archived))
	}
	if len(opts.Attrs) > 0 {
		query["attr"] = opts.Attrs
	}
	var page InboxPage
	err := c.do(ctx, call{
		method: http.MethodGet, path: to.path, query: query, idempotent: true,
		read: func(header http.Header, body io.Reader) error {
			if err := jsonInto(&page)(header, body); err != nil {
				return err
			}
			var err error
			if page.BucketsRead, err = strconv.Atoi(header.Get(BucketsReadHeader)); err != nil {
				return err
			}
			if read := header.Get(MessagesReadHeader); read != "" { // releases without filters do not send it
				page.MessagesRead, err = strconv.Atoi(read)
			}
			return err
		},
	})
	return page, err
}

// InboxAll returns the messages of a user's inbox that follow Before, newest first. It reads page by page. An error ends the
// sequence.
func (c *Client) InboxAll(ctx context.Context, user message.UserID, opts InboxOptions) iter.Seq2[InboxMessage, error] {
	return func(yield func(InboxMessage, error) bool) {
		for {
			page, err := c.Inbox(ctx, user, opts)
			if err != nil {
				yield(InboxMessage{}, err)
				return
			}
			for _, m := range page.Messages {
				if !yield(m, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			opts.Before = page.Next
		}
	}
}

// Counts counts the inboxes of at most MaxCountedUsers users, and returns the counts in their order. It does not count as viewing them. A token
// that belongs to one user may count no other inbox (ProblemForbidden).
func (c *Client) Counts(ctx context.Context, users []message.UserID) ([]InboxCount, error) {
	answer, err := ask[InboxCounts](ctx, c, http.MethodPost, at("/v1/inboxes:counts"), nil, CountsRequest{Users: users})
	return answer.Counts, err
}

// CountByAuthor counts the newest 1,000 messages of a user's inbox by their authors. It does not count as viewing the inbox.
func (c *Client) CountByAuthor(ctx context.Context, user message.UserID) (ValueCounts, error) {
	return c.countBy(ctx, user, "from")
}

// CountByAttribute counts the newest 1,000 messages of a user's inbox by the values of a declared attribute. It does not count as viewing the
// inbox.
func (c *Client) CountByAttribute(ctx context.Context, user message.UserID, name string) (ValueCounts, error) {
	return c.countBy(ctx, user, "attr:"+name)
}

func (c *Client) countBy(ctx context.Context, user message.UserID, by string) (ValueCounts, error) {
	return get[ValueCounts](ctx, c, atUser(user, "/inbox/counts"), url.Values{"by": {by}})
}

// Count counts the inbox of one user. It does not count as viewing it.
func (c *Client) Count(ctx context.Context, user message.UserID) (InboxCount, error) {
	count, err := get[InboxCount](ctx, c, atUser(user, "/inbox/counts"), nil)
	count.User = user
	return count, err
}

// MarkRead marks all messages of a user's inbox up to and including upTo as read. It is idempotent.
func (c *Client) MarkRead(ctx context.Context, user message.UserID, upTo message.ID) error {
	return c.tell(ctx, http.MethodPost, atUser(user, "/inbox/read"), nil, ReadMark{UpTo: &upTo})
}

// MarkAllRead marks all messages of a user's inbox as read that the page with a cursor knew. What has arrived since stays unread. An empty cursor
// stands for all that are there. It is idempotent.
func (c *Client) MarkAllRead(ctx context.Context, user message.UserID, cursor string) error {
	return c.tell(ctx, http.MethodPost, atUser(user, "/inbox/read"), nil, ReadMark{All: true, Cursor: cursor})
}

// Seen records that a user has seen all messages that the page with a cursor knew, or all that are there if it is empty. They count as unseen no
// more. It is idempotent.
func (c *Client) Seen(ctx context.Context, user message.UserID, cursor string) error {
	return c.tell(ctx, http.MethodPost, atUser(user, "/inbox/seen"), nil, SeenMark{Cursor: cursor})
}

// Mark changes whether at most MaxMarks messages of a user's inbox are read and archived. It is idempotent.
func (c *Client) Mark(ctx context.Context, user message.UserID, marks MessageMarks) (Marked, error) {
	return ask[Marked](ctx, c, http.MethodPost, atUser(user, "/inbox:mark"), nil, marks)
}

// Purge lets all messages of a user's inbox expire that were sent at the time of the request or before, permanently, and returns how many. With
// DryRun it only counts. It is idempotent: a repetition returns 0, also if the answer was lost.
func (c *Client) Purge(ctx context.Context, user message.UserID, purge Purge) (purged int64, err error) {
	answer, err := ask[Purged](ctx, c, http.MethodPost, atUser(user, "/inbox:purge"), nil, purge)
	return answer.Purged, err
}

// Delete removes a message from a user's inbox permanently. It is idempotent.
func (c *Client) Delete(ctx context.Context, user message.UserID, id message.ID) error {
	return c.tell(ctx, http.MethodDelete, atUser(user, "/inbox/"+id.String()), nil, nil)
}
