package pebblestore

import (
	"bytes"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
)

// marked is the name of a property that all tables have. An iterator can pass over the tables that have it, and so over all.
const marked = "fanmail.table"

// markTable collects the property, which has no value.
type markTable struct{}

var _ pebble.BlockPropertyCollector = markTable{}

func (markTable) Name() string                                                   { return marked }
func (markTable) AddPointKey(pebble.InternalKey, []byte) error                   { return nil }
func (markTable) AddRangeKeys(sstable.Span) error                                { return nil }
func (markTable) AddCollectedWithSuffixReplacement([]byte, []byte, []byte) error { return nil }
func (markTable) SupportsSuffixReplacement() bool                                { return false }
func (markTable) FinishDataBlock(b []byte) ([]byte, error)                       { return b, nil }
func (markTable) AddPrevDataBlockToIndexBlock()                                  {}
func (markTable) FinishIndexBlock(b []byte) ([]byte, error)                      { return b, nil }
func (markTable) FinishTable(b []byte) ([]byte, error)                           { return b, nil }

// noTable is a filter that passes over all tables.
type noTable struct{}

var _ pebble.BlockPropertyFilter = noTable{}

func (noTable) Name() string                                           { return marked }
func (noTable) Intersects([]byte) (bool, error)                        { return false, nil }
func (noTable) SyntheticSuffixIntersects([]byte, []byte) (bool, error) { return false, nil }

// inMemory returns the prefixes of the owners from first to last in a partition whose entries are in memtables, in their order. It stops after
// limit of them. More of them may appear and disappear meanwhile.
func (s *Inbox) inMemory(first, last *keyed, limit int) (owners [][]byte, err error) {
	it, err := s.db.engine.NewIter(&pebble.IterOptions{
		LowerBound:      appendOwner(nil, spaceInbox, first.partition, first.push.Owner),
		UpperBound:      after(appendOwner(nil, spaceInbox, last.partition, last.push.Owner)),
		PointKeyFilters: append(make([]pebble.BlockPropertyFilter, 0, 2), noTable{}), // Pebble appends one of its own
	})
	if err != nil {
		return nil, fmt.Errorf("read from the store: %w", err)
	}
	defer closeIter(it, &err)
	for found := it.First(); found && len(owners) < limit; {
		owner := bytes.Clone(it.Key()[:len(it.Key())-placeLen])
		owners = append(owners, owner)
		found = it.SeekGE(after(owner))
	}
	return owners, it.Error()
}
