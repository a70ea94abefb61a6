package pebblestore

import (
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/fanmail/fanmail/pkg/message"
)

// rememberedBytes is how large the value of a message may be that is remembered, which bounds the memory of all of them.
const rememberedBytes = 2 << 10

// remembered keeps the messages that were read last, decoded: what a celebrity has published, thousands of followers who come
// back read within minutes, and decoding costs more than finding it. A message never changes, and is never removed, so
// that there is nothing to invalidate. They share memory with everyone who has read them.
type remembered struct {
	messages *lru.Cache[message.ID, message.Stored]
}

func newRemembered(messages int) remembered {
	cache, err := lru.New[message.ID, message.Stored](messages)
	if err != nil {
		panic(fmt.Sprintf("pebblestore: remember %d messages: %v", messages, err)) // Options are checked
	}
	return remembered{cache}
}

func (r remembered) get(id message.ID) (message.Stored, bool) { return r.messages.Get(id) }

// add remembers a message that was read, with a value of so many bytes.
func (r remembered) add(m message.Stored, size int) {
	if size <= rememberedBytes {
		r.messages.Add(m.ID, m)
	}
}
