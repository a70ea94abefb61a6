package bench_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// archive is a store that is given a past before a server is started on it.
type archive struct {
	*backend

	dir   string
	begin time.Time
}

// newArchive makes a store whose past begins so long ago. Its clock stands still there, so that no message is stored too late
// to count.
func newArchive(b *testing.B, past time.Duration) *archive {
	b.Helper()
	a := &archive{dir: b.TempDir(), begin: time.Now().Add(-past)}
	a.backend = openBackend(b, a.dir, func() time.Time { return a.begin })
	return a
}

// together is how many records are written in one call.
const together = 5000

// publish stores messages of 200 bytes to followers, sent at even distances from the beginning to now. Their fan-out is
// over. It returns them in the order in which they were sent.
func (a *archive) publish(b *testing.B, messages int, author func(n int) message.UserID) []message.Ref {
	b.Helper()
	sent := a.begin
	ids := message.NewGenerator(func() time.Time { return sent }, rand.Reader)
	distance := time.Since(a.begin) / time.Duration(messages+1)
	body := strings.Repeat("x", 200)
	refs := make([]message.Ref, 0, messages)
	for first := 0; first < messages; first += together {
		batch := make([]message.Message, min(together, messages-first))
		endings := make([]message.Ending, 0, len(batch))
		for i := range batch {
			sent = sent.Add(distance)
			id, err := ids.Next()
			require.NoError(b, err)
			batch[i] = message.Message{ID: id, From: author(first + i), Audience: message.AudienceFollowers, Body: body}
			refs, endings = append(refs, batch[i].Ref()), append(endings, message.Ending{Ref: batch[i].Ref()})
		}
		_, err := a.messages.Insert(b.Context(), batch, messagetest.AnyTime)
		require.NoError(b, err)
		require.NoError(b, a.messages.Conclude(b.Context(), endings))
	}
	return refs
}

// populate makes users follow authors since the beginning, and has them seen last at a time.
func (a *archive) populate(b *testing.B, users []message.UserID, seen time.Time, authors func(n int) []message.UserID) {
	b.Helper()
	var pairs []follow.Pair
	for n, user := range users {
		for _, author := range authors(n) {
			pairs = append(pairs, follow.Pair{Follower: user, Followee: author.Source()})
		}
		if len(pairs) >= together || n == len(users)-1 {
			_, err := a.edges.Follow(b.Context(), pairs, a.begin)
			require.NoError(b, err)
			pairs = pairs[:0]
		}
	}
	for first := 0; first < len(users); first += together {
		some := users[first:min(len(users), first+together)]
		require.NoError(b, storetest.See(b.Context(), a.users, seen, config.Default().DormantAfter, some...))
	}
}

// named returns users with numbered names.
func named(prefix string, n int) []message.UserID {
	users := make([]message.UserID, n)
	for i := range users {
		users[i] = message.UserID(fmt.Sprintf("%s-%06d", prefix, i))
	}
	return users
}
