package cli

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/pkg/client"
)

const defaultServer = "http://127.0.0.1:8080"

// Environment variables that name servers where flags do not.
const (
	serverEnv     = "FANMAIL_SERVER"
	publisherEnv  = "FANMAIL_PUBLISHER"
	rehydratorEnv = "FANMAIL_REHYDRATOR"
)

// server is where a command finds the server that it talks to: one with all roles, or one with the role that it needs.
type server struct {
	url, apart string
	roleEnv    string
	credentials
}

// addServer defines --server, and the flag of the role that serves the command where roles run apart.
func (s *server) addServer(cmd *cobra.Command, role app.Role) {
	s.roleEnv = publisherEnv
	if role == app.Rehydrator {
		s.roleEnv = rehydratorEnv
	}
	cmd.Flags().StringVar(&s.url, "server", "", "URL of the server (default $"+serverEnv+", or "+defaultServer+")")
	cmd.Flags().StringVar(&s.apart, string(role), "", "URL of the "+string(role)+", where roles run apart (default $"+s.roleEnv+")")
	s.add(cmd)
}

// dial returns a client of the server. It does not connect yet.
func (s *server) dial(p Process) (*client.Client, error) {
	url := cmp.Or(s.apart, s.url, p.getenv(s.roleEnv), p.getenv(serverEnv), defaultServer)
	options, err := s.options(p)
	if err != nil {
		return nil, err
	}
	c, err := client.New(url, options)
	if err != nil {
		return nil, &usageError{err}
	}
	return c, nil
}
