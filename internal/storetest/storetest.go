// Package storetest holds the conformance suites of the stores. Run tests that a backend keeps the contracts in the doc
// comments of message.Store, message.KeyStore, userstate.Store, follow.Store, progress.Store, bucket.Store, settings.Store,
// retention.Store, identity.Store, topic.Store and flag.Store.
package storetest

import (
	"testing"
	"time"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/internal/storetest/buckettest"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Backend is an implementation of the stores.
type Backend struct {
	// New opens an empty database whose configuration has the settings Proposed. It closes the database with t.Cleanup. Most tests
	// run in parallel, each on a separate database.
	New func(t *testing.T) Database
	// NewAt is New for a database that stamps messages with the given clock.
	NewAt func(t *testing.T, now func() time.Time) Database
	// Sized is New for a database with buckets of another size.
	Sized func(t *testing.T, size int) Database
	// Partitions is the number of partitions of every database that New opens, at least 4.
	Partitions int
	// Interleavings is buckettest.Harness.Interleavings: the number of schedules that are tried for a scenario; 0 means all.
	Interleavings int
}

// Database is an opened database of a backend. Its clock advances from one call to the next.
type Database struct {
	Messages message.Store
	Keys     message.KeyStore
	Users    userstate.Store
	Edges    follow.Store
	Progress progress.Store
	Inbox    bucket.Store
	Settings settings.Store
	Walk     retention.Store
	Passes   retention.Store
	Topics   topic.Store
	Flags    flag.Store

	Identities identity.Store
	// DamageUser makes the record of a user unreadable. The returned function restores it.
	DamageUser func(t *testing.T, user message.UserID) (mend func())
	// DamageIdentity and DamageList make the record of an identity, and the list of a user's identities, unreadable.
	DamageIdentity func(t *testing.T, id identity.Identity)
	DamageList     func(t *testing.T, user message.UserID)
	// DamageFlags makes the flags of an inbox unreadable.
	DamageFlags func(t *testing.T, owner message.UserID)
	// Reopen simulates a crash and opens the remaining data. A backend that cannot simulate a crash opens the database again. The
	// test must not use the old Database afterwards.
	Reopen func(t *testing.T) Database
}

// Run tests every store of a backend.
func Run(t *testing.T, b Backend) {
	t.Helper()
	for name, suite := range map[string]func(*testing.T, Backend){
		"Messages": RunMessages, "Users": runUsers, "Edges": RunEdges, "Progress": runProgress, "Inbox": runInbox,
		"Settings": runSettings, "Walk": runWalk, "Identities": runIdentities,
		"Topics": runTopics, "Flags": runFlags,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			suite(t, b)
		})
	}
}

// RunMessages tests message.Store and message.KeyStore alone.
func RunMessages(t *testing.T, b Backend) { t.Helper(); messageSuite{b}.run(t) }

// RunEdges tests follow.Store alone.
func RunEdges(t *testing.T, b Backend) { t.Helper(); edgeSuite{b}.run(t) }

func runUsers(t *testing.T, b Backend) { t.Helper(); userSuite{b}.run(t) }

func runProgress(t *testing.T, b Backend) { t.Helper(); progressSuite{b}.run(t) }

func runSettings(t *testing.T, b Backend) { t.Helper(); settingsSuite{b}.run(t) }

func runWalk(t *testing.T, b Backend) { t.Helper(); walkSuite{b}.run(t) }

func runIdentities(t *testing.T, b Backend) { t.Helper(); identitySuite{b}.run(t) }

func runTopics(t *testing.T, b Backend) { t.Helper(); topicSuite{b}.run(t) }

func runFlags(t *testing.T, b Backend) { t.Helper(); flagSuite{b}.run(t) }

func runInbox(t *testing.T, b Backend) {
	t.Helper()
	var of func(db Database) buckettest.Harness
	of = func(db Database) buckettest.Harness {
		reopen := func(t *testing.T) buckettest.Harness { t.Helper(); return of(db.Reopen(t)) }
		index, _ := db.Inbox.(bucket.Index)
		return buckettest.Harness{Store: db.Inbox, Index: index, Reopen: reopen, Interleavings: b.Interleavings}
	}
	buckettest.Run(t, func(t *testing.T, size int) buckettest.Harness {
		t.Helper()
		if size == bucket.Capacity {
			return of(b.New(t))
		}
		return of(b.Sized(t, size))
	})
}

var (
	epoch = messagetest.Epoch
	id    = messagetest.ID
)

// later returns the time that is seconds after epoch.
func later(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }
