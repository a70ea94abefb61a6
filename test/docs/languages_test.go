//go:build hosttools

package docs_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExampleInPython(t *testing.T) {
	t.Parallel()
	testInterpreted(t, []string{"python3", "-B"}, "docs/examples/python/publisher.py", "docs/examples/python/reader.py")
}

func TestExampleInJavaScript(t *testing.T) {
	t.Parallel()
	testInterpreted(t, []string{"node"}, "docs/examples/javascript/publisher.mjs", "docs/examples/javascript/reader.mjs")
}

func testInterpreted(t *testing.T, interpreter []string, publisher, reader string) {
	t.Helper()
	here, err := filepath.Abs(root)
	require.NoError(t, err)
	testExample(t, example{
		publisher: append(slices.Clone(interpreter), filepath.Join(here, publisher)),
		reader:    append(slices.Clone(interpreter), filepath.Join(here, reader)),
	})
}
