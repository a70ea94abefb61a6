package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/client"
)

func newAttribute(p program.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "attribute",
		Short: "Declare, list or delete attributes",
		Long: "Declare, list or delete attributes. An attribute is a top-level key of the attrs of messages. Inboxes can be\n" +
			"filtered by declared attributes (fanmail inbox --attr), and publishers refuse a message whose value has another\n" +
			"type. At most 32 can be declared. This needs format level 5 (fanmail admin upgrade).",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return program.Usagef("say what to do: declare, list or delete")
			}
			return unknownCommand(cmd, args[0])
		},
	}
	cmd.AddCommand(newAttributeDeclare(p), newAttributeList(p), newAttributeDelete(p))
	return cmd
}

func newAttributeDeclare(p program.Process) *cobra.Command {
	var s server
	cmd := &cobra.Command{
		Use:   "declare NAME TYPE",
		Short: "Declare an attribute",
		Long: "Declare an attribute. The types are string, strings (a list), number, bool and time (RFC 3339). All processes know\n" +
			"the declaration within 5 s. To change the type, delete the attribute first. You can repeat it.",
		Example: "  fanmail attribute declare total number",
		Args:    program.Exactly("NAME", "TYPE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a := client.Attribute{Name: args[0], Type: attribute.Type(args[1])}
			if err := (attribute.Declaration{Name: a.Name, Type: a.Type}).Validate(); err != nil {
				return program.Usage(err)
			}
			c, err := s.dial(p)
			if err != nil {
				return err
			}
			defer c.Close()
			return c.DeclareAttribute(cmd.Context(), a)
		},
	}
	s.addServer(cmd, app.Rehydrator)
	return cmd
}

func newAttributeList(p program.Process) *cobra.Command {
	var s server
	out := output{w: p.Stdout}
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the declared attributes",
		Long:    "List the declared attributes with their types.",
		Example: "  fanmail attribute list",
		Args:    program.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.dial(p)
			if err != nil {
				return err
			}
			defer c.Close()
			list, err := c.Attributes(cmd.Context())
			if err != nil {
				return err
			}
			return out.print(client.AttributeList{Attributes: list}, func(w io.Writer) error {
				for _, a := range list {
					if err := printf(w, "%s  %s\n", program.Printable(a.Name), program.Printable(string(a.Type))); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	s.addServer(cmd, app.Rehydrator)
	out.addJSON(cmd, "print the attributes as JSON")
	return cmd
}

func newAttributeDelete(p program.Process) *cobra.Command {
	var s server
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete an attribute",
		Long: "Delete an attribute. Messages keep their attrs. Filters by it are refused from then on, everywhere within 5 s. You\n" +
			"can repeat it.",
		Example: "  fanmail attribute delete total",
		Args:    program.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := attribute.ValidateName(args[0]); err != nil {
				return program.Usage(err)
			}
			c, err := s.dial(p)
			if err != nil {
				return err
			}
			defer c.Close()
			return c.DeleteAttribute(cmd.Context(), args[0])
		},
	}
	s.addServer(cmd, app.Rehydrator)
	return cmd
}
