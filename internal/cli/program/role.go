package program

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
)

// RoleMain runs the command line of a program that has one role, and returns its exit code. When ctx ends, it ends cleanly.
func RoleMain(ctx context.Context, p Process, role app.Role) int {
	return Run(ctx, p, NewRole(p, role)) //nolint:contextcheck // the command gets ctx
}

// roles tells what each role does, and which requests it serves.
var roles = map[app.Role]struct{ does, serves string }{
	app.Publisher:    {"accept messages, and who follows whom", "messages and following"},
	app.FanoutWorker: {"copy messages into inboxes", "nothing but health and metrics"},
	app.Rehydrator:   {"serve inboxes, and rebuild those of whoever comes back", "logins, inboxes, users, explain, audit and dead letters"},
}

// NewRole returns the command of the program that has this role.
func NewRole(p Process, role app.Role) *cobra.Command {
	cmd := &cobra.Command{
		Use:   string(role),
		Short: "Run a " + string(role) + ": " + roles[role].does,
		Long: fmt.Sprintf("Run a %s: %s. It serves %s. Any number of them share the work of one\n"+
			"MongoDB deployment, which 'fanmail admin init' has prepared, and of one or more NATS servers. It waits for both at\n"+
			"the start, logs one line with its URL when it is ready, and ends when it is interrupted or told to terminate, after\n"+
			"what is in flight has finished or the drain timeout has passed. Told to terminate, it first serves on for the drain\n"+
			"delay, with /readyz saying that it is stopping. A second signal ends it at once.\n\n"+
			"Every key that 'fanmail config' prints is a flag, too, and an environment variable: mongodb.uri is --mongodb-uri and\n"+
			"FANMAIL_MONGODB_URI. Flags win over the environment, the environment over the configuration file.",
			role, roles[role].does, roles[role].serves),
		Example:       "  " + string(role) + " --store mongodb --mongodb-uri mongodb://127.0.0.1:27017 --nats-url nats://127.0.0.1:4222",
		Version:       Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          Exactly(),
	}
	cmd.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Usage(err) })
	s := NewSettings(p, cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := s.Load()
		if err != nil {
			return err
		}
		return Serve(cmd.Context(), p, cfg, nil, role)
	}
	return cmd
}
