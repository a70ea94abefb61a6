package leaktest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { Main(m) }

// A goroutine that ends later than goleak waits is no leak; one that does not end is.
func TestFind(t *testing.T) { //nolint:paralleltest // it looks at all goroutines of the process
	require.NoError(t, find(0))
	end := make(chan struct{})
	go func() { <-end }()
	require.ErrorContains(t, find(0), "TestFind")
	time.AfterFunc(time.Second, func() { close(end) })
	require.NoError(t, find(patience))
}
