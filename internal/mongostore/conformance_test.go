//go:build mongodb

package mongostore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/tamper/damage"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Backend{
		New: func(t *testing.T) storetest.Database {
			t.Helper()
			db, opts := borrow(t)
			return database(db, opts)
		},
		NewAt: func(t *testing.T, now func() time.Time) storetest.Database {
			t.Helper()
			_, opts := borrow(t)
			opts.Stamp = now
			return database(open(t, opts), opts)
		},
		Sized: func(t *testing.T, size int) storetest.Database {
			t.Helper()
			_, opts := borrow(t)
			opts.BucketSize = size // no record of an inbox has it
			return database(connect(t, opts), opts)
		},
		Partitions: partitions, Interleavings: interleavings,
	})
}

// database returns the stores of a database. Reopen opens it a second time: the test cannot crash the server, and the server
// has stored every write that it has acknowledged.
func database(db *mongostore.DB, opts mongostore.Options) storetest.Database {
	return storetest.Database{
		Messages: db.Messages(), Keys: db.Keys(), Users: db.Users(), Edges: db.Edges(), Progress: db.Progress(), Inbox: db.Inbox(),
		Settings: db.Settings(), Walk: db.Retention(), Passes: db.Passes(), Identities: db.Identities(), Topics: db.Topics(), Flags: db.Flags(),
		DamageUser: func(t *testing.T, user message.UserID) func() {
			t.Helper()
			mend, err := damage.Database{URI: opts.URI, Name: opts.Database}.Spoil(t.Context(), user)
			require.NoError(t, err)
			return func() { require.NoError(t, mend(t.Context())) }
		},
		DamageIdentity: func(t *testing.T, id identity.Identity) { t.Helper(); spoil(t, opts, "identities", id.Key(), "user") },
		DamageList: func(t *testing.T, user message.UserID) {
			t.Helper()
			spoil(t, opts, "user_identities", string(user), "items")
		},
		DamageFlags: func(t *testing.T, owner message.UserID) { t.Helper(); spoil(t, opts, "flags", string(owner), "flags") },
		Reopen:      func(t *testing.T) storetest.Database { t.Helper(); return database(open(t, opts), opts) },
	}
}

// spoil gives a field of a document another type.
func spoil(t *testing.T, opts mongostore.Options, collection, id, field string) {
	t.Helper()
	result, err := raw(t, opts).Collection(collection).UpdateOne(t.Context(), bson.D{{Key: "_id", Value: id}}, bson.D{{Key: "$set", Value: bson.D{{Key: field, Value: 7}}}})
	require.NoError(t, err)
	require.EqualValues(t, 1, result.ModifiedCount)
}
