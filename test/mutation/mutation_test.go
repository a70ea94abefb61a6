// Package mutation_test shows that the tests catch the shortcuts that break the protocols: it takes each of them in
// turn, in an overlay of the code, and demands that a test fails.
package mutation_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// read returns a file of the repository.
func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, file))
	require.NoError(t, err)
	return string(data)
}

// mutated returns the files that a mutation changes. Each text to replace stands in its file exactly once, or the
// code has moved on and the mutation with it no more.
func (m mutation) mutated(t *testing.T) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for _, e := range m.edits {
		content, ok := files[e.file]
		if !ok {
			content = read(t, e.file)
		}
		require.Equal(t, 1, strings.Count(content, e.old), "%s has to have this once:\n%s", e.file, e.old)
		files[e.file] = strings.Replace(content, e.old, e.new, 1)
	}
	return files
}

func TestMutationsApply(t *testing.T) {
	t.Parallel()
	names := make(map[string]bool)
	for _, m := range mutations() {
		require.False(t, names[m.name], m.name)
		names[m.name] = true
		require.NotEmpty(t, m.mutated(t))
	}
}
