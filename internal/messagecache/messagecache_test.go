package messagecache_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/messagecache"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// store has messages in memory, and counts how often each is read.
type store struct {
	message.Store

	mu       sync.Mutex
	messages map[message.ID]message.Stored
	reads    map[message.ID]int
}

func newStore() *store {
	return &store{messages: make(map[message.ID]message.Stored), reads: make(map[message.ID]int)}
}

func (s *store) Get(_ context.Context, ref message.Ref) (message.Stored, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads[ref.ID]++
	m, ok := s.messages[ref.ID]
	if !ok || ref.From != "" && ref.From != m.From {
		return message.Stored{}, message.ErrNotFound
	}
	return m, nil
}

// put stores the nth message, by ann, with a body of so many bytes.
func (s *store) put(n, bytes int) message.Stored {
	id := message.MinID(time.UnixMilli(int64(n)))
	m := message.Stored{
		Message: message.Message{ID: id, From: "ann", Body: strings.Repeat("x", bytes)},
		Stamp:   message.Stamp{StoredAt: id.Time().Add(time.Second)},
	}
	s.messages[id] = m
	return m
}

func TestGetReadsAMessageOnce(t *testing.T) {
	t.Parallel()
	s := newStore()
	m := s.put(1, 10)
	cached := messagecache.Wrap(s, messagecache.New(1<<20))
	for _, ref := range []message.Ref{m.Ref(), {ID: m.ID}, m.Ref()} {
		got, err := cached.Get(t.Context(), ref)
		require.NoError(t, err)
		require.Equal(t, m, got, "with the time at which it was stored")
	}
	require.Equal(t, 1, s.reads[m.ID])
	_, err := cached.Get(t.Context(), message.Ref{ID: m.ID, From: "ben"})
	require.ErrorIs(t, err, message.ErrNotFound, "the message has another author")
}

// A message may be stored after a reader has looked for it.
func TestGetDoesNotRememberThatAMessageIsNotFound(t *testing.T) {
	t.Parallel()
	s := newStore()
	cached := messagecache.Wrap(s, messagecache.New(1<<20))
	ref := message.Ref{ID: message.MinID(time.UnixMilli(1)), From: "ann"}
	_, err := cached.Get(t.Context(), ref)
	require.ErrorIs(t, err, message.ErrNotFound)
	m := s.put(1, 10)
	got, err := cached.Get(t.Context(), ref)
	require.NoError(t, err)
	require.Equal(t, m, got)
}

// The bytes of the messages bound the cache. The message that was used last stays.
func TestCacheIsBoundedByBytes(t *testing.T) {
	t.Parallel()
	s, cache := newStore(), messagecache.New(10_000)
	first := s.put(0, 1000)
	cache.Add(first)
	held := func() (n, bytes int) {
		for id, m := range s.messages {
			if _, ok := cache.Get(id); ok {
				n++
				bytes += len(m.Body)
			}
		}
		return n, bytes
	}
	for n := range 100 {
		cache.Add(s.put(n+1, 1000))
		_, ok := cache.Get(first.ID)
		require.True(t, ok, "it was used before each of the others was added")
	}
	n, bytes := held()
	require.LessOrEqual(t, bytes, 10_000)
	require.Equal(t, 6, n, "of about 1,500 bytes each")

	cache.Add(s.put(500, 9000))
	n, bytes = held()
	require.Equal(t, []int{1, 9000}, []int{n, bytes}, "a large message takes the place of many")
	cache.Add(s.put(501, 10_000))
	_, ok := cache.Get(message.MinID(time.UnixMilli(501)))
	require.False(t, ok, "it is larger than the cache")
	n, _ = held()
	require.Equal(t, 1, n, "and takes no place")
}

func TestNilCacheHoldsNothing(t *testing.T) {
	t.Parallel()
	s := newStore()
	m := s.put(1, 1)
	cached := messagecache.Wrap(s, nil)
	for n := range 3 {
		got, err := cached.Get(t.Context(), m.Ref())
		require.NoError(t, err)
		require.Equal(t, m, got)
		require.Equal(t, n+1, s.reads[m.ID])
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	s := newStore()
	for n := range 50 {
		s.put(n, 100*n)
	}
	cached := messagecache.Wrap(s, messagecache.New(20_000))
	var readers sync.WaitGroup
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 0))
		readers.Go(func() {
			for range 1000 {
				id := message.MinID(time.UnixMilli(random.Int64N(50)))
				m, err := cached.Get(t.Context(), message.Ref{ID: id})
				if err != nil || m.ID != id || len(m.Body) != int(100*id.Time().UnixMilli()) {
					t.Errorf("get %s: %s of %d bytes, %v", id, m.ID, len(m.Body), err)
				}
			}
		})
	}
	readers.Wait()
}

func (s *store) GetMany(ctx context.Context, refs []message.Ref) ([]message.Found, error) {
	found := make([]message.Found, len(refs))
	for i, ref := range refs {
		found[i].Stored, found[i].Err = s.Get(ctx, ref)
	}
	return found, nil
}

func TestGetManyReadsOnlyMissingMessages(t *testing.T) {
	t.Parallel()
	s := newStore()
	first, second := s.put(1, 10), s.put(2, 10)
	absent := message.Ref{ID: message.MinID(time.UnixMilli(3)), From: "ann"}
	cached := messagecache.Wrap(s, messagecache.New(1<<20))
	for range 2 {
		found, err := cached.GetMany(t.Context(), []message.Ref{second.Ref(), absent, first.Ref()})
		require.NoError(t, err)
		require.Equal(t, []message.Stored{second, first}, []message.Stored{found[0].Stored, found[2].Stored})
		require.ErrorIs(t, found[1].Err, message.ErrNotFound)
	}
	require.Equal(t, []int{1, 1, 2}, []int{s.reads[first.ID], s.reads[second.ID], s.reads[absent.ID]})
}
