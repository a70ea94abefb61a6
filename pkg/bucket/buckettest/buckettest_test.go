package buckettest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fanmail/fanmail/pkg/bucket/buckettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestModel(t *testing.T) {
	t.Parallel()
	for name, silent := range map[string]bool{"that tells what refused a push": false, "that does not": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			buckettest.Run(t, func(*testing.T) buckettest.Harness {
				model := buckettest.NewModel()
				model.Silent = silent
				var h buckettest.Harness
				h = buckettest.Harness{Store: model, Reopen: func(*testing.T) buckettest.Harness { return h }}
				return h
			})
		})
	}
}
