package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/pkg/bucket"
)

const (
	// stretchBytes limits how long owners are reserved, and so how long a direct message to one of its owners waits.
	stretchBytes = 16 << 20
	// narrowest is the weight from which a table of its own is cheaper than the log.
	narrowest = 512
	// entryBytes is how many bytes of an entry weigh as much as one more entry, in a push to many inboxes. Neighbors have the same body, which a
	// table compresses to one, and the log writes for each.
	entryBytes = 1 << 10
)

// stretch is owners of a reservation. They are in one partition, in the order of keys.
type stretch struct {
	owners []keyed
	// ends are the numbers of owners at which a table ends, because an owner behind is left out.
	ends []int
}

// stretches divides pushes into those that are written as tables, and the others. A table must not reach over an entry that is in memory: the
// engine would begin a new log and memtable for it. So it ends before an owner who has one, whether or not they get a message.
func (s *Inbox) stretches(work []keyed) (large []stretch, rest []keyed, err error) {
	for first := 0; first < len(work); {
		last, size := first, 0
		for last < len(work) && work[last].partition == work[first].partition && size < stretchBytes {
			size += bytesOf(work[last].push)
			last++
		}
		part := work[first:last]
		first = last
		if weightOf(part) < s.tableEntries {
			rest = append(rest, part...)
			continue
		}
		var one stretch
		if one, rest, err = s.stretch(part, rest); err != nil {
			return nil, nil, err
		}
		if len(one.owners) > 0 {
			large = append(large, one)
		}
	}
	return large, rest, nil
}

// weightOf returns the number of entries. In a push to many inboxes, each entryBytes of an entry count as one more.
func weightOf(work []keyed) (weight int) {
	for i := range work {
		weight += len(work[i].push.Entries)
		if len(work) >= bulkPushes {
			weight += bytesOf(work[i].push) / entryBytes
		}
	}
	return weight
}

func bytesOf(push *bucket.Push) (n int) {
	for i := range push.Entries {
		n += len(push.Entries[i].Body) + len(push.Entries[i].Attrs)
	}
	return n
}

// stretch divides the pushes to owners of a partition. It appends to rest those that are not written as tables.
func (s *Inbox) stretch(part, rest []keyed) (one stretch, _ []keyed, err error) {
	least := min(narrowest, s.tableEntries)
	most := weightOf(part) / least
	written, err := s.inMemory(&part[0], &part[len(part)-1], most+1)
	if err != nil || len(written) > most {
		return one, append(rest, part...), err
	}
	var prefix []byte
	for len(part) > 0 {
		end, isWritten := len(part), false
		if len(written) > 0 {
			end, isWritten = slices.BinarySearchFunc(part, written[0], func(w keyed, owner []byte) int {
				prefix = appendOwner(prefix[:0], spaceInbox, w.partition, w.push.Owner)
				return bytes.Compare(prefix, owner)
			})
			written = written[1:]
		}
		if run := part[:end:end]; weightOf(run) >= least {
			if one.owners == nil {
				one.owners = run // mostly all of them
			} else {
				one.owners = append(one.owners, run...)
			}
			one.ends = append(one.ends, len(one.owners))
		} else {
			rest = append(rest, run...)
		}
		if part = part[end:]; isWritten {
			rest, part = append(rest, part[0]), part[1:]
		}
	}
	return one, rest, nil
}

// pushTables applies the pushes of a stretch, and writes what they add as tables, which the engine takes over beside its log and memtables. That
// takes a fraction of the processor time. An entry in a table is durable at once. So everything written before must be durable first: otherwise
// what a crash leaves may have holes.
func (s *Inbox) pushTables(ctx context.Context, p *pusher, f stretch, outcomes []bucket.Outcome) (err error) {
	if err := s.reserve(ctx, f.owners); err != nil {
		return err
	}
	t, applied := &tables{files: s.db.files, options: s.db.tableOptions}, false
	defer func() {
		if !applied {
			t.remove()
		}
		s.release(f.owners, applied)
	}()
	synced := s.db.beginSync() // not before the owners are reserved: it would miss what is written to them until then
	left, err := p.buildTables(t, f, outcomes)
	synced()
	if err == nil && len(t.paths) > 0 {
		err = s.db.intake.add(ctx, t)
	}
	if err != nil {
		return fmt.Errorf("write tables: %w", err)
	}
	if err := p.pushLeft(f.owners, left, outcomes); err != nil {
		return err
	}
	applied = true
	return nil
}

// buildTables writes the tables of a stretch. It returns the numbers of the owners that are left to the log: their push needs more than
// its entries.
func (p *pusher) buildTables(t *tables, f stretch, outcomes []bucket.Outcome) (left []int, err error) {
	p.tables = t
	defer func() { p.tables, err = nil, errors.Join(err, t.end()) }()
	defer p.closeIter(&err)
	for i, ends := 0, f.ends; i < len(f.owners); i++ {
		if i == ends[0] {
			if err := t.end(); err != nil {
				return nil, err
			}
			ends = ends[1:]
		}
		w := &f.owners[i]
		outcome, later, err := p.push(w)
		if err != nil {
			return nil, err
		}
		if outcomes[w.index] = outcome; later {
			left = append(left, i)
		}
		p.turn(i)
	}
	return left, nil
}

// pushLeft applies the pushes that were left, after the tables: before, the tables would reach over what it writes.
func (p *pusher) pushLeft(owners []keyed, left []int, outcomes []bucket.Outcome) error {
	work := make([]keyed, len(left))
	for n, i := range left {
		work[n] = owners[i]
	}
	if err := p.pushAll(work, outcomes); err != nil {
		return err
	}
	for n, i := range left {
		owners[i].tail = work[n].tail
	}
	return nil
}

// beginSync makes the engine sync everything that has been written. The function that it returns waits for that, and must be called.
func (db *DB) beginSync() (wait func()) {
	batch := db.engine.NewBatch()
	db.write(func() error {
		return errors.Join(batch.LogData(nil, nil), db.engine.ApplyNoSyncWait(batch, pebble.Sync))
	})
	return func() {
		db.write(batch.SyncWait)
		_ = batch.Close() // never fails
	}
}
