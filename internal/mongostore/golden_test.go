//go:build mongodb

package mongostore_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
)

var updateGolden = flag.Bool("update", false, "write the golden files of a new format version")

// requireGolden compares a document with the one in a golden file, but for the order of its fields: servers differ in that.
func requireGolden(t *testing.T, name string, document bson.D) {
	t.Helper()
	got, err := bson.MarshalExtJSON(document, false, false)
	require.NoError(t, err)
	golden := filepath.Join("testdata", name)
	if *updateGolden {
		var indented bytes.Buffer
		require.NoError(t, json.Indent(&indented, got, "", "  "))
		indented.WriteByte('\n')
		require.NoError(t, os.WriteFile(golden, indented.Bytes(), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(got))
}
