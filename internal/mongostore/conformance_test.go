package mongostore_test

import (
	"testing"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/storetest/followtest"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/internal/storetest/progresstest"
	"github.com/fanmail/fanmail/internal/storetest/userstatetest"
)

// backend returns what opens an empty store for a conformance suite. Its harness opens the database once more: the server is
// not the store's to crash, and what is not acknowledged by it is not there.
func backend[H any](harness func(db *mongostore.DB, reopen func(*testing.T) H) H) func(*testing.T) H {
	return func(t *testing.T) H {
		t.Helper()
		db, opts := create(t)
		var reopen func(t *testing.T) H
		reopen = func(t *testing.T) H {
			t.Helper()
			return harness(open(t, opts), reopen)
		}
		return harness(db, reopen)
	}
}

func TestMessageConformance(t *testing.T) {
	t.Parallel()
	type harness = messagetest.Harness
	messagetest.Run(t, backend(func(db *mongostore.DB, reopen func(*testing.T) harness) harness {
		return harness{Messages: db.Messages(), Keys: db.Keys(), Reopen: reopen}
	}))
}

func TestUserStateConformance(t *testing.T) {
	t.Parallel()
	type harness = userstatetest.Harness
	userstatetest.Run(t, backend(func(db *mongostore.DB, reopen func(*testing.T) harness) harness {
		return harness{Store: db.Users(), Partitions: partitions, Reopen: reopen}
	}))
}

func TestFollowConformance(t *testing.T) {
	t.Parallel()
	type harness = followtest.Harness
	followtest.Run(t, backend(func(db *mongostore.DB, reopen func(*testing.T) harness) harness {
		return harness{Store: db.Edges(), Partitions: partitions, Reopen: reopen}
	}))
}

func TestProgressConformance(t *testing.T) {
	t.Parallel()
	type harness = progresstest.Harness
	progresstest.Run(t, backend(func(db *mongostore.DB, reopen func(*testing.T) harness) harness {
		return harness{Store: db.Progress(), Partitions: partitions, Reopen: reopen}
	}))
}
