package messagetest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/message"
)

func TestIDsAreASeries(t *testing.T) {
	t.Parallel()
	var last message.ID
	for n := range 1000 {
		id := messagetest.ID(n)
		parsed, err := message.ParseID(id.String())
		require.NoError(t, err)
		require.Equal(t, id, parsed)
		require.True(t, last.Less(id))
		require.Equal(t, messagetest.Epoch.Add(time.Duration(n)*time.Millisecond), id.Time())
		last = id
	}
}
