// Package messagecache keeps the messages that were read last in memory. Fan-out needs a message again in every batch, and thousands
// of users who return within minutes read the same messages of the authors that they follow.
//
// A stored message never changes, so nothing has to be invalidated. A message that another process has removed may stay in the cache: it has expired for all users. A message
// that is not found may be stored later, so the cache does not remember that.
package messagecache

import (
	"context"
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/fanmail/fanmail/pkg/message"
)

// MessageBytes is about the memory of a message of 2 KiB. It converts a number of messages to bytes.
const MessageBytes = 5 << 9

// Cache holds messages up to a number of bytes. When it is full, it drops the message whose last use is the longest ago. A nil Cache
// holds nothing. Cache is safe for concurrent use.
//
// All callers share the slices of a cached message, and must not change them.
type Cache struct {
	limit int

	mu       sync.Mutex
	bytes    int
	messages *simplelru.LRU[message.ID, message.Stored]
}

// New returns an empty Cache of at most so many bytes.
func New(limit int) *Cache {
	c := &Cache{limit: limit}
	drop := func(_ message.ID, m message.Stored) { c.bytes -= m.Memory() }
	messages, err := simplelru.NewLRU(math.MaxInt, drop) // Add bounds it by bytes
	if err != nil {
		panic(err) // the size is a positive constant
	}
	c.messages = messages
	return c
}

// Get returns the message with an id, if the cache holds it.
func (c *Cache) Get(id message.ID) (message.Stored, bool) {
	if c == nil {
		return message.Stored{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.messages.Get(id)
}

// Add adds a message that a store has returned. It does nothing if the message is larger than the whole cache.
func (c *Cache) Add(m message.Stored) {
	if c == nil {
		return
	}
	added := m.Memory()
	if added > c.limit {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.messages.Contains(m.ID) {
		return
	}
	c.messages.Add(m.ID, m)
	for c.bytes += added; c.bytes > c.limit; {
		c.messages.RemoveOldest()
	}
}

// Remove removes a message that was removed from the store. A reader that has read it before may add it again: it is still the same.
func (c *Cache) Remove(id message.ID) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.messages.Remove(id)
}

// Wrap returns a store whose Get and GetMany answer from the cache, and add the messages that they read to the cache. The other methods
// are those of the store.
func Wrap(store message.Store, cache *Cache) message.Store {
	return &cached{Store: store, cache: cache}
}

type cached struct {
	message.Store
	cache *Cache
}

// lookUp returns the cached message of a ref. A ref that names another author is left to the store.
func (s *cached) lookUp(ref message.Ref) (message.Stored, bool) {
	m, ok := s.cache.Get(ref.ID)
	return m, ok && (ref.From == "" || ref.From == m.From)
}

// Get implements message.Store.
func (s *cached) Get(ctx context.Context, ref message.Ref) (message.Stored, error) {
	if m, ok := s.lookUp(ref); ok {
		return m, nil
	}
	m, err := s.Store.Get(ctx, ref)
	if err == nil {
		s.cache.Add(m)
	}
	return m, err
}

// GetMany implements message.Store. It reads the missing messages by one call of the store.
func (s *cached) GetMany(ctx context.Context, refs []message.Ref) ([]message.Found, error) {
	found := make([]message.Found, len(refs))
	var missing []message.Ref
	var places []int
	for i, ref := range refs {
		m, ok := s.lookUp(ref)
		if ok {
			found[i].Stored = m
			continue
		}
		missing, places = append(missing, ref), append(places, i)
	}
	if len(missing) == 0 {
		return found, nil
	}
	read, err := s.Store.GetMany(ctx, missing)
	if err != nil {
		return nil, err
	}
	for k, i := range places {
		if found[i] = read[k]; read[k].Err == nil {
			s.cache.Add(read[k].Stored)
		}
	}
	return found, nil
}
