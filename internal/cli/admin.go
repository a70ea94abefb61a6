package cli

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
)

func newAdmin(p program.Process) *cobra.Command {
	return withCommands(&cobra.Command{
		Use:   "admin",
		Short: "Prepare the database of servers, and change what its processes agree on",
	}, newAdminInit(p), newAdminSettings(p), newAdminProcesses(p))
}

// initialized is the result of an initialization.
type initialized struct {
	Database   string `json:"database"`
	Partitions int    `json:"partitions"`
	Sharded    bool   `json:"sharded"`
}

func newAdminInit(p program.Process) *cobra.Command {
	var limit timeout
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Prepare a MongoDB database for Fanmail",
		Long: "Prepare a MongoDB database for Fanmail: create collections, indexes, and a record of the number of partitions, the\n" +
			"size of buckets, and the settings that all processes follow (fanmail admin settings). Existing\n" +
			"ones stay unchanged, so you can repeat the command, also after an upgrade, and run it on several hosts at once.\n" +
			"With --shard it also shards the collections, which needs the router (mongos) of a sharded cluster. After a\n" +
			"restore, give --restored before the servers start: clients then fetch inboxes anew. The\n" +
			"configuration is that of 'fanmail serve', whose flags the command takes.\n\n" +
			"The command waits for a database that does not answer, at most for --timeout.",
		Example: "  fanmail admin init --store mongodb --mongodb-uri mongodb://127.0.0.1:27017",
		Args:    program.Exactly(),
	}
	s := program.NewSettings(p, cmd, "store", "mongodb.uri", "mongodb.database", "partitions")
	out := newOutput(p, cmd, "print the result as JSON")
	shard := cmd.Flags().Bool("shard", false, "shard the collections over the cluster")
	restored := cmd.Flags().Bool("restored", false, "the database was restored from a backup")
	limit.add(cmd, "how long to wait, such as 1m (default without limit)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := limit.check(cmd, true, ""); err != nil {
			return err
		}
		cfg, err := s.Load()
		if err != nil {
			return err
		}
		logger, err := program.NewLogger(p, cfg)
		if err != nil {
			return err
		}
		ctx, cancel := limit.within(cmd.Context())
		defer cancel()
		err = app.Init(ctx, cfg, *shard, logger)
		if err == nil && *restored {
			err = app.Restored(ctx, cfg, logger)
		}
		if err != nil && timedOut(ctx) {
			return fmt.Errorf("the database at %s is not ready after %s: %w; it does not answer, or is making indexes: repeat the command, "+
				"or give another address with --mongodb-uri or FANMAIL_MONGODB_URI", cmp.Or(cfg.MongoDB.URI.String(), cfg.MongoDB.URIFile), &limit, err)
		} else if err != nil {
			return err
		}
		made := initialized{Database: cfg.MongoDB.Database, Partitions: cfg.Partitions, Sharded: *shard}
		return out.sayf(made, "the database %s is ready, with %d partitions\n", made.Database, made.Partitions)
	}
	return cmd
}
