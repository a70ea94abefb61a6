package mongostore

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fanmail/fanmail/pkg/message"
)

// window is a range of message ids, including from and excluding to.
type window struct{ from, to message.ID }

func (w window) empty() bool { return !w.from.Less(w.to) }

func (w window) holds(id message.ID) bool { return !id.Less(w.from) && id.Less(w.to) }

// with returns the window that also holds a range.
func (w window) with(in message.Range) window {
	return window{least(w.from, in.After.Next()), greatest(w.to, in.Before)}
}

// length returns how much of the window lies in the past.
func (w window) length(now message.ID) time.Duration {
	return max(time.Millisecond, least(w.to, now).Time().Sub(w.from.Time()))
}

// filter adds the bounds of the window to a filter. It leaves out a bound that excludes nothing: in an index of an array, DocumentDB
// applies one bound at once, but two only after it has read all matches.
func (w window) filter(filter bson.D) bson.D {
	bounds := bson.D{{Key: "$gte", Value: uuid(w.from)}}
	if w.to.Less(message.MaxID) {
		bounds = append(bounds, bson.E{Key: "$lt", Value: uuid(w.to)})
	}
	return append(slices.Clone(filter), bson.E{Key: fieldID, Value: bounds})
}

func least(x, y message.ID) message.ID {
	if y.Less(x) {
		return y
	}
	return x
}

func greatest(x, y message.ID) message.ID {
	if x.Less(y) {
		return y
	}
	return x
}

// middle returns the value half way between two ids. low must not exceed high.
func middle(low, high message.ID) message.ID {
	lowLess, lowMore := binary.BigEndian.Uint64(low[8:]), binary.BigEndian.Uint64(low[:8])
	less, borrow := bits.Sub64(binary.BigEndian.Uint64(high[8:]), lowLess, 0)
	more, _ := bits.Sub64(binary.BigEndian.Uint64(high[:8]), lowMore, borrow)
	less, carry := bits.Add64(lowLess, less>>1|more<<63, 0)
	more, _ = bits.Add64(lowMore, more>>1, carry)
	var id message.ID
	binary.BigEndian.PutUint64(id[8:], less)
	binary.BigEndian.PutUint64(id[:8], more)
	return id
}
