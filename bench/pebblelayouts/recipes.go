package pebblelayouts

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// The first bytes of the keys.
const (
	counterKeys = 'c'
	recordKeys  = 'd'
	indexKeys   = 'x'
)

const (
	day = 24 * time.Hour
	// lifetimeDays is for how many days the layout dated would keep a bucket.
	lifetimeDays = 365
)

func ownerKey(first byte, owner message.UserID, rest ...byte) []byte {
	return slices.Concat([]byte{first}, []byte(owner), []byte{0}, rest)
}

func numbered(owner message.UserID, number uint64) []byte {
	return binary.BigEndian.AppendUint64(ownerKey(recordKeys, owner), number)
}

// appendEntry appends an entry to a value.
func appendEntry(value []byte, e bucket.Entry) []byte {
	value = append(value, e.ID[:]...)
	for _, text := range []string{string(e.From), e.Body} {
		value = append(binary.AppendUvarint(value, uint64(len(text))), text...)
	}
	return value
}

// entries returns the ids of the entries in a value, and where each entry begins.
func entries(value []byte) (ids []message.ID, starts []int, err error) {
	const texts = 2
	at := 0
	for at < len(value) {
		starts = append(starts, at)
		if len(value)-at < len(message.ID{}) {
			return nil, nil, errTorn
		}
		ids = append(ids, message.ID(value[at:at+len(message.ID{})]))
		at += len(message.ID{})
		for range texts {
			n, size := binary.Uvarint(value[at:])
			if size <= 0 || uint64(len(value)-at-size) < n { //nolint:gosec // at is within the value
				return nil, nil, errTorn
			}
			at += size + int(n) //nolint:gosec // see above
		}
	}
	return ids, starts, nil
}

var errTorn = errors.New("a value is torn")

// get returns a copy of a value, or nil.
func (l *layout) get(key []byte) ([]byte, error) {
	value, closer, err := l.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return slices.Clone(value), closer.Close()
}

// sendOnce writes one record, with a key of the index for each recipient, in one batch. A message that is there stays as it is.
func (l *layout) sendOnce(e bucket.Entry, recipients []message.UserID) (records int, err error) {
	batch := l.db.NewBatch()
	key := append([]byte{recordKeys}, e.ID[:]...)
	there, err := l.get(key)
	if err != nil {
		return 0, fmt.Errorf("layout %s: send: %w", l.name, err)
	}
	if there == nil {
		value := appendEntry(nil, e)
		for _, owner := range recipients {
			value = append(append(value, owner...), 0)
		}
		err = batch.Set(key, value, nil)
		records = 1
	}
	for _, owner := range recipients {
		err = errors.Join(err, batch.Set(ownerKey(indexKeys, owner, e.ID[:]...), nil, nil))
	}
	if err := errors.Join(err, batch.Commit(pebble.Sync)); err != nil {
		return 0, fmt.Errorf("layout %s: send: %w", l.name, err)
	}
	return records, nil
}

// descend calls do with the keys and values below a prefix from the last one on, until it returns false.
func (l *layout) descend(prefix []byte, do func(key, value []byte) (bool, error)) error {
	end := slices.Clone(prefix)
	end[len(end)-1]++
	keys, err := l.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: end})
	if err != nil {
		return err
	}
	for there := keys.Last(); there && err == nil; {
		var value []byte
		if value, err = keys.ValueAndErr(); err != nil {
			break
		}
		if there, err = do(keys.Key(), value); there {
			there = keys.Prev()
		}
	}
	return errors.Join(err, keys.Close())
}

// readIndex reads the message of each key of the index.
func (l *layout) readIndex(owner message.UserID, n int) (ids []message.ID, records int, err error) {
	err = l.descend(ownerKey(indexKeys, owner), func(key, _ []byte) (bool, error) {
		id := message.ID(key[len(key)-len(message.ID{}):])
		if _, err := l.get(append([]byte{recordKeys}, id[:]...)); err != nil {
			return false, err
		}
		ids = append(ids, id)
		return len(ids) < n, nil
	})
	return ids, len(ids), err
}

// copyFor writes a record.
func (l *layout) copyFor(batch *pebble.Batch, owner message.UserID, e bucket.Entry) error {
	return batch.Set(ownerKey(recordKeys, owner, e.ID[:]...), appendEntry(nil, e), nil)
}

func (l *layout) readCopies(owner message.UserID, n int) (ids []message.ID, records int, err error) {
	err = l.descend(ownerKey(recordKeys, owner), func(key, _ []byte) (bool, error) {
		ids = append(ids, message.ID(key[len(key)-len(message.ID{}):]))
		return len(ids) < n, nil
	})
	return ids, len(ids), err
}

// count raises a counter.
func (l *layout) count(batch *pebble.Batch, owner message.UserID) error {
	n, err := l.counter(owner)
	if err != nil {
		return err
	}
	return batch.Set(ownerKey(counterKeys, owner), binary.BigEndian.AppendUint64(nil, n+1), nil)
}

func (l *layout) counter(owner message.UserID) (uint64, error) {
	value, err := l.get(ownerKey(counterKeys, owner))
	if value == nil || err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(value), nil
}

// byCount places a message by the counter, which counts it already.
func (l *layout) byCount(owner message.UserID, _ bucket.Entry) (uint64, error) {
	n, err := l.counter(owner)
	return (n - 1) / uint64(l.opts.BucketSize), err //nolint:gosec // it is positive
}

// open places a message in the bucket that was opened last, or opens one at the message's time if that is full.
func (l *layout) open(owner message.UserID, e bucket.Entry) (uint64, error) {
	number, ids, err := l.last(owner)
	if len(ids) == 0 || len(ids) >= l.opts.BucketSize {
		number = uint64(e.ID.Time().UnixMilli())
	}
	return number, err
}

// last returns the bucket with the highest number, without ids if there is none.
func (l *layout) last(owner message.UserID) (number uint64, ids []message.ID, err error) {
	err = l.descend(ownerKey(recordKeys, owner), func(key, value []byte) (bool, error) {
		number = binary.BigEndian.Uint64(key[len(key)-8:])
		var err error
		ids, _, err = entries(value)
		return false, err
	})
	return number, ids, err
}

func byDay(_ message.UserID, e bucket.Entry) (uint64, error) {
	return uint64(e.ID.Time().UnixMilli() / day.Milliseconds()), nil //nolint:gosec // it is after 1970
}

// expiryKey returns the key of the index that finds the bucket of a day when it expires.
func expiryKey(day uint64, bucket []byte) []byte {
	end := binary.BigEndian.AppendUint64([]byte{indexKeys}, day+lifetimeDays)
	return append(end, bucket...)
}

// intoBucket pushes a message into the bucket that place returns.
func (l *layout) intoBucket(batch *pebble.Batch, owner message.UserID, e bucket.Entry) error {
	number, err := l.place(owner, e)
	if err != nil {
		return err
	}
	key := numbered(owner, number)
	value, err := l.get(key)
	if err != nil {
		return err
	}
	if l.expires && value == nil {
		if err := batch.Set(expiryKey(number, key), nil, nil); err != nil {
			return err
		}
	}
	value = appendEntry(value, e)
	if l.keep > 0 {
		_, starts, err := entries(value)
		if err != nil {
			return err
		}
		value = value[starts[max(0, len(starts)-l.keep)]:]
	}
	return batch.Set(key, value, nil)
}

// intoBucketOnce pushes a message into the last bucket unless a bucket has it, and opens the next one if that is full.
func (l *layout) intoBucketOnce(batch *pebble.Batch, owner message.UserID, e bucket.Entry) error {
	number, ids, err := l.last(owner)
	if err != nil {
		return err
	}
	full := len(ids) >= l.opts.BucketSize
	for below := number; len(ids) > 0; below-- {
		if slices.Contains(ids, e.ID) {
			return nil
		}
		if below == 0 || slices.MinFunc(ids, message.ID.Compare).Less(e.ID) {
			break // messages come in order here, so the buckets below hold lower ids
		}
		value, err := l.get(numbered(owner, below-1))
		if err != nil {
			return err
		}
		if ids, _, err = entries(value); err != nil {
			return err
		}
	}
	if full {
		number++
	}
	key := numbered(owner, number)
	value, err := l.get(key)
	if err != nil {
		return err
	}
	return batch.Set(key, appendEntry(value, e), nil)
}

// readBuckets reads buckets from the one with the highest number down, until it has enough messages.
func (l *layout) readBuckets(owner message.UserID, n int) (ids []message.ID, records int, err error) {
	err = l.descend(ownerKey(recordKeys, owner), func(_, value []byte) (bool, error) {
		some, _, err := entries(value)
		ids = append(ids, some...)
		records++
		return len(ids) < n, err
	})
	slices.SortFunc(ids, func(x, y message.ID) int { return y.Compare(x) })
	return ids[:min(n, len(ids))], records, err
}
