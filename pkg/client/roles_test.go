package client_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/api"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// placeholder is a parameter in a path.
var placeholder = regexp.MustCompile(`\{\w+\}`)

// Every path of the API goes to the role that serves it, whatever the ids in it are.
func TestServerOf(t *testing.T) {
	t.Parallel()
	roles := map[string]string{
		"messages": "publisher", "following": "publisher", "identities": "publisher", "topics": "publisher",
		"inboxes": "rehydrator", "users": "rehydrator", "admin": "rehydrator",
	}
	c, err := client.New("http://publisher/", client.Options{Rehydrator: "http://rehydrator/"})
	require.NoError(t, err)
	alone, err := client.New("http://publisher", client.Options{})
	require.NoError(t, err)
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(api.OpenAPI(), &document))
	seen := map[string]int{}
	for path, methods := range document.Paths {
		if !strings.HasPrefix(path, "/v1/") {
			continue // of each process
		}
		for _, method := range []string{"get", "put", "post", "delete"} {
			if methods[method] == nil {
				continue
			}
			var operation struct {
				Tags []string `json:"tags"`
			}
			require.NoError(t, json.Unmarshal(methods[method], &operation))
			role := roles[operation.Tags[0]]
			for _, id := range []string{"ann", "v1", "users:batch", "a%2Ffollowing", "inbox", "following", "topics", "messages"} {
				concrete := placeholder.ReplaceAllString(path, id)
				require.Equal(t, "http://"+role, c.ServerOf(concrete), concrete)
				require.Equal(t, "http://publisher", alone.ServerOf(concrete), concrete)
			}
			seen[role]++
		}
	}
	require.Greater(t, seen["publisher"], 15)
	require.Greater(t, seen["rehydrator"], 15)
}

// A client of roles that run apart uses both.
func TestRolesApart(t *testing.T) {
	t.Parallel()
	c, ctx := newClient(t), t.Context()
	_, err := c.Publish(ctx, message.Draft{From: "ann", To: []message.UserID{"ben"}, Body: "Hello"}, "")
	require.NoError(t, err)
	_, err = c.Login(ctx, "ben", 0)
	require.NoError(t, err)
	urls, stop, err := startServers(ctx, publisher)
	require.NoError(t, err)
	defer func() { require.NoError(t, stop()) }()
	_, err = connect(t, urls[0]).Login(ctx, "ben", 0)
	require.ErrorContains(t, err, "the rehydrator does")
}
