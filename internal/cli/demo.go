package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/bench"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/internal/telemetry"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// The users of the demo. There are enough followers for the shared scan of large audiences. One in demoDormantEvery was last seen
// demoAway ago.
const (
	demoFollowers    = 2000
	demoDormantEvery = 8
	demoDormant      = demoFollowers / demoDormantEvery
	demoAway         = 60 * 24 * time.Hour
	// demoTop is the number of inbox messages that the demo prints.
	demoTop = 5
)

// demoTalk is the dialog of nova and atlas, who take turns.
var demoTalk = []string{
	"New single out at midnight. Don't sleep.",
	"I was asleep by nine yesterday. I'll need coffee.",
	"I'm sending a crate. And a drummer.",
	"The drummer arrived first. The neighbours send regards.",
	"Tell them the second verse is about them.",
	"They want a credit.",
	"They get the bridge. All of it.",
	"See everybody in Lisbon on Friday?",
	"Lisbon! Doors at eight. Bring the neighbours.",
	"They are already packing.",
}

func newDemo(p program.Process) *cobra.Command {
	var serve bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show what Fanmail does, in a temporary folder",
		Long: "Show what Fanmail does. The command starts a server in a temporary folder. Two celebrities talk to each other in\n" +
			"front of two thousand followers, some of them dormant. Meanwhile a user sends a direct message, and a dormant\n" +
			"user returns. The command checks that every message arrived where it should. It takes a few seconds and leaves\n" +
			"nothing behind.\n\n" +
			"With --serve it then serves a page on a loopback address: publish in it, and see three inboxes follow. One of them\n" +
			"is dormant until its user comes back. An interrupt or SIGTERM ends it.",
		Args: program.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := runDemo(cmd.Context(), p, serve); err != nil {
				return fmt.Errorf("demo: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&serve, "serve", false, "then serve a page with live inboxes, until an interrupt")
	return cmd
}

func runDemo(ctx context.Context, p program.Process, serve bool) (err error) {
	cfg := config.Default()
	var page net.Listener
	if serve {
		if page, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
			return err
		}
		defer page.Close() //nolint:errcheck // serving has closed it
		cfg.HTTP.Origins = "http://" + page.Addr().String()
	}
	// The server reserves the maximum size of its streams. A temporary folder may have little room.
	cfg.NATS.MaxPublished, cfg.NATS.MaxFanout, cfg.NATS.MaxLogin, cfg.NATS.MaxDLQ = 32*config.MiB, 64*config.MiB, 16*config.MiB, 16*config.MiB
	logger, err := telemetry.NewLogger(telemetry.LogOptions{Level: "warn", Format: telemetry.FormatAuto, Writer: p.Stderr, Now: p.Now})
	if err != nil {
		return err
	}
	world, err := bench.Env{Config: cfg, Dir: os.TempDir(), Logger: logger, Now: p.Now}.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, world.Close(ctx)) }()
	d := demo{process: p, client: world.Client}
	if err := d.populate(ctx); err != nil {
		return err
	}
	if err := d.talk(ctx); err != nil {
		return err
	}
	if err := d.look(ctx); err != nil || !serve {
		return err
	}
	return servePage(ctx, p, page, world.App.URL())
}

// demo runs a small scenario on a server, prints what happens, and checks it.
type demo struct {
	process program.Process
	client  *client.Client
	// talked and direct are the messages of the celebrities, and that from Ann to Ben, newest first.
	talked, direct []message.ID
}

func demoFollower(i int) message.UserID { return message.UserID(fmt.Sprintf("fan-%04d", i)) }

// populate imports the users and the edges.
func (d *demo) populate(ctx context.Context) error {
	now := d.process.Now()
	seen := []client.Seen{{User: "nova", LastViewed: now}, {User: "atlas", LastViewed: now}, {User: "ann", LastViewed: now}, {User: "ben", LastViewed: now}}
	var edges []follow.Pair
	for i := range demoFollowers {
		fan, at := demoFollower(i), now
		if i%demoDormantEvery == 0 {
			at = now.Add(-demoAway)
		}
		seen = append(seen, client.Seen{User: fan, LastViewed: at})
		edges = append(edges, follow.Pair{Follower: fan, Followee: "nova"}, follow.Pair{Follower: fan, Followee: "atlas"})
	}
	if _, err := d.client.SetSeenBatch(ctx, seen); err != nil {
		return err
	}
	_, err := d.client.FollowBatch(ctx, edges)
	return err
}

// talk publishes the messages of the celebrities without waiting for their fan-outs, and the direct message in the middle of them. Then it waits
// until all are done, and checks their counts.
func (d *demo) talk(ctx context.Context) error {
	begun, direct := d.process.Now(), time.Duration(0)
	for i, body := range demoTalk {
		from, to := message.UserID("nova"), message.UserID("atlas")
		if i%2 == 1 {
			from, to = to, from
		}
		id, err := d.publish(ctx, message.Draft{From: from, To: []message.UserID{to}, Audience: message.AudienceFollowers, Body: body})
		if err != nil {
			return err
		}
		d.talked = slices.Insert(d.talked, 0, id)
		if i != len(demoTalk)/2 {
			continue
		}
		sent := d.process.Now()
		if id, err = d.publish(ctx, message.Draft{From: "ann", To: []message.UserID{"ben"}, Body: "Are you reading this, too?"}); err != nil {
			return err
		}
		if err := d.done(ctx, id, client.Fanout{Recipients: 1, Delivered: 1}); err != nil {
			return err
		}
		d.direct, direct = []message.ID{id}, d.process.Now().Sub(sent)
	}
	// The other celebrity does not follow, but the message names them.
	each := client.Fanout{Recipients: demoFollowers + 1, Delivered: demoFollowers + 1 - demoDormant, Skipped: demoDormant}
	for _, id := range d.talked {
		if err := d.done(ctx, id, each); err != nil {
			return err
		}
	}
	n := int64(len(d.talked))
	took := d.process.Now().Sub(begun)
	return printf(d.process.Stdout, `Two celebrities, nova and atlas, talked in front of %s followers, %s of whom have not looked for 60 days.
Ann wrote to Ben meanwhile.

published   %d messages, each stored once
delivered   %s copies, each into an inbox of its own
skipped     %s, for followers who are dormant: the inbox of an inactive user gets no copies
took        %s from the first message to the last delivery, %s recipients a second
direct      %s from Ann's message to Ben's inbox, past the fan-out to thousands
`, count(demoFollowers), count(demoDormant), n+1, count(n*each.Delivered+1), count(n*each.Skipped),
		seconds(took), count(int64(float64(n*each.Recipients+1)/max(took.Seconds(), 1e-3))), seconds(direct))
}

func (d *demo) publish(ctx context.Context, draft message.Draft) (message.ID, error) {
	receipt, err := d.client.Publish(ctx, draft, "")
	return receipt.ID, err
}

// done waits until the fan-out of a message is done, and checks its counts.
func (d *demo) done(ctx context.Context, id message.ID, want client.Fanout) error {
	want.State = message.StateDone
	status, err := d.client.WaitDone(ctx, id, 0)
	if want.Lane = status.Fanout.Lane; err == nil && !reflect.DeepEqual(status.Fanout, want) {
		err = fmt.Errorf("a check failed: message %s is %+v, and should be %+v", id, status.Fanout, want)
	}
	return err
}

// look makes a dormant follower return, and reads three inboxes: of the one who returned, of Ben, and of a follower who was always active.
func (d *demo) look(ctx context.Context) error {
	w, back, begun := d.process.Stdout, demoFollower(0), d.process.Now()
	first, err := d.inbox(ctx, back, d.talked, false)
	if err != nil {
		return err
	}
	page := d.process.Now().Sub(begun)
	if _, err := d.client.Login(ctx, back, time.Minute); err != nil {
		return err
	}
	if err := printf(w, "returned    %s, who had missed it all, saw %s after %s, and had a complete inbox after %s\n\n",
		back, plural(len(first), "message", "messages"), seconds(page), seconds(d.process.Now().Sub(begun))); err != nil {
		return err
	}
	if _, err := d.inbox(ctx, back, d.talked, true); err != nil {
		return err
	}
	if _, err := d.inbox(ctx, "ben", d.direct, true); err != nil {
		return err
	}
	fan := demoFollower(1)
	messages, err := d.inbox(ctx, fan, d.talked, true)
	if err != nil {
		return err
	}
	if err := printf(w, "The inbox of %s, newest first:\n", fan); err != nil {
		return err
	}
	if err := printRows(w, 0, messages[:demoTop]); err != nil {
		return err
	}
	return printf(w, `… and %d more

Checked: every message reached its number of recipients, and the inboxes of a follower, of one who was dormant and of Ben
hold exactly their messages, in order.

Next: fanmail serve
      fanmail publish --from ann --to ben --body 'Good morning' --wait   (in another terminal)
      fanmail import --help
`, len(messages)-demoTop)
}

// inbox reads the inbox of a user, and checks that it has exactly these messages. Reading an inbox that is not complete is a visit.
func (d *demo) inbox(ctx context.Context, user message.UserID, want []message.ID, complete bool) ([]client.InboxMessage, error) {
	page, err := d.client.Inbox(ctx, user, client.InboxOptions{Peek: complete})
	var ids []message.ID
	for _, m := range page.Messages {
		ids = append(ids, m.ID)
	}
	if err == nil && (!slices.Equal(ids, want) || page.Complete != complete) {
		err = fmt.Errorf("a check failed: the inbox of %s holds %v (complete: %t), and should hold %v", user, ids, page.Complete, want)
	}
	return page.Messages, err
}
