package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCommunities makes topics of a graph of three towns of three families each, and of a pair beside them.
func TestCommunities(t *testing.T) {
	t.Parallel()
	const towns, families, size = 3, 3, 6
	var edges strings.Builder
	user := func(town, family, i int) string { return fmt.Sprintf("u%d%d%d", town, family, i) }
	for town := range towns {
		for family := range families {
			for i := range size {
				for j := range i {
					fmt.Fprintf(&edges, "%s\t%s\n", user(town, family, i), user(town, family, j))
				}
				fmt.Fprintf(&edges, "%s\t%s\n", user(town, family, i), user(town, (family+1)%families, i))
			}
		}
		fmt.Fprintf(&edges, "%s\t%s\n", user(town, 0, 0), user((town+1)%towns, 0, 0))
	}
	edges.WriteString("hermit\tcat\n")
	follows := filepath.Join(t.TempDir(), "follows.tsv")
	require.NoError(t, os.WriteFile(follows, []byte(edges.String()), 0o600))

	grown := func(args ...string) (topics []string, members map[string]string) {
		dir := t.TempDir()
		code, _, stderr := run(t, append([]string{"communities", "--follows", follows, "--dir", dir}, args...)...)
		require.Zero(t, code, stderr)
		for _, line := range lines(read(t, filepath.Join(dir, "topics.ndjson"))) {
			var topic struct{ Topic string }
			require.NoError(t, json.Unmarshal([]byte(line), &topic))
			topics = append(topics, topic.Topic)
		}
		members = make(map[string]string)
		for _, line := range lines(read(t, filepath.Join(dir, "members.tsv"))) {
			name, topic, _ := strings.Cut(line, "\t")
			members[name] = topic
		}
		return topics, members
	}
	topics, members := grown("--depth", "2", "--smallest", "6")
	require.Equal(t, []string{"c0", "c1", "c2", "c0/c0", "c0/c1", "c0/c2", "c1/c0", "c1/c1", "c1/c2", "c2/c0", "c2/c1", "c2/c2"}, topics)
	require.Len(t, members, towns*families*size)
	for town := range towns {
		for family := range families {
			for i := range size {
				require.Equal(t, fmt.Sprintf("c%d/c%d", town, family), members[user(town, family, i)])
			}
		}
	}

	some, _ := grown("--depth", "2", "--smallest", "6", "--topics", "5")
	require.Equal(t, topics[:5], some)
	flat, members := grown("--depth", "1", "--smallest", "2")
	require.Equal(t, []string{"c0", "c1", "c2", "c3"}, flat)
	require.Equal(t, "c3", members["hermit"])
	require.Equal(t, "c3", members["cat"])
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}
