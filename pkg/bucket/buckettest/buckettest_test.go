package buckettest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fanmail/fanmail/pkg/bucket/buckettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestModel(t *testing.T) {
	t.Parallel()
	buckettest.Run(t, func(*testing.T) buckettest.Harness {
		model := buckettest.NewModel()
		var h buckettest.Harness
		h = buckettest.Harness{Store: model, Reopen: func(*testing.T) buckettest.Harness { return h }}
		return h
	})
}
