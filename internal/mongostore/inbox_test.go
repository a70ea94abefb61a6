package mongostore_test

import (
	"testing"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/storetest/buckettest"
)

// interleavings is how many orders of operations are tried for each scenario: each of them is hundreds of round trips.
const interleavings = 3

func TestBucketConformance(t *testing.T) {
	t.Parallel()
	type harness = buckettest.Harness
	buckettest.Run(t, backend(func(db *mongostore.DB, reopen func(*testing.T) harness) harness {
		return harness{Store: db.Inbox(), Reopen: reopen, Interleavings: interleavings}
	}))
}
