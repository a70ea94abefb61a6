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

// demoTop is how much of an inbox the demo shows as text.
const demoTop = 5

// demoReport is what happened in the demo.
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
	// Failures tells what is not as it should be.
	Failures []string `json:"failures"`

	took, direct time.Duration
}

// demoReturn is how a dormant follower came back.
type demoReturn struct {
	User message.UserID `json:"user"`
	// FirstPageSeconds is how long the first page took, and how many messages it had; it does not wait for anything.
	FirstPageSeconds float64 `json:"first_page_seconds"`
	FirstPage        int     `json:"first_page"`
	// Seconds is how long it took until the inbox was rebuilt, the first page included.
	Seconds   float64 `json:"seconds"`
	Recovered int64   `json:"recovered"`

	firstPage, took time.Duration
}

// newDemoReport adds up what became of the messages and checks it against the script.
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

// checkInboxes lets a dormant follower come back, and reads the inboxes of a follower who was active all the time, of the
// one who has come back, and of the recipient of the direct message. The first is the one to show.
func (d *demo) checkInboxes(ctx context.Context, messages []*demoMessage, r *demoReport) error {
	var fromCelebrities, direct []message.ID
	for _, m := range slices.Backward(messages) {
		if m.draft.From == demoAnn {
			direct = append(direct, m.id)
		} else {
			fromCelebrities = append(fromCelebrities, m.id)
		}
	}
	if err := d.comeBack(ctx, fromCelebrities, r); err != nil {
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

// comeBack lets a dormant follower open their inbox, and waits until it has been rebuilt.
func (d *demo) comeBack(ctx context.Context, missed []message.ID, r *demoReport) error {
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
	// Unless the rebuilding was over before the login, the login tells how many were recovered; the total does in any case.
	back.Recovered = user.Total
	if login.State != client.Active || back.Recovered != int64(len(missed)) {
		r.fail("%s is %s with %d messages recovered, and should have %d", back.User, login.State, back.Recovered, len(missed))
	}
	return nil
}

// check demands that a page holds these messages and no others.
func (r *demoReport) check(owner message.UserID, page client.InboxPage, want []message.ID, complete bool) {
	var ids []message.ID
	for _, m := range page.Messages {
		ids = append(ids, m.ID)
	}
	if !slices.Equal(ids, want) || page.Complete != complete {
		r.fail("the inbox of %s holds %v (complete: %t), and should hold %v", owner, ids, page.Complete, want)
	}
}

// tell writes the report in plain words.
func (r *demoReport) tell(w io.Writer) error {
	rate := int64(float64(r.Delivered+r.Skipped) / max(r.Seconds, 1e-3))
	err := printf(w, `Two celebrities, nova and atlas, talked in front of %s followers, %s of whom have not looked for 60 days.
Ann wrote to Ben meanwhile.

published   %s, each stored once
delivered   %s copies, each into an inbox of its own
skipped     %s, for followers who are dormant: nothing is copied for somebody who does not look
took        %s from the first message to the last delivery, %s recipients a second
direct      %s from Ann's message to Ben's inbox, past the fan-out to thousands
back again  %s, who had missed it all, saw %s after %s, and had a complete inbox after %s

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
