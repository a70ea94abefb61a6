package topic

import (
	"context"
	"crypto/rand"
	"encoding/binary"

	"github.com/fanmail/fanmail/pkg/message"
)

// Number is a random number that is never used twice. The zero Number is none.
type Number int64

// NewNumber returns a number that is above zero.
func NewNumber() Number {
	for {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		if n := Number(binary.BigEndian.Uint64(b[:]) >> 1); n != 0 {
			return n
		}
	}
}

// Record is the record of a topic. The record of a topic that has none holds the topic alone.
type Record struct {
	Topic message.Topic
	// Number is that of the creation of this topic. A topic that was deleted and created again has another one.
	Number Number
	// Parent is the number of the topic above, under which this one was created. A root has none.
	Parent Number
	// InForce reports whether the topic exists. One that is not in force has been inserted, and the topic above may have been removed before.
	InForce bool
	// Mark is the token of a deletion that is under way or was given up. It prevents nothing, but a deletion fails if the mark is gone.
	Mark Number
}

// Change replaces the record From by To, which is of the same topic. A From without a number stands for no record, and a To without a number for
// the removal.
type Change struct{ From, To Record }

// Store holds the records of topics. All methods are safe for concurrent use, and atomic for each record. A read sees every write of every
// process that had returned before the read began. A write survives a crash once it has returned. Errors wrap message.ErrCorrupt if a record
// is damaged.
type Store interface {
	// Get returns the records of topics, in their order. A topic may be given twice.
	Get(ctx context.Context, topics []message.Topic) ([]Record, error)

	// Step carries out each change on its own: it applies if the stored record is From. It returns the records as they are stored afterwards, in the
	// order of changes. If To is returned, this call or another one has carried the change out. If another record is returned, the change was
	// refused, or another write came after it. No two changes may be of the same topic.
	//
	// A change whose call has returned an error may be carried out later. It never is after another write of the same topic, even if the
	// record is From again.
	Step(ctx context.Context, changes []Change) ([]Record, error)

	// List returns the records of a topic and of all topics below it, of topics above after, ascending, at most limit. An empty topic under
	// stands for all topics, and an empty after for the beginning.
	List(ctx context.Context, under, after message.Topic, limit int) ([]Record, error)
}
