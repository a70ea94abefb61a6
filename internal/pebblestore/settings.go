package pebblestore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/internal/tally"
	"github.com/fanmail/fanmail/pkg/attribute"
)

// Settings is the store of the recorded settings and of the processes. Only one process can open the store. Other rows are of those that had it
// before.
type Settings struct {
	db *DB
	mu sync.Mutex // held for each change
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

// processRecord has times in milliseconds.
type processRecord struct {
	Role     string        `cbor:"1,keyasint"`
	Host     string        `cbor:"2,keyasint"`
	Version  string        `cbor:"3,keyasint"`
	Address  string        `cbor:"4,keyasint"`
	State    string        `cbor:"5,keyasint"`
	Started  int64         `cbor:"6,keyasint"`
	Timeout  time.Duration `cbor:"7,keyasint,omitempty"`
	Seen     int64         `cbor:"8,keyasint"`
	Counters []int64       `cbor:"9,keyasint,omitempty"`
}

type totalsRecord struct {
	Revision int64              `cbor:"1,keyasint"`
	Base     []int64            `cbor:"2,keyasint,omitempty"`
	Taken    map[string][]int64 `cbor:"3,keyasint,omitempty"`
}

var totalsKey, processPrefix = []byte{byte(spaceCounts)}, []byte{byte(spaceCounts), 'p'}

func processKey(name string) []byte { return append(slices.Clone(processPrefix), name...) }

func encodeProcess(p settings.Process) []byte {
	return encodeValue(processRecord{
		Role: p.Role, Host: p.Host, Version: p.Version, Address: p.Address, State: p.State, Started: p.Started.UnixMilli(), Timeout: p.Timeout,
		Seen: p.Seen.UnixMilli(), Counters: p.Counters.Numbers(),
	})
}

func parseProcess(name string, value []byte) (settings.Process, error) {
	var r processRecord
	err := decodeValue(spaceCounts, value, &r)
	return settings.Process{
		Name: name, Role: r.Role, Host: r.Host, Version: r.Version, Address: r.Address, State: r.State, Started: fromMillis(r.Started),
		Timeout: r.Timeout, Seen: fromMillis(r.Seen), Counters: tally.Of(r.Counters),
	}, err
}

func encodeTotals(t settings.Totals, revision int64) []byte {
	r := totalsRecord{Revision: revision, Base: t.Base.Numbers(), Taken: make(map[string][]int64)}
	for name, c := range t.Taken {
		r.Taken[name] = c.Numbers()
	}
	return encodeValue(r)
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

// process returns the row of a process, and whether it is there.
func (s *Settings) process(name string) (p settings.Process, found bool, err error) {
	found, err = s.db.get(processKey(name), func(value []byte) (err error) {
		p, err = parseProcess(name, value)
		return err
	})
	return p, found, err
}

// Report implements settings.Store. The row is not synced: whatever is synced later takes it along.
func (s *Settings) Report(ctx context.Context, p settings.Process) (time.Time, error) {
	return calling(ctx, s.db, "settings.report", func() (time.Time, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		was, found, err := s.process(p.Name)
		if err != nil {
			return time.Time{}, fmt.Errorf("record the process: %w", err)
		}
		if !found && p.Counters != (tally.Counters{}) {
			return time.Time{}, settings.ErrForgotten
		}
		p.Seen, p.Counters = s.db.now().UTC().Truncate(time.Millisecond), p.Counters.Max(was.Counters)
		s.db.set(processKey(p.Name), encodeProcess(p), pebble.NoSync)
		return p.Seen, nil
	})
}

// Processes implements settings.Store.
func (s *Settings) Processes(ctx context.Context) ([]settings.Process, error) {
	return calling(ctx, s.db, "settings.processes", func() (all []settings.Process, err error) {
		it, err := s.db.iterate(processPrefix)
		if err != nil {
			return nil, err
		}
		defer closeIter(it, &err)
		for it.First(); it.Valid(); it.Next() {
			p, err := parseProcess(string(it.Key()[len(processPrefix):]), it.Value())
			if err != nil {
				return nil, fmt.Errorf("read the processes: %w", err)
			}
			all = append(all, p)
		}
		return all, it.Error()
	})
}

// Forget implements settings.Store.
func (s *Settings) Forget(ctx context.Context, p settings.Process) error {
	_, err := calling(ctx, s.db, "settings.forget", func() (struct{}, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		is, found, err := s.process(p.Name)
		if found && err == nil && is.Seen.Equal(p.Seen) {
			s.db.write(func() error { return s.db.engine.Delete(processKey(p.Name), pebble.NoSync) })
		}
		return struct{}{}, err
	})
	return err
}

// Totals implements settings.Store.
func (s *Settings) Totals(ctx context.Context) (settings.Totals, error) {
	return calling(ctx, s.db, "settings.totals", s.totals)
}

func (s *Settings) totals() (settings.Totals, error) {
	var found totalsRecord
	_, err := s.db.get(totalsKey, func(value []byte) error { return decodeValue(spaceCounts, value, &found) })
	if err != nil {
		return settings.Totals{}, fmt.Errorf("read the totals: %w", err)
	}
	totals := settings.Totals{Revision: found.Revision, Base: tally.Of(found.Base), Taken: make(map[string]tally.Counters)}
	for name, counters := range found.Taken {
		totals.Taken[name] = tally.Of(counters)
	}
	return totals, nil
}

// ReplaceTotals implements settings.Store. The write is synced before it returns.
func (s *Settings) ReplaceTotals(ctx context.Context, from, to settings.Totals) error {
	_, err := calling(ctx, s.db, "settings.replace_totals", func() (struct{}, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		found, err := s.totals()
		switch {
		case err != nil:
			return struct{}{}, err
		case found.Revision != from.Revision:
			return struct{}{}, settings.ErrChanged
		}
		s.db.set(totalsKey, encodeTotals(to, from.Revision+1), pebble.Sync)
		return struct{}{}, nil
	})
	return err
}
