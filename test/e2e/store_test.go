//go:build long

package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/testenv"
)

// store is the kind of store of a scenario.
type store string

const (
	embedded store = "embedded"
	mongoDB  store = "MongoDB"
	// apart is MongoDB with a separate process for each role.
	apart store = "roles apart"
)

// everyStore returns the stores on which each scenario runs.
func everyStore() []store {
	if testenv.OnMongoDB {
		return []store{embedded, mongoDB}
	}
	return []store{embedded}
}

// everyStoreAndApart is everyStore plus apart.
func everyStoreAndApart() []store {
	if testenv.OnMongoDB {
		return append(everyStore(), apart)
	}
	return everyStore()
}

// sample returns every ninth variant of a scenario on MongoDB, where each variant takes far longer. On the embedded store, or with
// all of the data, it returns all variants.
func sample[T any](on store, tests []T) (some []T) {
	for i, test := range tests {
		if on == embedded || full() || i%9 == 0 {
			some = append(some, test)
		}
	}
	return some
}

// everyRace sets that one in fourteen failpoints has a server with the race detector, which makes everything several times as slow.
const everyRace = 14

// tolerance is the clock_tolerance and the publish_slack of scenarios that wait for them. A quarter of it is the timeout of an
// operation on MongoDB. That must be long enough for a machine that is busy with tests.
func (on store) tolerance() time.Duration {
	if on != embedded {
		return 20 * time.Second
	}
	return time.Second
}

// stores are the stores in the data of a stopped server.
type stores struct {
	messages message.Store
	progress progress.Store
	users    userstate.Store
	inbox    bucket.Store
}

// left opens the data of stopped servers for a test. No process changes it meanwhile.
func (w *world) left(ctx context.Context, look func(stores)) {
	w.Helper()
	if w.on != embedded {
		w.leftInDatabase(ctx, look)
	} else {
		w.leftInFolder(ctx, look)
	}
}

// setting returns a setting of the site that is a number, or 0 for the default.
func (w *world) setting(key string) (n int) {
	w.Helper()
	if text := w.site.Settings[key]; text != "" {
		var err error
		n, err = strconv.Atoi(text)
		require.NoError(w, err)
	}
	return n
}

func (w *world) leftInDatabase(ctx context.Context, look func(stores)) {
	w.Helper()
	db, err := mongostore.Open(ctx, mongostore.Options{
		URI: w.site.Settings["mongodb.uri"], Database: w.site.Settings["mongodb.database"],
		Partitions: w.setting("partitions"), BucketSize: w.setting("inbox.bucket_size"), Timeout: time.Minute, Now: time.Now, Logger: zerolog.Nop(),
	})
	require.NoError(w, err)
	defer func() { require.NoError(w, db.Close()) }()
	look(stores{db.Messages(), db.Progress(), db.Users(), db.Inbox()})
}

// leftInFolder opens a copy of the folder, so that the next server finds the folder unchanged.
func (w *world) leftInFolder(ctx context.Context, look func(stores)) {
	w.Helper()
	dir, err := os.MkdirTemp(w.dir, "left-")
	require.NoError(w, err)
	defer func() { require.NoError(w, os.RemoveAll(dir)) }()
	require.NoError(w, os.CopyFS(dir, os.DirFS(filepath.Join(w.site.Data, "store"))))
	db, err := pebblestore.Open(ctx, dir, pebblestore.Options{
		Partitions: w.setting("partitions"), BucketSize: w.setting("inbox.bucket_size"), Now: time.Now, Logger: zerolog.Nop(),
	})
	require.NoError(w, err)
	defer func() { require.NoError(w, db.Close()) }()
	look(stores{db.Messages(), db.Progress(), db.Users(), db.Inbox()})
}
