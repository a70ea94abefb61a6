package pebblestore

import (
	"sync"

	"github.com/fanmail/fanmail/pkg/message"
)

// syncing has the messages that are visible but perhaps not synced yet. It counts the running inserts of each message.
type syncing struct {
	mu       sync.Mutex
	messages map[message.ID]int
}

func (s *syncing) add(messages []message.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.messages == nil {
		s.messages = make(map[message.ID]int)
	}
	for _, m := range messages {
		s.messages[m.ID]++
	}
}

func (s *syncing) remove(messages []message.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range messages {
		if s.messages[m.ID]--; s.messages[m.ID] == 0 {
			delete(s.messages, m.ID)
		}
	}
}

func (s *syncing) has(id message.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.messages[id] > 0
}
