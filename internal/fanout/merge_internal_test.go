package fanout

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/message"
)

// Many long lists are in a batch at the same time, so none may be copied.
func TestNamedRecipientsAreNotCopied(t *testing.T) {
	t.Parallel()
	var names, want []message.UserID
	for n := range message.MaxRecipients {
		user := message.UserID(fmt.Sprintf("user-%06d", n))
		names = append(names, user)
		if n > 100 && partition.Of(user, 2) == 1 {
			want = append(want, user)
		}
	}
	b := &batch{pass: pass{opts: Options{Partitions: 2}}, partition: 1}
	streams := b.streams([]*job{{message: message.Message{To: names}}}, names[100])
	require.Len(t, streams, 1)
	merger := newMerger(streams, "")
	var got []message.UserID
	for {
		c, err := merger.next(t.Context(), 7, func(*job, recipient) bool { return true })
		require.NoError(t, err)
		require.LessOrEqual(t, cap(streams[0].buffer), listPage)
		got = append(got, c.owners...)
		if c.last() {
			break
		}
	}
	require.Equal(t, want, got)
}

// Behind many messages, a few recipients are not divided into chunks: each takes a store a round trip. Only memory divides them.
func TestChunkOfManyMessages(t *testing.T) {
	t.Parallel()
	to := []message.UserID{"ada", "bob", "cid", "dan", "eve"}
	for messages, owners := range map[int]int{100: len(to), entriesPerChunk/2 - 1: 3} {
		jobs := make([]*job, messages)
		for i := range jobs {
			jobs[i] = &job{message: message.Message{To: to}}
		}
		b := &batch{pass: pass{opts: Options{Partitions: 1}}}
		c, err := newMerger(b.streams(jobs, ""), "").next(t.Context(), len(to), func(*job, recipient) bool { return true })
		require.NoError(t, err)
		require.Equal(t, to[:owners], c.owners)
		require.Len(t, c.jobs, owners*messages)
	}
}

// A store needs time for large bodies, so a chunk of them ends early.
func TestChunkOfLargeBodies(t *testing.T) {
	t.Parallel()
	var large job
	large.set(message.Message{Body: strings.Repeat("x", bytesPerChunk/3)})
	read := func(context.Context, message.UserID, int) ([]recipient, error) {
		return recipientsOf([]message.UserID{"ada", "bob", "cid", "dan", "eve"}), nil
	}
	c, err := newMerger([]*stream{{jobs: []*job{&large}, read: read}}, "").next(t.Context(), 5, func(*job, recipient) bool { return true })
	require.NoError(t, err)
	require.Equal(t, []message.UserID{"ada", "bob", "cid", "dan"}, c.owners)
}
