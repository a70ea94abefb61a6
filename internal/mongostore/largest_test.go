//go:build long && mongodb

package mongostore_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fanmail/fanmail/internal/storetest"
)

// TestLargestDocuments builds the largest document of each collection, and compares its size with the documentation.
func TestLargestDocuments(t *testing.T) {
	t.Parallel()
	db, opts := create(t)
	storetest.WriteLargest(t, database(db, opts))
	documented, built := make(map[string]int), make(map[string]int)
	for collection, sizes := range storetest.DocumentedSizes(t) {
		documented[collection] = sizes.MongoDB
		cursor, err := raw(t, opts).Collection(collection).Find(t.Context(), bson.D{})
		require.NoError(t, err)
		for cursor.Next(t.Context()) {
			built[collection] = max(built[collection], len(cursor.Current))
		}
		require.NoError(t, cursor.Err())
		require.Less(t, built[collection], 16<<20, "MongoDB allows no more")
	}
	require.Equal(t, built, documented, "in docs/data-model.md")
}
