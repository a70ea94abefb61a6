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
	// Failures tells what is not as it should be.
	Failures []string `json:"failures"`

	took, direct time.Duration
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

// checkInboxes reads the inboxes of a follower who is active, of one who is dormant, and of the recipient of the direct
// message. The first is the one to show.
func (d *demo) checkInboxes(ctx context.Context, messages []*demoMessage, r *demoReport) error {
	var fromCelebrities, direct []message.ID
	for _, m := range slices.Backward(messages) {
		if m.draft.From == demoAnn {
			direct = append(direct, m.id)
		} else {
			fromCelebrities = append(fromCelebrities, m.id)
		}
	}
	inboxes := []struct {
		owner message.UserID
		ids   []message.ID
	}{
		{demoFollower(1), fromCelebrities},
		{demoFollower(0), nil},
		{demoBen, direct},
	}
	for _, inbox := range inboxes {
		page, err := d.client.Inbox(ctx, inbox.owner, client.InboxOptions{Peek: true})
		if err != nil {
			return err
		}
		var ids []message.ID
		for _, m := range page.Messages {
			ids = append(ids, m.ID)
		}
		if !slices.Equal(ids, inbox.ids) {
			r.fail("the inbox of %s holds %v, and should hold %v", inbox.owner, ids, inbox.ids)
		}
		if r.Page == nil {
			r.Inbox, r.Page = inbox.owner, &page
		}
	}
	return nil
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

`, count(r.Followers), count(r.Dormant), plural(r.Messages, "message", "messages"), count(r.Delivered), count(r.Skipped),
		seconds(r.took), count(rate), seconds(r.direct))
	if err != nil {
		return err
	}
	if err := r.showInbox(w); err != nil || len(r.Failures) > 0 {
		return err
	}
	return printf(w, `
Checked: every message reached its number of recipients, and the inboxes of a follower, a dormant follower and Ben hold
exactly their messages, in order.

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
