// Package pebbleraw measures what Pebble does with the records of an embedded store, and nothing else: the limit that the
// store's own speed is judged by. It also has a layout of entries that the store's own is compared with.
package pebbleraw

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/sync/errgroup"
)

// header is about what the embedded store writes for an entry besides its body: id, author, framing.
const header = 40

// Options are those of the store that is measured.
type Options struct {
	// Dir is an empty folder on the disk that is measured.
	Dir string
	// CacheBytes and MemTableBytes are those of the embedded store.
	CacheBytes, MemTableBytes int64
	// Bodies are the bodies of the entries of the first owners. Those of later owners repeat them.
	Bodies []string
}

func (o Options) values() [][]byte {
	values := make([][]byte, len(o.Bodies))
	for i, body := range o.Bodies {
		values[i] = append(make([]byte, header), body...)
	}
	return values
}

// key returns the key of a record: that of the nth entry of the ith owner. A bucket has 50.
func key(i, n int) []byte {
	key := fmt.Appendf(nil, "i00user-%07d", i)
	return append(binary.BigEndian.AppendUint32(append(key, 0), uint32(n/50)), byte(n%50)) //nolint:gosec // n is a small number
}

// Batches writes n records of an entry's size in the order of their owners. Two goroutines write batches of 1,000, each synced. It returns
// how many records it wrote a second.
func Batches(opts Options, n int) (rate float64, err error) {
	return measure(opts.Dir, engine(opts), n, func(db *pebble.DB) error { return batches(db, opts, n, 0) })
}

// layers is up to how many unmerged layers of files count as settled.
const layers = 4

// Rounds is Batches again and again, each time the next record of each of n owners. It returns the rate of each round, which ends when no
// compaction runs and few layers are left.
func Rounds(opts Options, n, rounds int) (rates []float64, err error) {
	db, err := pebble.Open(opts.Dir, engine(opts))
	if err != nil {
		return nil, fmt.Errorf("raw limit of Pebble: %w", err)
	}
	for round := range rounds {
		began := time.Now() //nolint:forbidigo // what is measured is time
		if err = batches(db, opts, n, round); err != nil {
			break
		}
		for m := db.Metrics(); m.Compact.NumInProgress > 0 || m.Levels[0].Sublevels > layers; m = db.Metrics() {
			time.Sleep(time.Millisecond) //nolint:forbidigo // what is measured is time
		}
		rates = append(rates, float64(n)/time.Since(began).Seconds())
	}
	if err := errors.Join(err, db.Close()); err != nil {
		return nil, fmt.Errorf("raw limit of Pebble: %w", err)
	}
	return rates, nil
}

// batches writes the record of a round to n owners.
func batches(db *pebble.DB, opts Options, n, round int) error {
	values := opts.values()
	return inOrder(n, 1000, func(first, last int) error {
		batch := db.NewBatch()
		for i := first; i < last; i++ {
			if err := batch.Set(key(i, round), values[i%len(values)], nil); err != nil {
				return err
			}
		}
		return batch.Commit(pebble.Sync)
	})
}

// inOrder lets two goroutines write n records, half of them each. Each writes so many together, from the first to the one before the last.
func inOrder(n, together int, write func(first, last int) error) error {
	const writers = 2
	var group errgroup.Group
	for w := range writers {
		group.Go(func() error {
			last := (w + 1) * n / writers
			for first := w * n / writers; first < last; first += together {
				if err := write(first, min(last, first+together)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// Syncs writes n records of an entry's size from so many goroutines, each in a synced commit of its own. It returns how many it wrote a
// second.
func Syncs(opts Options, n, writers int) (rate float64, err error) {
	return measure(opts.Dir, engine(opts), n, func(db *pebble.DB) error {
		value := opts.values()[0]
		var next atomic.Int64
		var group errgroup.Group
		for range writers {
			group.Go(func() error {
				for i := next.Add(1); i <= int64(n); i = next.Add(1) {
					if err := db.Set(fmt.Appendf(nil, "%016d", i), value, pebble.Sync); err != nil {
						return err
					}
				}
				return nil
			})
		}
		return group.Wait()
	})
}

func measure(dir string, engine *pebble.Options, n int, write func(*pebble.DB) error) (rate float64, err error) {
	db, err := pebble.Open(dir, engine)
	if err != nil {
		return 0, fmt.Errorf("raw limit of Pebble: %w", err)
	}
	began := time.Now() //nolint:forbidigo // what is measured is time
	err = write(db)
	took := time.Since(began)
	if err := errors.Join(err, db.Close()); err != nil {
		return 0, fmt.Errorf("raw limit of Pebble: %w", err)
	}
	return float64(n) / took.Seconds(), nil
}

// engine returns the defaults of Pebble, with the memory of the embedded store.
func engine(opts Options) *pebble.Options {
	return &pebble.Options{Logger: quiet{}, CacheSize: opts.CacheBytes, MemTableSize: uint64(opts.MemTableBytes)} //nolint:gosec // the caller checks it
}

// quiet is a logger of what is not worth telling of a store that is thrown away.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}
