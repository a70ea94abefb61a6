package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// demoTop is the number of inbox messages that the demo prints.
const demoTop = 5

// demoReport is the result of the demo.
type demoReport struct {
	Followers int `json:"followers"`
	Dormant   int `json:"dormant"`
	Messages  int `json:"messages"`
	totals
	Seconds       float64           `json:"seconds"`
	DirectSeconds float64           `json:"direct_seconds"`
	Inbox         message.UserID    `json:"inbox"`
	Page          *client.InboxPage `json:"page"`
	Return        demoReturn        `json:"return"`
	// Failures are the results of failed checks.
	Failures []string `json:"failures"`

	took, direct time.Duration
}

// demoReturn is the return of a dormant follower.
type demoReturn struct {
	User message.UserID `json:"user"`
	// FirstPageSeconds is the time that the first page took, and FirstPage its number of messages. The first page waits for
	// nothing.
	FirstPageSeconds float64 `json:"first_page_seconds"`
	FirstPage        int     `json:"first_page"`
	// Seconds is the time until the inbox was rebuilt, including the first page.
	Seconds   float64 `json:"seconds"`
	Recovered int64   `json:"recovered"`

	firstPage, took time.Duration
}

// newDemoReport adds up the results of the messages and compares them with the expected ones.
func newDemoReport(messages []*demoMessage, took time.Duration) *demoReport {
	r := &demoReport{Followers: demoFollowers, Messages: len(messages), Failures: []string{}, Seconds: took.Seconds(), took: took}
	for i := range demoFollowers {
		if demoDormant(i) {
			r.Dormant++
		}
	}
	for _, m := range messages {
		r.add(m.fanout)
		if m.draft.From == demoAnn {
			r.direct, r.DirectSeconds = m.took, m.took.Seconds()
		}
		expected := client.Fanout{
			State: client.StateDone, Recipients: m.delivered + m.skipped, Delivered: m.delivered, Skipped: m.skipped,
		}
		if m.fanout != expected {
			r.fail("message %s is %+v, and should be %+v", m.id, m.fanout, expected)
		}
	}
	return r
}

func (r *demoReport) fail(format string, args ...any) {
	r.Failures = append(r.Failures, fmt.Sprintf(format, args...))
}

// checkInboxes makes a dormant follower return. Then it reads three inboxes: of a follower who was always active, of the one who
// returned, and of the recipient of the direct message. The report shows the first.
func (d *demo) checkInboxes(ctx context.Context, messages []*demoMessage, r *demoReport) error {
	var fromCelebrities, direct []message.ID
	for _, m := range slices.Backward(messages) {
		if m.draft.From == demoAnn {
			direct = append(direct, m.id)
		} else {
			fromCelebrities = append(fromCelebrities, m.id)
		}
	}
	if err := d.returnAfterAbsence(ctx, fromCelebrities, r); err != nil {
		return err
	}
	for _, inbox := range []struct {
		owner message.UserID
		ids   []message.ID
	}{
		{demoFollower(1), fromCelebrities},
		{demoFollower(0), fromCelebrities},
		{demoBen, direct},
	} {
		page, err := d.client.Inbox(ctx, inbox.owner, client.InboxOptions{Peek: true})
		if err != nil {
			return err
		}
		r.check(inbox.owner, page, inbox.ids, true)
		if r.Page == nil {
			r.Inbox, r.Page = inbox.owner, &page
		}
	}
	return nil
}

// returnAfterAbsence makes a dormant follower open their inbox, and waits until it is rebuilt.
func (d *demo) returnAfterAbsence(ctx context.Context, missed []message.ID, r *demoReport) error {
	back := &r.Return
	back.User = demoFollower(0)
	begun := d.process.Now()
	page, err := d.client.Inbox(ctx, back.User, client.InboxOptions{})
	if err != nil {
		return err
	}
	back.firstPage, back.FirstPage = d.process.Now().Sub(begun), len(page.Messages)
	r.check(back.User, page, missed, false)
	login, err := d.client.Login(ctx, back.User, time.Minute)
	if err != nil {
		return err
	}
	back.took = d.process.Now().Sub(begun)
	back.FirstPageSeconds, back.Seconds = back.firstPage.Seconds(), back.took.Seconds()
	user, err := d.client.User(ctx, back.User)
	if err != nil {
		return err
	}
	// If the rebuild ended before the login, the login reports 0 recovered messages. The total is right in both cases.
	back.Recovered = user.Total
	if login.State != client.Active || back.Recovered != int64(len(missed)) {
		r.fail("%s is %s with %d messages recovered, and should have %d", back.User, login.State, back.Recovered, len(missed))
	}
	return nil
}

// check requires that a page has exactly these messages.
func (r *demoReport) check(owner message.UserID, page client.InboxPage, want []message.ID, complete bool) {
	var ids []message.ID
	for _, m := range page.Messages {
		ids = append(ids, m.ID)
	}
	if !slices.Equal(ids, want) || page.Complete != complete {
		r.fail("the inbox of %s holds %v (complete: %t), and should hold %v", owner, ids, page.Complete, want)
	}
}

// tell writes the report as text.
func (r *demoReport) tell(w io.Writer) error {
	rate := int64(float64(r.Delivered+r.Skipped) / max(r.Seconds, 1e-3))
	err := printf(w, `Two celebrities, nova and atlas, talked in front of %s followers, %s of whom have not looked for 60 days.
Ann wrote to Ben meanwhile.

published   %s, each stored once
delivered   %s copies, each into an inbox of its own
skipped     %s, for followers who are dormant: the inbox of an inactive user gets no copies
took        %s from the first message to the last delivery, %s recipients a second
direct      %s from Ann's message to Ben's inbox, past the fan-out to thousands
returned    %s, who had missed it all, saw %s after %s, and had a complete inbox after %s

`, count(r.Followers), count(r.Dormant), plural(r.Messages, "message", "messages"), count(r.Delivered), count(r.Skipped),
		seconds(r.took), count(rate), seconds(r.direct),
		r.Return.User, plural(r.Return.FirstPage, "message", "messages"), seconds(r.Return.firstPage), seconds(r.Return.took))
	if err != nil {
		return err
	}
	if err := r.showInbox(w); err != nil || len(r.Failures) > 0 {
		return err
	}
	return printf(w, `
Checked: every message reached its number of recipients, and the inboxes of a follower, of one who was dormant and of Ben
hold exactly their messages, in order.

Next: fanmail serve
      fanmail publish --from ann --to ben --body 'Good morning' --wait   (in another terminal)
      fanmail import --help
`)
}

func (r *demoReport) showInbox(w io.Writer) error {
	messages := r.Page.Messages
	if err := printf(w, "The inbox of %s, newest first:\n", r.Inbox); err != nil {
		return err
	}
	if err := printRows(w, 0, messages[:min(demoTop, len(messages))]); err != nil || len(messages) <= demoTop {
		return err
	}
	return printf(w, "… and %s more\n", count(len(messages)-demoTop))
}
