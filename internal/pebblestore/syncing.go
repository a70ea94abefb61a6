package pebblestore

import (
	"sync"

	"github.com/fanmail/fanmail/pkg/message"
)

// syncing is which messages are on their way to the disk: a reader may find them before they are synced. A message is in it as
// often as it is being inserted.
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
