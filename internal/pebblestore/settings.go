package pebblestore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/pkg/attribute"
)

// Settings is the store of the recorded settings. Only one process can open the store, so the list of processes is kept in memory.
type Settings struct {
	db *DB

	mu        sync.Mutex // held while the record is replaced, and for processes
	processes map[string]settings.Process
}

var _ settings.Store = (*Settings)(nil)

type settingRecord struct {
	Key   string `cbor:"1,keyasint"`
	Value string `cbor:"2,keyasint"`
	Since int64  `cbor:"4,keyasint"`
	Until int64  `cbor:"5,keyasint,omitempty"`
}

type declarationRecord struct {
	Name   string         `cbor:"1,keyasint"`
	Type   attribute.Type `cbor:"2,keyasint"`
	Number int            `cbor:"3,keyasint"`
}

func settingRecords(r settings.Record) []settingRecord {
	var records []settingRecord
	for _, key := range slices.Sorted(maps.Keys(r.Settings)) {
		s := r.Settings[key]
		r := settingRecord{Key: key, Value: s.Value, Since: s.Since.UnixMilli()}
		if !s.Until.IsZero() {
			r.Until = s.Until.UnixMilli()
		}
		records = append(records, r)
	}
	return records
}

func (s *Settings) read() (r formatRecord, err error) {
	found, err := s.db.get(formatKey, func(value []byte) (err error) {
		r, err = decodeFormat(value)
		return err
	})
	if err == nil && !found {
		err = corrupt(spaceFormat)
	}
	return r, err
}

// Load implements settings.Store.
func (s *Settings) Load(ctx context.Context) (_ settings.Record, err error) {
	call, err := s.db.begin(ctx, "settings.load")
	if err != nil {
		return settings.Record{}, err
	}
	defer call.end(ctx, &err)
	found, err := s.read()
	if err != nil {
		return settings.Record{}, fmt.Errorf("read the settings: %w", err)
	}
	record := settings.Record{Revision: found.Revision, Settings: make(map[string]settings.Setting)}
	for _, r := range found.Settings {
		s := settings.Setting{Value: r.Value, Since: fromMillis(r.Since)}
		if r.Until > 0 {
			s.Until = fromMillis(r.Until)
		}
		record.Settings[r.Key] = s
	}
	record.LastDeclared = found.LastDeclared
	for _, d := range found.Declared {
		record.Declared = append(record.Declared, attribute.Declaration(d))
	}
	return record, nil
}

// Replace implements settings.Store. The write is synced before it returns.
func (s *Settings) Replace(ctx context.Context, from, to settings.Record) (err error) {
	call, err := s.db.begin(ctx, "settings.replace")
	if err != nil {
		return err
	}
	defer call.end(ctx, &err)
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := s.read()
	if err != nil {
		return fmt.Errorf("record the settings: %w", err)
	}
	if found.Revision != from.Revision {
		return settings.ErrChanged
	}
	found.Revision, found.Settings = from.Revision+1, settingRecords(to)
	found.Declared, found.LastDeclared = nil, to.LastDeclared
	for _, d := range to.Declared {
		found.Declared = append(found.Declared, declarationRecord(d))
	}
	s.db.set(formatKey, encodeValue(found), pebble.Sync)
	return nil
}

// Report implements settings.Store.
func (s *Settings) Report(ctx context.Context, p settings.Process) (time.Time, error) {
	return calling(ctx, s.db, "settings.report", func() (time.Time, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		p.Seen = s.db.now().UTC().Truncate(time.Millisecond)
		s.processes[p.Name] = p
		maps.DeleteFunc(s.processes, func(_ string, other settings.Process) bool { return p.Seen.Sub(other.Seen) > settings.Forget })
		return p.Seen, nil
	})
}

// Processes implements settings.Store.
func (s *Settings) Processes(ctx context.Context) ([]settings.Process, error) {
	return calling(ctx, s.db, "settings.processes", func() ([]settings.Process, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.SortedFunc(maps.Values(s.processes), func(a, b settings.Process) int { return strings.Compare(a.Name, b.Name) }), nil
	})
}
