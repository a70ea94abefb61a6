package program

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
)

// RoleMain runs the command line of the program of a role and returns its exit code. When ctx ends, the program ends cleanly.
func RoleMain(ctx context.Context, p Process, role app.Role) int {
	return Run(ctx, p, NewRole(p, role)) //nolint:contextcheck // the command gets ctx
}

// roles says what each role does, and which requests it serves.
var roles = map[app.Role]struct{ does, serves string }{
	app.Publisher:    {"accept messages and edges", "messages, following, topics and identities"},
	app.FanoutWorker: {"copy messages into inboxes", "health and metrics only"},
	app.Rehydrator:   {"serve inboxes, and rebuild those of returning users", "logins, inboxes, users, explain, audit and dead letters"},
}

// NewRole returns the command of the program that has this role.
func NewRole(p Process, role app.Role) *cobra.Command {
	cmd := &cobra.Command{
		Use:   string(role),
		Short: "Run a " + string(role) + ": " + roles[role].does,
		Long: fmt.Sprintf("Run a %s: %s. It serves %s.\n\n"+
			"Any number of processes share one MongoDB database, which 'fanmail admin init' prepares, and one or more NATS\n"+
			"servers. At the start the process waits for both.\n\n"+
			"The process logs one line with its URL when it is ready. On an interrupt or SIGTERM it finishes requests and\n"+
			"work in progress, within the drain timeout, and exits. After SIGTERM it first serves for the drain delay, while\n"+
			"/readyz answers that it is stopping. A second signal ends it at once.\n\n"+
			"Every key that 'fanmail config' prints is also a flag and an environment variable: limits.body is --limits-body\n"+
			"and FANMAIL_LIMITS_BODY. Flags win over the environment, and the environment wins over the configuration file.",
			role, roles[role].does, roles[role].serves),
		Example:       "  " + string(role) + " --store mongodb --mongodb-uri mongodb://127.0.0.1:27017 --nats-url nats://127.0.0.1:4222",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          Exactly(),
	}
	SetTexts(cmd)
	cmd.SetFlagErrorFunc(FlagError)
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
