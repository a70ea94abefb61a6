package cli

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
)

const defaultServer = "http://127.0.0.1:8080"

// server finds the server for a command: one with all roles, or one with the needed role.
type server struct {
	cmd   *cobra.Command
	url   string
	role  app.Role // the needed one
	apart map[app.Role]*string
	credentials
}

// addServer defines --server, and a flag for each role that serves the command if roles run in separate processes. The first is the needed
// one.
func (s *server) addServer(cmd *cobra.Command, roles ...app.Role) {
	s.cmd, s.role, s.apart = cmd, roles[0], make(map[app.Role]*string)
	cmd.Flags().StringVar(&s.url, "server", "", "URL of the server (default $"+program.ServerEnv+", or "+defaultServer+")")
	for _, role := range roles {
		s.apart[role] = cmd.Flags().String(string(role), "",
			"URL of the "+string(role)+", if roles run in separate processes (default $"+program.RoleEnv(role)+")")
	}
	s.add(cmd)
}

// run calls do with a client of the server.
func (s *server) run(ctx context.Context, p program.Process, do ask, args []string) error {
	c, err := s.dial(p)
	if err != nil {
		return err
	}
	defer c.Close()
	return do(ctx, c, args)
}

// dial returns a client of the server. It does not connect yet.
func (s *server) dial(p program.Process) (*client.Client, error) {
	program.SetRole(s.cmd, s.role)
	url := cmp.Or(*s.apart[s.role], s.url, p.Getenv(program.RoleEnv(s.role)), p.Getenv(program.ServerEnv), defaultServer)
	options, err := s.options(p)
	if err != nil {
		return nil, err
	}
	c, err := client.New(url, options)
	if err != nil {
		return nil, program.Usage(err)
	}
	return c, nil
}
