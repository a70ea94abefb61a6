package pebblelayouts

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// filled is about the number of messages in a batch of Fill.
const filled = 20_000

// Fill implements Layout.
func (l *layout) Fill(ctx context.Context, entries []bucket.Entry, recipients []message.UserID) error {
	if l.name == "on-read" {
		for _, e := range entries {
			if _, err := l.sendOnce(e, recipients); err != nil {
				return err
			}
		}
		return nil
	}
	parts, err := l.parts(entries)
	if err != nil {
		return err
	}
	err = l.spread(ctx, recipients, max(1, filled/max(1, len(entries))), func(owners []message.UserID) error {
		batch := l.db.NewBatch()
		for _, owner := range owners {
			if err := l.fillOne(batch, owner, entries, parts); err != nil {
				return err
			}
		}
		return batch.Commit(pebble.Sync)
	})
	if err != nil {
		return fmt.Errorf("layout %s: fill: %w", l.name, err)
	}
	return nil
}

// fillOne adds the records of a recipient to a batch.
func (l *layout) fillOne(batch *pebble.Batch, owner message.UserID, entries []bucket.Entry, parts []part) error {
	if l.name == "on-write" {
		for _, e := range entries {
			if err := l.copyFor(batch, owner, e); err != nil {
				return err
			}
		}
		return nil
	}
	if l.counted {
		if err := batch.Set(ownerKey(counterKeys, owner), binary.BigEndian.AppendUint64(nil, uint64(len(entries))), nil); err != nil {
			return err
		}
	}
	for _, p := range parts {
		key := numbered(owner, p.number)
		if l.expires {
			if err := batch.Set(expiryKey(p.number, key), nil, nil); err != nil {
				return err
			}
		}
		if err := batch.Set(key, p.value, nil); err != nil {
			return err
		}
	}
	return nil
}

// part is a bucket that has the same number and the same messages for each recipient.
type part struct {
	number uint64
	value  []byte
	size   int
}

// parts distributes entries over buckets, as one push after the other would.
func (l *layout) parts(entries []bucket.Entry) (parts []part, err error) {
	if l.keep > 0 {
		entries = entries[max(0, len(entries)-l.keep):]
	}
	for _, e := range entries {
		last := len(parts) - 1
		full := last < 0 || parts[last].size >= l.opts.BucketSize
		var number uint64
		switch l.name {
		case "newest-n":
			full = last < 0
		case "dated":
			if number, err = byDay("", e); err != nil {
				return nil, err
			}
			full = last < 0 || parts[last].number != number
		case "open-bucket":
			number = uint64(e.ID.Time().UnixMilli())
		default: // counter and bucket-values
			number = uint64(len(parts))
		}
		if full {
			parts = append(parts, part{number: number})
			last++
		}
		parts[last].value = appendEntry(parts[last].value, e)
		parts[last].size++
	}
	return parts, nil
}
