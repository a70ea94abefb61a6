package partition_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/message"
)

// Where a user is filed never changes: these values are part of the format of a store.
func TestOfIsFixed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		user  message.UserID
		of16  int
		of256 int
		of7   int
	}{
		{"", 9, 153, 6},
		{"ann", 14, 190, 1},
		{"bob", 11, 59, 5},
		{"名前", 7, 183, 3},
		{"user-000001", 6, 86, 1},
	} {
		require.Equal(t, test.of16, partition.Of(test.user, 16), test.user)
		require.Equal(t, test.of256, partition.Of(test.user, 256), test.user)
		require.Equal(t, test.of7, partition.Of(test.user, 7), test.user)
		require.Zero(t, partition.Of(test.user, 1))
	}
}

func TestOfSpreadsUsers(t *testing.T) {
	t.Parallel()
	const users = 16_000
	var counts [partition.DefaultCount]int
	for i := range users {
		counts[partition.Of(message.UserID(fmt.Sprint("user-", i)), partition.DefaultCount)]++
	}
	for part, count := range counts {
		require.InDelta(t, users/partition.DefaultCount, count, 150, "partition %d", part)
	}
}

func TestValidateCount(t *testing.T) {
	t.Parallel()
	for _, good := range []int{1, 16, 255, 256} {
		require.NoError(t, partition.ValidateCount(good))
	}
	for _, bad := range []int{-1, 0, 257, 1 << 30} {
		require.ErrorContains(t, partition.ValidateCount(bad), strconv.Itoa(bad))
	}
}

// A user is always in the same one of a store's partitions.
func ExampleOf() {
	fmt.Println(partition.Of("ann", partition.DefaultCount), partition.Of("bob", partition.DefaultCount))
	// Output: 14 11
}
