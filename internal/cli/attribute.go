package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/client"
)

func newAttribute(p program.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "attribute ACTION [NAME [TYPE]]",
		Short: "Declare, list or delete attributes",
		Long: "Declare, list or delete attributes. An attribute is a top-level key of the attrs of messages. Inboxes can be\n" +
			"filtered by declared attributes (fanmail inbox --attr), and publishers refuse a message whose value has another\n" +
			"type. At most 32 can be declared.\n\n" +
			"  declare NAME TYPE  The types are string, strings (a list), number, bool and time (RFC 3339). To change the type,\n" +
			"                     delete the attribute first.\n" +
			"  list               List the declared attributes with their types.\n" +
			"  delete NAME        Messages keep their attrs. Filters by the attribute are refused from then on.\n\n" +
			"All processes know a change within 5 s. You can repeat it.",
		Example: "  fanmail attribute declare total number\n  fanmail attribute list",
	}
	out := newOutput(p, cmd, "list: print the attributes as JSON")
	return withActions(
		p, app.Rehydrator, cmd,
		action{name: "declare", args: program.Exactly("NAME", "TYPE"), do: func(ctx context.Context, c *client.Client, args []string) error {
			a := client.Attribute{Name: args[0], Type: attribute.Type(args[1])}
			if err := (attribute.Declaration{Name: a.Name, Type: a.Type}).Validate(); err != nil {
				return program.Usage(err)
			}
			return c.DeclareAttribute(ctx, a)
		}},
		action{name: "list", args: program.Exactly(), flags: []string{jsonFlag}, do: func(ctx context.Context, c *client.Client, _ []string) error {
			list, err := c.Attributes(ctx)
			if err != nil {
				return err
			}
			return out.print(client.AttributeList{Attributes: list}, func(w io.Writer) error {
				return tableOf(w, []string{"NAME", "TYPE"}, list, func(a client.Attribute) []string { return []string{a.Name, string(a.Type)} })
			})
		}},
		action{name: "delete", args: program.Exactly("NAME"), do: func(ctx context.Context, c *client.Client, args []string) error {
			if err := attribute.ValidateName(args[0]); err != nil {
				return program.Usage(err)
			}
			return c.DeleteAttribute(ctx, args[0])
		}},
	)
}
