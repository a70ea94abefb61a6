package popular_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/popular"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func user(n int) message.UserID { return message.UserID(fmt.Sprintf("user-%05d", n)) }

// full returns a full record, in which user(n) has n+1 followers.
func full() popular.Record {
	r := popular.Record{Revision: 7}
	for n := range popular.Max {
		r.Users = append(r.Users, popular.User{ID: user(n), Followers: int64(n + 1)})
	}
	return r
}

func TestWith(t *testing.T) {
	t.Parallel()
	before := popular.Record{Revision: 7, Users: []popular.User{{"ben", 64}, {"cleo", 128}, {"dan", 64}}}
	after := before.With(map[message.UserID]int64{"ann": 64, "cleo": 64, "dan": -64, "eve": -64})
	require.Equal(t, popular.Record{Revision: 7, Users: []popular.User{{"ann", 64}, {"ben", 64}, {"cleo", 192}}}, after)
	require.Equal(t, []popular.User{{"ben", 64}, {"cleo", 128}, {"dan", 64}}, before.Users)
	require.Equal(t, before, before.With(nil))
}

// New users enter a full record, and those with the least followers leave it.
func TestWithAFullRecord(t *testing.T) {
	t.Parallel()
	r := full().With(map[message.UserID]int64{"zoe": 64, "anna": 64})
	require.Len(t, r.Users, popular.Max)
	require.Equal(t, popular.User{ID: "anna", Followers: 65}, r.Users[0])
	require.Equal(t, popular.User{ID: user(2), Followers: 3}, r.Users[1], "those with one and two followers are dropped")
	require.Equal(t, popular.User{ID: "zoe", Followers: 65}, r.Users[popular.Max-1])
}

// Users with many followers stay while others come and go.
func TestLargestStay(t *testing.T) {
	t.Parallel()
	r := full()
	for round := range 3 {
		changes := map[message.UserID]int64{"celebrity": 64 * 100}
		for n := range popular.Max {
			changes[user((round+2)*popular.Max+n)] = 64
		}
		r = r.With(changes)
		require.Len(t, r.Users, popular.Max)
	}
	require.Contains(t, r.Users, popular.User{ID: "celebrity", Followers: 1 + 3*64*100})
	require.NotContains(t, r.Users, popular.User{ID: user(0), Followers: 1})
}
