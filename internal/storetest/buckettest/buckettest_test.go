package buckettest_test

import (
	"testing"

	"github.com/fanmail/fanmail/internal/storetest/buckettest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestModel(t *testing.T) {
	t.Parallel()
	buckettest.Run(t, func(_ *testing.T, size int) buckettest.Harness {
		return harness(buckettest.NewModel(bucket.Size(size)))
	})
}

// TestSilentModel tests the appender on a store that does not return the bucket that refused a push, in some orders: TestModel tries all.
func TestSilentModel(t *testing.T) {
	t.Parallel()
	buckettest.Run(t, func(_ *testing.T, size int) buckettest.Harness {
		model := buckettest.NewModel(bucket.Size(size))
		model.Silent = true
		h := harness(model)
		h.Interleavings = 25
		return h
	})
}

// TestRemovingModel tests what follows from emptying on a store that removes buckets.
func TestRemovingModel(t *testing.T) {
	t.Parallel()
	buckettest.RunEmpty(t, func(_ *testing.T, size int) buckettest.Harness {
		model := buckettest.NewModel(bucket.Size(size))
		model.Removes = true
		return harness(model)
	})
}

func harness(model *buckettest.Model) buckettest.Harness {
	var h buckettest.Harness
	h = buckettest.Harness{Store: model, Index: model, Reopen: func(*testing.T) buckettest.Harness { return h }}
	return h
}
