package cli

import (
	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/cli/program"
)

func newRoot(p program.Process) *cobra.Command {
	root := &cobra.Command{
		Use:   "fanmail",
		Short: "Deliver one message into millions of inboxes",
		Long: "Fanmail stores each published message once and copies it into the inbox of every recipient, exactly once.\n\n" +
			"See what it does with 'fanmail demo', or start a server with 'fanmail serve'.",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		Args:              cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownCommand(cmd, args[0])
		},
	}
	root.SetHelpCommand(newHelp())
	program.SetTexts(root)
	root.SetFlagErrorFunc(program.FlagError)
	root.AddCommand(
		newServe(p), newDemo(p), newConfig(p),
		newImport(p), newPublish(p), newLogin(p), newIdentity(p), newTopic(p), newAttribute(p), newFollow(p), newUnfollow(p), newSubscribe(p), newUnsubscribe(p), newUser(p),
		newInbox(p), newStatus(p), newMessages(p),
		newExplain(p), newAudit(p), newDLQ(p), newBackup(p), newRestore(p), newRetention(p), newTop(p), newDormancy(p), newBench(p), newAdmin(p), newVersion(p), newManpages(),
	)
	return root
}

// newHelp replaces cobra's help command, which does not treat an unknown command as an error.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Print the help of a command",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, rest, err := cmd.Root().Find(args)
			switch {
			case err != nil:
				return program.Usage(err)
			case len(rest) > 0 && target.HasSubCommands():
				return unknownCommand(target, rest[0])
			}
			target.InitDefaultHelpFlag()
			target.InitDefaultVersionFlag()
			return target.Help()
		},
	}
}
