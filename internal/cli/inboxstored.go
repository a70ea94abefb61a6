package cli

import (
	"context"
	"io"

	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// printStored prints the inbox as it is stored.
func (i *inboxCommand) printStored(ctx context.Context, c *client.Client, user message.UserID) error {
	stored, err := c.StoredInbox(ctx, user, i.options.Before)
	if err != nil {
		return err
	}
	return i.output.print(stored, func(w io.Writer) error {
		name := program.Printable(string(user))
		if err := printRecorded(w, name, stored); err != nil {
			return err
		}
		rows := make([][]string, len(stored.Buckets))
		for i, b := range stored.Buckets {
			first, last := b.First.String(), b.Last.String()
			if b.Stub {
				first, last = "all expired", "-"
			}
			rows[i] = []string{count(int64(b.Sequence)), count(b.Slots), first, last, count(b.Tombstones), count(b.Expired), count(b.Flags)}
		}
		if err := printTable(w, []string{"BUCKET", "SLOTS", "FIRST", "LAST", "TOMBSTONES", "EXPIRED", "FLAGS"}, rows); err != nil || stored.Next == "" {
			return err
		}
		return printf(w, "older: fanmail inbox %s --stored --before %s\n", name, stored.Next)
	})
}

// printRecorded prints what is recorded of the owner of an inbox.
func printRecorded(w io.Writer, name string, s client.StoredInbox) error {
	err := printf(w, "%s: horizon %s, %s seen\n", name, showTime(s.Horizon.Time), plural(s.SeenMark, "slot", "slots"))
	if m := s.ReadMark; m != nil && err == nil {
		err = printf(w, "read up to %s: %s of %s and %s\n", m.UpTo, count(m.Read), plural(m.Slots, "slot", "slots"), plural(m.Gaps, "gap", "gaps"))
	}
	if s.Purged != nil && err == nil {
		err = printf(w, "expired up to %s\n", s.Purged)
	}
	if s.Mark != nil && err == nil {
		err = printf(w, "rebuild due since %s, of messages after %s\n", showTime(s.Mark.Since.Time), showTime(s.Mark.From.Time))
	}
	if s.Sweep != nil && err == nil {
		err = printf(w, "rebuild searches again from %s\n", showTime(s.Sweep.From.Time))
	}
	for _, gap := range s.Gaps {
		if err == nil {
			err = printf(w, "gap after %s and before %s: %s\n", showTime(gap.After.Time), showTime(gap.Before.Time), plural(gap.Messages, "message", "messages"))
		}
	}
	return err
}
