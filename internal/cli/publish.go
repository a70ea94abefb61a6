package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// publisher publishes one message, or a file of them.
type publisher struct {
	process program.Process
	output  *output

	from, contentType, attrs string
	to, toIdentities, topics []string
	followers                bool
	body, bodyFile           string
	key                      string
	wait                     bool
	limit                    timeout

	file    string
	skipBad bool
}

// messageFlags describe a single message. They conflict with --file.
var messageFlags = []string{"from", "to", "to-identity", "followers", "topic", "body", "body-file", "content-type", "attrs"}

func newPublish(p program.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "publish",
		Short: "Publish a message, or a file of messages",
		Long: "Publish a message to the users in --to, to users by --to-identity, to the --followers of its author, to the\n" +
			"subscribers of a --topic, or to several of these, and print its id. With --file, publish the messages of a file in\n" +
			"their order, and print an id for each. Each line of the file has a JSON object with the fields from, to, audience,\n" +
			"topics, body, content_type and attrs. An element of to is a user id, or an identity such as\n" +
			"{\"email\":\"joe@example.com\"}. Blank lines and lines that begin with # are ignored. The file may be compressed with\n" +
			"gzip. The command reads the whole file first: if a line is bad, it sends nothing.\n\n" +
			"To repeat a command safely, give the same --key again: the server answers with the id of a message that it has\n" +
			"already accepted. With --file --json, the last line is a summary. Without --json, the summary goes to standard\n" +
			"error. With --wait, the command waits until the messages are done. If that takes longer than --timeout, it prints\n" +
			"the ids all the same, says how far they are, and exits with code 1.",
		Example: "  fanmail publish --from ann --followers --body 'Good morning' --wait\n" +
			"  fanmail publish --from ann --to ben,cleo --to-identity email:joe@example.com --body-file letter.txt\n" +
			"  fanmail publish --from ann --topic programming/go --body 'Go is out'\n" +
			"  fanmail publish --file messages.ndjson.gz --key monday --wait",
		Args: program.Exactly(),
	}
	b := publisher{process: p, output: newOutput(p, cmd, "print the answer as JSON; with --file, one answer per line")}
	flags := cmd.Flags()
	flags.StringVar(&b.from, "from", "", "author of the message")
	flags.StringSliceVar(&b.to, "to", nil, "recipients, separated by commas; may be given several times")
	flags.StringArrayVar(&b.toIdentities, "to-identity", nil, "recipient by an `identity` such as email:joe@example.com; may be given several times")
	flags.BoolVar(&b.followers, "followers", false, "publish to all followers of the author")
	flags.StringArrayVar(&b.topics, "topic", nil, "publish to the subscribers of a `topic` such as programming/go, and of those above it; may be given several times")
	flags.StringVar(&b.body, "body", "", "text of the message")
	flags.StringVar(&b.bodyFile, "body-file", "", "file with the text; - for standard input")
	flags.StringVar(&b.contentType, "content-type", "", "media type of the text, such as text/markdown")
	flags.StringVar(&b.attrs, "attrs", "", "JSON object with attributes of the message")
	flags.StringVar(&b.key, "key", "", "idempotency key (with --file: prefix of the key of each message)")
	flags.BoolVar(&b.wait, "wait", false, "wait until the message is done, and print the number of recipients")
	b.limit.add(cmd, "with --wait: how long to wait, such as 30s (default without limit)")
	flags.StringVar(&b.file, "file", "", "publish the messages of an NDJSON file; - for standard input")
	flags.BoolVar(&b.skipBad, "skip-bad", false, "with --file: skip and count bad and rejected lines")
	return onServer(p, app.Publisher, cmd, func(ctx context.Context, c *client.Client, _ []string) error { return b.run(ctx, cmd, c) })
}

func (b *publisher) run(ctx context.Context, cmd *cobra.Command, c *client.Client) error {
	if err := b.limit.check(cmd, b.wait, "--wait"); err != nil {
		return err
	}
	if cmd.Flags().Changed("file") {
		for _, name := range messageFlags {
			if cmd.Flags().Changed(name) {
				return program.Usagef("the messages in --file are complete: leave out --%s", name)
			}
		}
		return b.publishFile(ctx, c)
	}
	if b.skipBad {
		return program.Usagef("--skip-bad needs --file")
	}
	draft, err := b.draft(ctx, cmd)
	if err != nil {
		return err
	}
	return b.publishOne(ctx, c, draft)
}

// draft returns the message that the flags describe. It does not check limits of size, because the server decides them.
func (b *publisher) draft(ctx context.Context, cmd *cobra.Command) (message.Draft, error) {
	draft := message.Draft{From: message.UserID(b.from), Body: b.body, ContentType: b.contentType, Attrs: json.RawMessage(b.attrs)}
	for _, user := range b.to {
		draft.To = append(draft.To, message.UserID(user))
	}
	for _, text := range b.toIdentities {
		id, err := parseIdentity(text)
		if err != nil {
			return draft, err
		}
		draft.ToIdentities = append(draft.ToIdentities, id)
	}
	if b.followers {
		draft.Audience = message.AudienceFollowers
	}
	for _, path := range b.topics {
		draft.Topics = append(draft.Topics, message.Topic(path))
	}
	switch {
	case b.from == "":
		return draft, program.Usagef("name the author: give --from")
	case len(b.to)+len(b.toIdentities)+len(b.topics) == 0 && !b.followers:
		return draft, program.Usagef("name the recipients: give --to, --to-identity, --followers, --topic or several of these")
	case cmd.Flags().Changed("body-file") && cmd.Flags().Changed("body"):
		return draft, program.Usagef("give either --body or --body-file")
	case cmd.Flags().Changed("body-file"):
		body, err := readAll(ctx, b.process, b.bodyFile)
		if err != nil {
			return draft, err
		}
		draft.Body = body
	}
	if !utf8.ValidString(draft.Body) {
		return draft, program.Usagef("the body is not valid UTF-8")
	}
	unlimited := message.Limits{BodyBytes: math.MaxInt, AttrsBytes: math.MaxInt, Recipients: math.MaxInt}
	if _, err := message.New(message.ID{}, draft, unlimited); err != nil {
		return draft, program.Usage(err)
	}
	return draft, nil
}

func readAll(ctx context.Context, p program.Process, path string) (string, error) {
	file, err := openSource(ctx, p, path)
	if err != nil {
		return "", err
	}
	_, err = file.file.Seek(0, io.SeekStart)
	var text []byte
	if err == nil {
		text, err = io.ReadAll(file.file)
	}
	if err := errors.Join(err, file.close()); err != nil {
		return "", fmt.Errorf("read %s: %w", file.name, err)
	}
	return string(text), nil
}

// receipt is the printed result of a published message.
type receipt struct {
	client.Receipt
	Fanout *client.Fanout `json:"fanout,omitempty"`
}

func (b *publisher) publishOne(ctx context.Context, c *client.Client, draft message.Draft) error {
	answer, err := c.Publish(ctx, draft, b.key)
	if err != nil {
		return err
	}
	printed := receipt{Receipt: answer}
	if b.wait {
		status, err := waitShowing(ctx, b.process, c, answer.ID, &b.limit)
		if _, overdue := errors.AsType[*overdueError](err); overdue { // the message is published, whatever the wait has come to
			return cmp.Or(b.printReceipt(printed), err)
		}
		if err != nil {
			return fmt.Errorf("%s was published, but waiting for it failed: %w", answer.ID, err)
		}
		printed.Fanout = &status.Fanout
	}
	return b.printReceipt(printed)
}

func (b *publisher) printReceipt(printed receipt) error {
	return b.output.print(printed, func(w io.Writer) error {
		if err := printf(w, "%s\n", printed.ID); err != nil || printed.Fanout == nil {
			return err
		}
		var all totals
		all.add(*printed.Fanout)
		return printf(w, "%s\n", all.because(printed.Fanout.NeverSeen))
	})
}
