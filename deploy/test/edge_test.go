package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// served returns examples of the paths of the API, as clients send them, by the role that serves them.
func served(t *testing.T) map[string][]string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(root, "internal/httpapi/routes.go"))
	require.NoError(t, err)
	// Both roles tell how far messages are. Clients ask the publisher, the console its own process.
	roles := map[string]string{"publisher": "publisher", "reporter": "publisher", "rehydrator": "rehydrator", "admin": "rehydrator"}
	paths := map[string][]string{}
	for _, match := range regexp.MustCompile(`(\w+)\.route\("(/v1/[^"]+)"`).FindAllStringSubmatch(string(source), -1) {
		role := roles[match[1]]
		require.NotEmpty(t, role, "%s serves %s", match[1], match[2])
		deep := regexp.MustCompile(`\{\w+\.\.\.\}`).ReplaceAllString(match[2], "news/inbox/retention")
		for _, id := range []string{"ann", "v1", "users:batch", "a%2Ffollowing", "inbox", "following", "topics"} {
			paths[role] = append(paths[role], regexp.MustCompile(`\{\w+\}`).ReplaceAllString(deep, id))
		}
	}
	require.Len(t, paths, 2)
	paths["rehydrator"] = append(paths["rehydrator"], "/console", "/console/", "/console/dead-letters", "/console/messages/1?after=2")
	return paths
}

// requireRouted requires that each path of the API matches the expressions of the role that serves it, and none of the other role. Some
// controllers match whole paths, others from the beginning: both have to do.
func requireRouted(t *testing.T, expressions map[string][]string) {
	t.Helper()
	for role, paths := range served(t) {
		for _, path := range paths {
			for to, all := range expressions {
				for _, prefix := range []string{"^(?:%)", "^(?:%)$"} {
					matches := 0
					for _, expression := range all {
						if regexp.MustCompile(strings.ReplaceAll(prefix, "%", expression)).MatchString(path) {
							matches++
						}
					}
					want := 0
					if role == to {
						want = 1
					}
					require.Equal(t, want, matches, "%s belongs to the %s, and this many expressions of the %s match", path, role, to)
				}
			}
		}
	}
	for _, all := range expressions {
		for _, expression := range all {
			for _, path := range []string{"/metrics", "/healthz", "/readyz", "/"} {
				require.NotRegexp(t, "^(?:"+expression+")$", path, "it is not for clients")
			}
		}
	}
}

// The example of nginx chooses by a map of the path as the client sent it.
func TestNginxRoutes(t *testing.T) {
	t.Parallel()
	text := read(t, "examples", "nginx", "fanmail.conf")
	_, choice, found := strings.Cut(text, "map $request_uri $fanmail {")
	require.True(t, found)
	choice, _, _ = strings.Cut(choice, "\n}")
	expressions := map[string][]string{}
	for _, match := range regexp.MustCompile(`"~\^([^"]+)"\s+fanmail_(\w+);`).FindAllStringSubmatch(choice, -1) {
		expressions[match[2]] = append(expressions[match[2]], match[1])
		require.Contains(t, text, "upstream fanmail_"+match[2]+" {")
	}
	requireRouted(t, expressions)
	require.Contains(t, text, "proxy_pass http://$fanmail;")
}
