package pebbleraw

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// Entries keeps a record for each entry of an inbox, and a key of owner, attribute, value and id for each of its indexed attributes: a layout
// that the store's own is compared with. The attributes have the type String or Number.
type Entries struct {
	db      *pebble.DB
	indexed attribute.Set
}

// The first bytes of the keys.
const (
	entryKeys = 'e'
	indexKeys = 'x'
)

// OpenEntries opens the layout in an empty folder. The caller must close it.
func OpenEntries(opts Options, indexed attribute.Set) (*Entries, error) {
	db, err := open(opts)
	if err != nil {
		return nil, fmt.Errorf("a record for each entry: %w", err)
	}
	return &Entries{db: db, indexed: indexed}, nil
}

// Close closes the database.
func (l *Entries) Close() error { return l.db.Close() }

func entryKey(owner message.UserID, id message.ID) []byte {
	return slices.Concat([]byte{entryKeys}, []byte(owner), []byte{0}, id[:])
}

// indexPrefix returns the beginning of the keys of an attribute.
func indexPrefix(owner message.UserID, name string) []byte {
	return slices.Concat([]byte{indexKeys}, []byte(owner), []byte{0}, []byte(name), []byte{0})
}

// ordered returns a value so that its bytes sort as the values do. No value is the beginning of another.
func ordered(t attribute.Type, v attribute.Value) []byte {
	if t != attribute.Number {
		return append([]byte(v.Strings[0]), 0)
	}
	bits := math.Float64bits(v.Number)
	if bits>>63 == 1 {
		bits = ^bits
	} else {
		bits |= 1 << 63
	}
	return binary.BigEndian.AppendUint64(nil, bits)
}

// Insert writes entries for each owner, in synced batches of 1,000 from two goroutines.
func (l *Entries) Insert(ctx context.Context, owners []message.UserID, entries []bucket.Entry) error {
	const writers, together = 2, 1000
	values := make([]attribute.Values, len(entries))
	for i, e := range entries {
		values[i] = l.indexed.Read(e.Attrs)
	}
	n := len(owners) * len(entries)
	group, ctx := errgroup.WithContext(ctx)
	for w := range writers {
		group.Go(func() error {
			last := (w + 1) * n / writers
			for first := w * n / writers; first < last && ctx.Err() == nil; first += together {
				batch := l.db.NewBatch()
				for i := first; i < min(last, first+together); i++ {
					owner, at := owners[i/len(entries)], i%len(entries)
					if err := l.set(batch, owner, entries[at], values[at]); err != nil {
						return err
					}
				}
				if err := batch.Commit(pebble.Sync); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	return group.Wait()
}

func (l *Entries) set(batch *pebble.Batch, owner message.UserID, e bucket.Entry, values attribute.Values) error {
	err := batch.Set(entryKey(owner, e.ID), slices.Concat(make([]byte, header), []byte(e.Body), e.Attrs), nil)
	for _, d := range l.indexed.All() {
		if v, there := values[d.Name]; there {
			key := slices.Concat(indexPrefix(owner, d.Name), ordered(d.Type, v), e.ID[:])
			err = errors.Join(err, batch.Set(key, nil, nil))
		}
	}
	return err
}

// Find returns the newest entries below an id that meet the conditions, newest first. These are Equal, or GreaterOrEqual and Less of one attribute.
func (l *Entries) Find(_ context.Context, owner message.UserID, conditions []attribute.Condition, below message.ID, limit int) (ids []message.ID, err error) {
	prefix := indexPrefix(owner, conditions[0].Declaration.Name)
	if conditions[0].Operator == attribute.Equal {
		value := slices.Concat(prefix, ordered(conditions[0].Declaration.Type, conditions[0].Values[0]))
		ids, err = l.ids(value, append(slices.Clone(value), below[:]...), limit)
	} else {
		bounds := [2][]byte{prefix, append(slices.Clone(prefix), 0xff)}
		for _, c := range conditions {
			end := 0
			if c.Operator == attribute.Less {
				end = 1
			}
			bounds[end] = slices.Concat(prefix, ordered(c.Declaration.Type, c.Values[0]))
		}
		ids, err = l.ids(bounds[0], bounds[1], 0)
		ids = slices.DeleteFunc(ids, func(id message.ID) bool { return !id.Less(below) })
		slices.SortFunc(ids, func(x, y message.ID) int { return bytes.Compare(y[:], x[:]) })
		ids = ids[:min(limit, len(ids))]
	}
	for _, id := range ids {
		_, closer, getErr := l.db.Get(entryKey(owner, id))
		if getErr != nil {
			return nil, errors.Join(err, getErr)
		}
		err = errors.Join(err, closer.Close())
	}
	return ids, err
}

// ids returns the ids of the keys between two, from the last one, at most limit unless it is 0.
func (l *Entries) ids(from, to []byte, limit int) (ids []message.ID, err error) {
	keys, err := l.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return nil, err
	}
	for there := keys.Last(); there && (limit == 0 || len(ids) < limit); there = keys.Prev() {
		key := keys.Key()
		ids = append(ids, message.ID(key[len(key)-len(message.ID{}):]))
	}
	return ids, keys.Close()
}

// Sizes compacts the database, and returns how many bytes of files the records and the keys of the index take.
func (l *Entries) Sizes(ctx context.Context) (records, index float64, err error) {
	if err := errors.Join(l.db.Flush(), l.db.Compact(ctx, []byte{0}, []byte{0xff}, false)); err != nil {
		return 0, 0, fmt.Errorf("compact: %w", err)
	}
	of := func(first byte) float64 {
		n, estimateErr := l.db.EstimateDiskUsage([]byte{first}, []byte{first + 1})
		err = errors.Join(err, estimateErr)
		return float64(n)
	}
	return of(entryKeys), of(indexKeys), err
}
