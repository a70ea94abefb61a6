package bucket

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/fanmail/fanmail/pkg/message"
)

// TrimRequest asks what has to expire so that an inbox keeps its newest messages.
type TrimRequest struct {
	Owner message.UserID
	// Hint is a hint for the head. It may be behind the head.
	Hint Hint
	// Purged is the owner's purge point, and Gaps are the owner's gaps, in the order of time. Both are from one read of the owner's record,
	// before the call. Oldest is a bucket with a floor at or below Purged. No bucket below it is read.
	Purged message.ID
	Gaps   []Gap
	Oldest uint32
	// Newest is how many messages the inbox keeps, at least 1.
	Newest int64
	// OnRead returns at most limit messages of a stretch, the newest, descending, those in buckets too. ReadTrim calls it only if there
	// are gaps.
	OnRead func(ctx context.Context, s Stretch, limit int) ([]Entry, error)
}

// Trim is the result of ReadTrim.
type Trim struct {
	// UpTo is the last possible id of a millisecond: the messages up to it may expire. It is zero if the inbox has no more than Newest
	// messages. It may be at or below the purge point.
	UpTo message.ID
	// Buckets counts the buckets that were read.
	Buckets int
}

// ReadTrim returns up to where the messages of an inbox may expire, so that its TrimRequest.Newest newest messages remain. Those that were
// sent in the same millisecond as the last of them also remain. It reads the buckets that hold so many messages, and one more.
//
// When ReadTrim read the head, that many messages stood above Trim.UpTo that were neither deleted nor expired. So the result stays right,
// however late the caller raises the purge point, and whatever other callers do meanwhile. These rules make it so:
//
//   - The caller reads the record first. The head comes next, in a read of its own. All buckets below it are full then, so what is found
//     in them later was there. The hint only says where the search for the head begins.
//   - No bound of a bucket says how many messages are above it: a message from the future raises the bounds of all later buckets. So
//     ReadTrim counts the messages, from the greatest id down.
//   - It counts only above the floor of the lowest bucket that it has read. Lower buckets have nothing there. They do
//     not matter below bucket 0, a stub, and a bucket with a floor at or below Purged.
//   - A tombstone does not count, nor does an entry in a gap. A gap counts as a whole: its messages without those that have a tombstone.
//     So it counts only if its lower end is above that floor, because otherwise lower buckets may have such tombstones.
//   - If the last one to keep lies in a gap, OnRead finds it. The number of the gap does not say which messages are deleted.
//
// The error wraps message.ErrCorrupt if a bucket is missing.
func ReadTrim(ctx context.Context, store Store, req TrimRequest) (Trim, error) {
	t := trimming{TrimRequest: req, store: store, tombstones: make([]map[message.ID]bool, len(req.Gaps))}
	t.Gaps = slices.Clone(t.Gaps)
	last, err := t.run(ctx)
	if err != nil {
		return Trim{}, fmt.Errorf("what the inbox of %s keeps: %w", req.Owner, err)
	}
	return Trim{UpTo: message.LastBefore(last.Time()), Buckets: t.buckets}, nil
}

// trimming is a trim under way, and what it knows.
type trimming struct {
	TrimRequest
	store   Store
	buckets int

	lowest     Bucket                // the lowest one that was read, without entries
	bottom     bool                  // nothing below it has to be read
	live       []message.ID          // of entries outside gaps, in no order
	tombstones []map[message.ID]bool // of each gap
	missing    int64                 // how many messages have to be found in lower buckets, by what is known
}

// run returns the last message to keep, or zero if the inbox has fewer than it keeps.
func (t *trimming) run(ctx context.Context) (last message.ID, err error) {
	err = t.readHead(ctx)
	for err == nil {
		if last, err = t.last(ctx); err != nil || !last.IsZero() || t.bottom {
			break
		}
		err = t.readBelow(ctx)
	}
	return last, err
}

// readHead reads the head. It searches from the hint up, as a writer does.
func (t *trimming) readHead(ctx context.Context) error {
	head, err := ReadSection(ctx, t.store, Section{Owner: t.Owner, Low: t.Hint.Sequence, High: math.MaxUint32, Limit: 1}, NoFields)
	if err == nil && len(head) == 0 && t.Hint.Sequence > 0 { // ahead of the head, which never happens to a sound store
		head, err = ReadSection(ctx, t.store, Section{Owner: t.Owner, High: math.MaxUint32, Limit: 1}, NoFields)
	}
	t.bottom = len(head) == 0
	t.add(head)
	return err
}

// readBelow reads as many more buckets as the missing messages fill.
func (t *trimming) readBelow(ctx context.Context) error {
	const stride = 8 // buckets a query, because they may be large
	missing := max(1, min(t.missing, stride*MaxCapacity))
	high := t.lowest.Sequence - 1
	count := min(bucketsFor(int(missing), t.store.Size()), high-min(high, t.Oldest)+1, stride)
	buckets, err := ReadSection(ctx, t.store, Section{Owner: t.Owner, Low: t.lowest.Sequence - count, High: high}, NoFields)
	if err != nil {
		return err
	}
	if len(buckets) == 0 || buckets[0].Sequence < high {
		return lost(t.Owner, high)
	}
	for i, b := range buckets[1:] {
		if b.Sequence+1 < buckets[i].Sequence {
			return lost(t.Owner, buckets[i].Sequence-1)
		}
	}
	t.add(buckets)
	return nil
}

// add adds consecutive buckets, the highest first. It ignores those of which everything has expired.
func (t *trimming) add(buckets []Bucket) {
	t.buckets += len(buckets)
	for _, b := range buckets {
		if t.bottom {
			return
		}
		for _, e := range b.Entries {
			gap := slices.IndexFunc(t.Gaps, func(g Gap) bool { return g.Stretch().Holds(e.ID) })
			switch {
			case e.ID.IsZero():
			case gap < 0 && !e.Deleted:
				t.live = append(t.live, e.ID)
			case gap >= 0 && e.Deleted:
				if t.tombstones[gap] == nil {
					t.tombstones[gap] = make(map[message.ID]bool)
				}
				t.tombstones[gap][e.ID] = true
			}
		}
		b.Entries = nil
		t.lowest = b
		t.bottom = b.Sequence == 0 || b.Stub || !t.Purged.Less(b.Floor)
	}
}

// above returns the id above which the buckets that were read have everything. It is zero if there is nothing below them.
func (t *trimming) above() message.ID {
	if t.bottom {
		return message.ID{}
	}
	return t.lowest.Floor
}

// last returns the last message to keep, or zero if the inbox has fewer, or more buckets have to be read.
func (t *trimming) last(ctx context.Context) (message.ID, error) {
	slices.SortFunc(t.live, func(x, y message.ID) int { return y.Compare(x) })
	floor, count, next := t.above(), int64(0), 0
	defer func() { t.missing = t.Newest - count }()
	for i := len(t.Gaps) - 1; i >= -1; i-- {
		var gap Stretch // below all, the empty one
		if i >= 0 {
			gap = t.Gaps[i].Stretch()
		}
		for ; next < len(t.live) && gap.After.Less(t.live[next]) && floor.Less(t.live[next]); next++ {
			if count++; count == t.Newest {
				return t.live[next], nil
			}
		}
		if i < 0 {
			break
		}
		held := max(0, t.Gaps[i].Messages-int64(len(t.tombstones[i])))
		if gap.After.Less(floor) {
			count += held // for missing: the buckets that are read next may have tombstones of it
			break
		}
		if count+held >= t.Newest {
			var id message.ID
			var err error
			if id, held, err = t.lastIn(ctx, i, t.Newest-count); err != nil || !id.IsZero() {
				return id, err
			}
			t.Gaps[i].Messages = held + int64(len(t.tombstones[i])) // fewer than its number says
		}
		count += held
	}
	return message.ID{}, nil
}

// lastIn returns the place-th newest message of a gap that has no tombstone. If there are fewer, it returns how many.
func (t *trimming) lastIn(ctx context.Context, gap int, place int64) (_ message.ID, found int64, err error) {
	const page = 500
	for rest := t.Gaps[gap].Stretch(); ; {
		limit := int(min(place-found+int64(len(t.tombstones[gap])), page))
		entries, err := t.OnRead(ctx, rest, limit)
		if err != nil {
			return message.ID{}, found, err
		}
		for _, e := range entries {
			if t.tombstones[gap][e.ID] {
				continue
			}
			if found++; found == place {
				return e.ID, found, nil
			}
		}
		if len(entries) < limit {
			return message.ID{}, found, nil
		}
		rest.Before = entries[limit-1].ID
	}
}
