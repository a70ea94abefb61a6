package cli

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/app/embedded"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/internal/telemetry"
	"github.com/fanmail/fanmail/pkg/client"
)

func newBackup(p program.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup DIR",
		Short: "Save the embedded store of a running server",
		Long: "Save the embedded store of a running 'fanmail serve', with logins and dead letters, to a folder on the host of the\n" +
			"server, below its backup.dir. The folder must be empty, or not exist. The server goes on meanwhile; only dead letters\n" +
			"wait. Everything that was answered before is in the backup. On the disk of the store it shares unchanged files with\n" +
			"it: copy it to another disk. 'fanmail restore' restores it.",
		Example: "  fanmail backup /var/lib/fanmail-backups/monday",
		Args:    program.Exactly("DIR"),
	}
	out := newOutput(p, cmd, "print the result as JSON")
	return onServer(p, app.Rehydrator, cmd, func(ctx context.Context, c *client.Client, args []string) error {
		if !filepath.IsAbs(args[0]) {
			return program.Usagef("%s is no absolute path: the folder is on the host of the server", args[0])
		}
		made, err := c.Backup(ctx, args[0])
		if err != nil {
			return err
		}
		return out.sayf(made, "the backup in %s is complete; the slowest write meanwhile took %s\n", program.Printable(args[0]), made.LongestPause)
	})
}

// restored is the result of a restore.
type restored struct {
	Data string `json:"data"`
}

func newRestore(p program.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore DIR --data DATA",
		Short: "Make a data folder of a backup",
		Long: "Make a data folder of a backup that 'fanmail backup' has made. The data folder must be empty, or not exist. The\n" +
			"backup stays as it is. Run the command as the user of the server, because the files will belong to that user. Then\n" +
			"start 'fanmail serve' with the data folder, and run 'fanmail audit'. In any other folder, the server creates a new\n" +
			"store. With nats.url it refuses to start until the restored dead letters are redriven or dropped without it.",
		Example: "  fanmail restore /var/lib/fanmail-backups/monday --data /var/lib/fanmail",
		Args:    program.Exactly("DIR"),
	}
	data := cmd.Flags().String("data", "", "the data folder to be made (required)")
	out := newOutput(p, cmd, "print the result as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *data == "" {
			return program.Usagef("say by --data which data folder is to be made")
		}
		logger, err := telemetry.NewLogger(telemetry.LogOptions{Level: "warn", Format: "auto", Writer: p.Stderr, Now: p.Now})
		if err != nil {
			return err
		}
		if err := embedded.Restore(cmd.Context(), args[0], *data, logger); err != nil {
			return err
		}
		return out.sayf(restored{Data: *data}, "%s is restored: start 'fanmail serve --data %s' (in any other folder it creates a new store), and run 'fanmail audit'\n",
			program.Printable(args[0]), program.Printable(*data))
	}
	return cmd
}
