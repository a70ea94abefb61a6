package cli

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
)

const defaultServer = "http://127.0.0.1:8080"

// server finds the server for a command: one with all roles, or one with the needed role.
type server struct {
	url, apart string
	roleEnv    string
	credentials
}

// addServer defines --server, and the flag of the role that serves the command if roles run in separate processes.
func (s *server) addServer(cmd *cobra.Command, role app.Role) {
	s.roleEnv = program.PublisherEnv
	if role == app.Rehydrator {
		s.roleEnv = program.RehydratorEnv
	}
	cmd.Flags().StringVar(&s.url, "server", "", "URL of the server (default $"+program.ServerEnv+", or "+defaultServer+")")
	cmd.Flags().StringVar(&s.apart, string(role), "", "URL of the "+string(role)+", if roles run in separate processes (default $"+s.roleEnv+")")
	s.add(cmd)
}

// dial returns a client of the server. It does not connect yet.
func (s *server) dial(p program.Process) (*client.Client, error) {
	url := cmp.Or(s.apart, s.url, p.Getenv(s.roleEnv), p.Getenv(program.ServerEnv), defaultServer)
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
