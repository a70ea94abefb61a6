package cli

import (
	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/pkg/client"
)

const defaultServer = "http://127.0.0.1:8080"

// server is where a command finds the server that it talks to.
type server struct{ url string }

// addServer defines --server.
func (s *server) addServer(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.url, "server", "", "URL of the server (default $"+serverEnv+", or "+defaultServer+")")
}

// dial returns a client of the server. It does not connect yet.
func (s *server) dial(p Process) (*client.Client, error) {
	url := s.url
	if url == "" {
		url = p.getenv(serverEnv)
	}
	if url == "" {
		url = defaultServer
	}
	c, err := client.New(url, client.Options{})
	if err != nil {
		return nil, &usageError{err}
	}
	return c, nil
}
