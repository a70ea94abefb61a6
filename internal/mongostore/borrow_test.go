//go:build mongodb

package mongostore_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/test/testenv"
)

// borrow opens an empty, initialized database that no other test uses at the same time. Tests that have passed may have used it
// before. The test must not add or remove a collection or an index; use create for that. Borrowing is much cheaper than creating,
// because the server spends more time on collections and indexes than on most tests.
func borrow(t *testing.T) (*mongostore.DB, mongostore.Options) {
	t.Helper()
	return returned.borrow(t)
}

// returned holds the databases that borrow lends. TestMain drops them.
var returned shelf

// shelf holds initialized databases that no test uses at the moment.
type shelf struct {
	mu        sync.Mutex
	databases []lent
}

// lent is a database that tests borrow one after the other.
type lent struct {
	uri, name string
	// meta is the content of the collection meta when the database was new. The other collections were empty.
	meta []bson.D
	drop func(ctx context.Context) error
}

func (s *shelf) borrow(t *testing.T) (*mongostore.DB, mongostore.Options) {
	t.Helper()
	d, used := s.take()
	if !used {
		d.uri, d.name, d.drop = testenv.LastingMongoDB(t)
	}
	t.Cleanup(func() { require.NoError(t, s.giveBack(context.WithoutCancel(t.Context()), d, t.Failed())) })
	opts := testOptions(t, d.uri, d.name)
	if used {
		d.empty(t, opts)
	} else {
		require.NoError(t, connect(t, opts).Init(t.Context(), false))
		d.meta = content(t, opts, "meta")
	}
	return open(t, opts), opts
}

// take removes and returns a database, or returns false.
func (s *shelf) take() (lent, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.databases) - 1
	if last < 0 {
		return lent{}, false
	}
	d := s.databases[last]
	s.databases = s.databases[:last]
	return d, true
}

// giveBack puts a database back. It drops the database of a failed test, because the server may still be working on calls of that
// test.
func (s *shelf) giveBack(ctx context.Context, d lent, failed bool) error {
	if failed {
		return d.drop(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.databases = append(s.databases, d)
	return nil
}

// drop drops all databases. Call it after the last test.
func (s *shelf) drop(ctx context.Context) error {
	var errs []error
	for d, ok := s.take(); ok; d, ok = s.take() {
		errs = append(errs, d.drop(ctx))
	}
	return errors.Join(errs...)
}

// collections returns the names of the collections of a database.
func collections(t *testing.T, opts mongostore.Options) []string {
	t.Helper()
	names, err := raw(t, opts).ListCollectionNames(t.Context(), bson.D{})
	require.NoError(t, err)
	return names
}

// content returns all documents of a collection.
func content(t *testing.T, opts mongostore.Options, collection string) (all []bson.D) {
	t.Helper()
	cursor, err := raw(t, opts).Collection(collection).Find(t.Context(), bson.D{})
	require.NoError(t, err)
	require.NoError(t, cursor.All(t.Context(), &all))
	return all
}

// empty gives a used database the documents that it had when it was new.
func (d lent) empty(t *testing.T, opts mongostore.Options) {
	t.Helper()
	db := raw(t, opts)
	for _, name := range collections(t, opts) {
		_, err := db.Collection(name).DeleteMany(t.Context(), bson.D{})
		require.NoError(t, err)
	}
	_, err := db.Collection("meta").InsertMany(t.Context(), d.meta)
	require.NoError(t, err)
}

func TestBorrowedDatabaseIsAsNew(t *testing.T) { //nolint:tparallel // its parts follow each other
	t.Parallel()
	var s shelf
	t.Cleanup(func() { require.NoError(t, s.drop(context.WithoutCancel(t.Context()))) })
	var first string
	documents := map[string][]bson.D{}
	t.Run("first", func(t *testing.T) { //nolint:paralleltest // it ends before the second begins
		_, opts := s.borrow(t)
		first = opts.Database
		for _, name := range collections(t, opts) {
			documents[name] = content(t, opts, name)
			_, err := raw(t, opts).Collection(name).InsertOne(t.Context(), bson.D{{Key: "_id", Value: "left behind"}})
			require.NoError(t, err)
		}
		require.NotEmpty(t, documents["meta"])
		_, err := raw(t, opts).Collection("meta").UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "v", Value: 1}}}})
		require.NoError(t, err)
	})
	t.Run("second", func(t *testing.T) { //nolint:paralleltest // see above
		_, opts := s.borrow(t)
		require.Equal(t, first, opts.Database)
		require.Len(t, documents, len(collections(t, opts)))
		for name, want := range documents {
			require.Equal(t, want, content(t, opts, name), name)
		}
	})
}

func TestDatabaseOfAFailedTestIsNotLentAgain(t *testing.T) { //nolint:tparallel // its parts follow each other
	t.Parallel()
	var s shelf
	t.Cleanup(func() { require.NoError(t, s.drop(context.WithoutCancel(t.Context()))) })
	var opts mongostore.Options
	t.Run("first", func(t *testing.T) { _, opts = s.borrow(t) })
	d, ok := s.take()
	require.True(t, ok)
	require.NotEmpty(t, collections(t, opts))
	require.NoError(t, s.giveBack(t.Context(), d, true))
	require.Empty(t, collections(t, opts))
	_, ok = s.take()
	require.False(t, ok)
}
