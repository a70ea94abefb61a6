package buckettest

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// id returns the nth id of the series of the tests.
var id = messagetest.ID

// entry returns the copy of the message with the nth id.
func entry(n int) bucket.Entry {
	e := bucket.EntryOf(messagetest.Message(n, "author"))
	e.Attrs = attrsOf(n)
	return e
}

func entries(ns ...int) []bucket.Entry {
	out := make([]bucket.Entry, len(ns))
	for i, n := range ns {
		out[i] = entry(n)
	}
	return out
}

// IDs returns the ids of entries.
func IDs(entries []bucket.Entry) []message.ID {
	out := make([]message.ID, len(entries))
	for i, e := range entries {
		out[i] = e.ID
	}
	return out
}

// foundIDs returns the ids of entries that were found.
func foundIDs(found []bucket.Found) []message.ID {
	out := make([]message.ID, len(found))
	for i, f := range found {
		out[i] = f.ID
	}
	return out
}

// numbers returns count numbers from first on, step apart.
func numbers(first, step, count int) []int {
	out := make([]int, count)
	for i := range out {
		out[i] = first + i*step
	}
	return out
}

// tester is a test, or one check of a property.
type tester interface {
	rapid.TB
	Context() context.Context
}

// inbox has all buckets of an owner, the lowest first. It is read while no goroutine writes.
type inbox []bucket.Bucket

func readInbox(t tester, store bucket.Store, owner message.UserID) inbox {
	t.Helper()
	buckets := read(t, store, bucket.Section{Owner: owner, High: math.MaxUint32}, bucket.AllFields)
	slices.Reverse(buckets)
	return buckets
}

// read reads the buckets of a section.
func read(t tester, store bucket.Store, section bucket.Section, field bucket.Field) []bucket.Bucket {
	t.Helper()
	buckets, err := bucket.ReadSection(t.Context(), store, section, field)
	require.NoError(t, err)
	return buckets
}

func one(owner message.UserID, sequence uint32) bucket.Section {
	return bucket.Section{Owner: owner, Low: sequence, High: sequence}
}

func head(t tester, store bucket.Store, owner message.UserID) bucket.Bucket {
	t.Helper()
	heads, err := store.Heads(t.Context(), []bucket.Head{{Owner: owner}})
	require.NoError(t, err)
	return heads[0]
}

// without returns a bucket whose entries have a field only.
func without(b bucket.Bucket, field bucket.Field) bucket.Bucket {
	b.Entries = slices.Clone(b.Entries)
	for i, e := range b.Entries {
		b.Entries[i] = e.Only(field)
	}
	if field == bucket.NoEntries || len(b.Entries) == 0 {
		b.Entries = nil
	}
	return b
}

// entries returns the entries of all buckets in the order of their slots, tombstones included.
func (in inbox) entries() []bucket.Entry {
	var all []bucket.Entry
	for _, b := range in {
		all = append(all, b.Entries...)
	}
	return all
}

func (in inbox) holds(id message.ID) bool {
	return slices.ContainsFunc(in, func(b bucket.Bucket) bool { return b.Holds(id) })
}

// hint returns the hint that names one of the buckets; the zero hint for an empty inbox.
func (in inbox) hint(sequence int) bucket.Hint {
	if sequence >= len(in) {
		return bucket.Hint{}
	}
	return bucket.Hint{Sequence: in[sequence].Sequence, Decl: in[sequence].Decl, Floor: in[sequence].Floor}
}

// check returns the first violation of an invariant of package bucket, or nil.
func (in inbox) check() error {
	var last message.ID
	blanked := false
	seen := map[message.ID]uint32{}
	for i, b := range in {
		switch {
		case b.Sequence != in.sequence(i):
			return fmt.Errorf("bucket %d is in the place of bucket %d", b.Sequence, in.sequence(i))
		case b.Floor != last:
			return fmt.Errorf("the floor of bucket %d is %s, not %s, the greatest id before it", i, b.Floor, last)
		case b.Slots == 0, b.Slots > in[0].Slots, !b.Stub && b.Slots != len(b.Entries):
			return fmt.Errorf("bucket %d has %d slots", i, b.Slots)
		case i < len(in)-1 && b.Slots < in[0].Slots:
			return fmt.Errorf("bucket %d follows bucket %d with %d slots", i+1, i, b.Slots)
		}
		for _, e := range b.Entries {
			if e.ID.IsZero() && e.Deleted {
				blanked = true
				continue
			}
			if other, twice := seen[e.ID]; twice {
				return fmt.Errorf("%s is in bucket %d and in bucket %d", e.ID, other, i)
			}
			seen[e.ID] = b.Sequence
			if last.Less(e.ID) {
				last = e.ID
			}
		}
		if b.Stub {
			last = greatest(last, b.Last)
		}
		if blanked && last.Less(b.Last) {
			last = b.Last // of an entry that was blanked
		}
		if b.Last != last {
			return fmt.Errorf("the last of bucket %d is %s, not %s", i, b.Last, last)
		}
	}
	return nil
}

// sequence returns the sequence that a bucket must have: that of the bucket before it, and one more. The first may be the stub of buckets that
// were removed.
func (in inbox) sequence(i int) uint32 {
	if in[0].Stub && in[0].Floor.IsZero() {
		return in[0].Sequence + uint32(i) //nolint:gosec // a few buckets
	}
	return uint32(i) //nolint:gosec // a few buckets
}

// at returns the bucket with a sequence, or the stub that stands for it.
func (in inbox) at(sequence uint32) (b bucket.Bucket, exists bool) {
	if len(in) > 0 && in[0].Stub && in[0].Sequence >= sequence && in[0].Floor.IsZero() {
		return in[0], true
	}
	i := slices.IndexFunc(in, func(b bucket.Bucket) bool { return b.Sequence == sequence })
	if i < 0 {
		return b, false
	}
	return in[i], true
}

func greatest(x, y message.ID) message.ID {
	if x.Less(y) {
		return y
	}
	return x
}

// follows returns what could not have become of an earlier inbox, or nil. Floors do not change, and buckets only grow, at their ends.
// Entries only turn into tombstones or expire, and full buckets into stubs.
func (in inbox) follows(earlier inbox) error {
	for _, was := range earlier {
		b, exists := in.at(was.Sequence)
		switch {
		case !exists:
			return fmt.Errorf("there is no bucket %d any more", was.Sequence)
		case b.Slots < was.Slots:
			return fmt.Errorf("bucket %d had %d slots and has %d", was.Sequence, was.Slots, b.Slots)
		case b.Stub:
			for _, e := range was.Entries {
				if b.Last.Less(e.ID) {
					return fmt.Errorf("bucket %d became a stub with the last %s, and held %s", was.Sequence, b.Last, e.ID)
				}
			}
			continue
		case was.Stub:
			return fmt.Errorf("bucket %d is no stub any more", was.Sequence)
		case b.Floor != was.Floor:
			return fmt.Errorf("the floor of bucket %d was %s and is %s", b.Sequence, was.Floor, b.Floor)
		}
		for slot, e := range was.Entries {
			now := b.Entries[slot]
			blanked := now.Deleted && now.ID.IsZero()
			if now.ID != e.ID && !blanked || e.Deleted && !now.Deleted || e.Expired && !now.Expired && !now.Deleted {
				return fmt.Errorf("slot %d of bucket %d held %s and holds %s", slot, b.Sequence, e.ID, now.ID)
			}
		}
	}
	return nil
}

// prefill appends messages to an owner's inbox in the given order, with pushes directly to the store.
func prefill(t tester, store bucket.Store, owner message.UserID, ns []int) {
	t.Helper()
	var last message.ID
	for sequence := uint32(0); len(ns) > 0; sequence++ {
		chunk := ns[:min(len(ns), int(store.Size()))]
		ns = ns[len(chunk):]
		push := bucket.Push{Owner: owner, Sequence: sequence, Create: sequence > 0, Floor: last}
		for len(chunk) > 0 { // the entries of one push must ascend
			ascending := 1
			for ascending < len(chunk) && chunk[ascending-1] < chunk[ascending] {
				ascending++
			}
			push.Entries = entries(chunk[:ascending]...)
			require.True(t, pushOne(t, store, push))
			if newest := push.Entries[ascending-1].ID; last.Less(newest) {
				last = newest
			}
			push.Create = false
			chunk = chunk[ascending:]
		}
	}
}

func pushOne(t tester, store bucket.Store, push bucket.Push) bool {
	t.Helper()
	outcomes, err := store.Push(t.Context(), []bucket.Push{push})
	require.NoError(t, err)
	require.Len(t, outcomes, 1)
	require.NoError(t, outcomes[0].Err)
	return outcomes[0].Applied
}

// hintBook stores the hint of one owner, like the record of the user.
type hintBook struct {
	store bucket.Store
	hint  bucket.Hint
	// wrong describes the errors in the given hints.
	wrong error
}

// RaiseHeads implements bucket.Hints. It records an error for a hint to a bucket that does not exist.
func (h *hintBook) RaiseHeads(ctx context.Context, heads []bucket.Head) error {
	for _, head := range heads {
		b, err := bucket.ReadSection(ctx, h.store, one(head.Owner, head.Hint.Sequence), bucket.NoEntries)
		switch {
		case err != nil:
			return err
		case len(b) == 0:
			h.wrong = fmt.Errorf("the hint was raised to bucket %d, which does not exist", head.Hint.Sequence)
		case b[0].Stub:
		case b[0].Floor != head.Hint.Floor:
			h.wrong = fmt.Errorf("the hint was raised to bucket %d with a floor of %s, which is %s", head.Hint.Sequence, head.Hint.Floor, b[0].Floor)
		case head.Hint.Decl > b[0].Decl && b[0].Decl > 0:
			h.wrong = fmt.Errorf("the hint was raised to bucket %d with the decl %d, which has %d", head.Hint.Sequence, head.Hint.Decl, b[0].Decl)
		}
		if h.hint.Sequence < head.Hint.Sequence || h.hint.Sequence == head.Hint.Sequence && h.hint.Decl == 0 {
			h.hint = head.Hint
		}
	}
	return nil
}

// noHints forgets every hint.
type noHints struct{}

// RaiseHeads implements bucket.Hints.
func (noHints) RaiseHeads(context.Context, []bucket.Head) error { return nil }

// appendAll appends messages to one owner's inbox and returns the number of new ones.
func appendAll(t tester, store bucket.Store, owner message.UserID, hint bucket.Hint, ns []int) int {
	t.Helper()
	results, err := bucket.NewAppender(store, noHints{}).Append(t.Context(), []bucket.Append{{Owner: owner, Hint: hint, Entries: entries(ns...)}})
	require.NoError(t, err)
	require.NoError(t, results[0].Err)
	return results[0].New
}
