package flag_test

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/message"
)

var id = messagetest.ID

type (
	places = map[flag.Place]flag.Flags
	gaps   = map[message.ID]flag.Flags
)

// with returns the record after a change that has something new.
func with(t require.TestingT, r flag.Record, p places, g gaps, oldest uint32, purged message.ID) flag.Record {
	next, changed, err := r.With(p, g, oldest, purged)
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, r.Revision+1, next.Revision)
	return next
}

// unchanged requires that a change has nothing new.
func unchanged(t *testing.T, r flag.Record, p places, g gaps, oldest uint32, purged message.ID) {
	t.Helper()
	next, changed, err := r.With(p, g, oldest, purged)
	require.NoError(t, err)
	require.False(t, changed)
	require.Equal(t, r, next)
}

func TestChange(t *testing.T) {
	t.Parallel()
	for _, covered := range []bool{true, false} {
		for f := range flag.Archived << 1 {
			if f&flag.Read != 0 && f&flag.Unread != 0 {
				continue
			}
			require.Equal(t, f, flag.Change{}.Of(f))
			for _, to := range []bool{true, false} {
				read, archived := flag.Change{Read: &to}.Of(f), flag.Change{Archived: &to}.Of(f)
				require.Equal(t, to, read.Read(covered))
				require.Equal(t, f.Archived(), read.Archived())
				require.Equal(t, to, archived.Archived())
				require.Equal(t, f.Read(covered), archived.Read(covered))
				require.Equal(t, flag.Change{Archived: &to}.Of(read), flag.Change{Read: &to, Archived: &to}.Of(f))
			}
		}
		require.Equal(t, covered, flag.Flags(0).Read(covered))
	}
}

func TestWithTellsWhatChanged(t *testing.T) {
	t.Parallel()
	r := with(t, flag.Record{Owner: "ann"}, places{{Sequence: 7, Slot: 63}: flag.Unread}, nil, 0, message.ID{})
	require.Equal(t, flag.Record{Owner: "ann", Revision: 1, Buckets: []flag.Bucket{{Sequence: 7, At: 1, Unread: 1 << 63}}}, r)
	r = with(t, r, places{{Sequence: 2}: flag.Read | flag.Archived, {Sequence: 7, Slot: 63}: flag.Unread}, gaps{id(9): flag.Archived, id(5): flag.Read}, 0, message.ID{})
	require.Equal(t, flag.Record{
		Owner: "ann", Revision: 2, MessagesAt: 2,
		Buckets:  []flag.Bucket{{Sequence: 2, At: 2, Read: 1, Archived: 1}, {Sequence: 7, At: 1, Unread: 1 << 63}},
		Messages: []flag.Message{{ID: id(5), Flags: flag.Read}, {ID: id(9), Flags: flag.Archived}},
	}, r)
	before := flag.Record{Buckets: slices.Clone(r.Buckets), Messages: slices.Clone(r.Messages)}

	dropped := with(t, r, places{{Sequence: 2}: 0}, nil, 0, message.ID{})
	require.Equal(t, int64(3), dropped.DroppedAt, "bucket 2 has no flags any more")
	require.Equal(t, r.Buckets[1:], dropped.Buckets)
	require.Equal(t, int64(2), dropped.MessagesAt)
	dropped = with(t, r, nil, gaps{id(5): 0}, 0, message.ID{})
	require.Equal(t, []int64{3, 3}, []int64{dropped.DroppedAt, dropped.MessagesAt})
	require.Equal(t, r.Messages[1:], dropped.Messages)

	kept := with(t, r, places{{Sequence: 2}: flag.Read}, nil, 0, message.ID{})
	require.Zero(t, kept.DroppedAt)
	require.Equal(t, flag.Bucket{Sequence: 2, At: 3, Read: 1}, kept.In(2))
	require.Equal(t, before.Buckets, r.Buckets, "records share their slices")
	require.Equal(t, before.Messages, r.Messages)
}

func TestWithNothingNew(t *testing.T) {
	t.Parallel()
	unchanged(t, flag.Record{Owner: "ann"}, nil, nil, 0, message.ID{})
	unchanged(t, flag.Record{Owner: "ann"}, places{{Sequence: 1}: 0}, gaps{id(1): 0}, 0, message.ID{})
	r := with(t, flag.Record{Owner: "ann"}, places{{Sequence: 3, Slot: 1}: flag.Read}, gaps{id(5): flag.Unread}, 0, message.ID{})
	unchanged(t, r, places{{Sequence: 3, Slot: 1}: flag.Read}, gaps{id(5): flag.Unread}, 0, message.ID{})
	unchanged(t, r, places{{Sequence: 3, Slot: 1}: flag.Unread, {Sequence: 2}: flag.Read}, gaps{id(5): flag.Read, id(4): flag.Read}, 4, id(5))
}

func TestWithLeavesOutWhatHasExpired(t *testing.T) {
	t.Parallel()
	r := with(t, flag.Record{Owner: "ann"}, places{{Sequence: 1}: flag.Read, {Sequence: 2}: flag.Read}, gaps{id(5): flag.Read, id(6): flag.Read}, 0, message.ID{})
	r = with(t, r, places{{Sequence: 1}: flag.Unread, {Sequence: 2, Slot: 1}: flag.Read}, gaps{id(5): flag.Unread}, 2, id(5))
	require.Equal(t, flag.Record{
		Owner: "ann", Revision: 2, MessagesAt: 1,
		Buckets: []flag.Bucket{{Sequence: 2, At: 2, Read: 3}}, Messages: []flag.Message{{ID: id(6), Flags: flag.Read}},
	}, r, "nothing that is live has lost its flags")
}

func TestWithTooMany(t *testing.T) {
	t.Parallel()
	p, g := make(places), make(gaps)
	for n := range flag.MaxBuckets {
		p[flag.Place{Sequence: uint32(n)}] = flag.Read
	}
	for n := range flag.MaxMessages {
		g[id(n+1)] = flag.Archived
	}
	full := with(t, flag.Record{Owner: "ann"}, p, g, 0, message.ID{})
	oneMore := []places{{{Sequence: flag.MaxBuckets}: flag.Read}, nil}
	gapMore := []gaps{nil, {id(flag.MaxMessages + 1): flag.Archived}}
	for i := range oneMore {
		same, changed, err := full.With(oneMore[i], gapMore[i], 0, message.ID{})
		require.ErrorIs(t, err, flag.ErrTooMany)
		require.False(t, changed)
		require.Equal(t, full, same)
		with(t, full, oneMore[i], gapMore[i], 1, id(1)) // what has expired makes room
	}
	oneMore[0][flag.Place{Sequence: 9}], gapMore[1][id(9)] = 0, 0
	with(t, full, oneMore[0], gapMore[1], 0, message.ID{})
}

// drawRecord draws changes, and returns the record after them and what it should hold.
func drawRecord(t *rapid.T) (r flag.Record, p places, g gaps) {
	r, p, g = flag.Record{Owner: "ann", Revision: rapid.Int64Range(1, 1<<60).Draw(t, "revision")}, make(places), make(gaps)
	flags := rapid.SampledFrom([]flag.Flags{0, flag.Read, flag.Unread, flag.Archived, flag.Read | flag.Archived, flag.Unread | flag.Archived})
	place := rapid.Custom(func(t *rapid.T) flag.Place {
		return flag.Place{Sequence: rapid.Uint32Range(0, 3).Draw(t, "sequence"), Slot: rapid.SampledFrom([]int{0, 1, 63}).Draw(t, "slot")}
	})
	message := rapid.Custom(func(t *rapid.T) message.ID { return id(rapid.IntRange(1, 4).Draw(t, "id")) })
	for range rapid.IntRange(1, 4).Draw(t, "changes") {
		places, gaps := rapid.MapOf(place, flags).Draw(t, "places"), rapid.MapOf(message, flags).Draw(t, "gaps")
		oldest, purged := rapid.Uint32Range(0, 2).Draw(t, "oldest"), id(rapid.IntRange(0, 2).Draw(t, "purged"))
		next, changed, err := r.With(places, gaps, oldest, purged)
		require.NoError(t, err)
		if !changed {
			continue
		}
		r = next
		maps.Copy(p, places)
		maps.Copy(g, gaps)
		for at := range p {
			if at.Sequence < oldest {
				p[at] = 0
			}
		}
		for at := range g {
			if !purged.Less(at) {
				g[at] = 0
			}
		}
	}
	return r, p, g
}

func TestRecords(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, p, g := drawRecord(t)
		for at, f := range p {
			require.Equal(t, f, r.In(at.Sequence).Of(at.Slot), at)
		}
		for at, f := range g {
			require.Equal(t, f, r.Of(at), at)
		}
		b := r.AppendTo([]byte("before"))
		require.True(t, bytes.HasPrefix(b, []byte("before")))
		b = b[len("before"):]
		parsed, err := flag.Parse("ann", b)
		require.NoError(t, err)
		require.Equal(t, r, parsed)
		for _, damaged := range [][]byte{b[:rapid.IntRange(0, len(b)-1).Draw(t, "length")], append(bytes.Clone(b), 0)} {
			parsed, err := flag.Parse("ann", damaged)
			require.ErrorIs(t, err, message.ErrCorrupt)
			require.Equal(t, flag.Record{Owner: "ann"}, parsed)
		}
	})
}

func TestParseDamaged(t *testing.T) {
	t.Parallel()
	bucket, gap := flag.Bucket{Sequence: 1, Read: 1}, flag.Message{ID: id(1), Flags: flag.Read}
	for name, r := range map[string]flag.Record{
		"no revision":             {},
		"a negative revision":     {Revision: -1},
		"a bucket twice":          {Revision: 1, Buckets: []flag.Bucket{bucket, bucket}},
		"a bucket without flags":  {Revision: 1, Buckets: []flag.Bucket{{Sequence: 1}}},
		"a slot read and unread":  {Revision: 1, Buckets: []flag.Bucket{{Read: 6, Unread: 2}}},
		"a message twice":         {Revision: 1, Messages: []flag.Message{gap, gap}},
		"messages that descend":   {Revision: 1, Messages: []flag.Message{{ID: id(2), Flags: flag.Read}, gap}},
		"a message without flags": {Revision: 1, Messages: []flag.Message{{ID: id(1)}}},
		"a message with both":     {Revision: 1, Messages: []flag.Message{{ID: id(1), Flags: flag.Read | flag.Unread}}},
		"an unknown flag":         {Revision: 1, Messages: []flag.Message{{ID: id(1), Flags: flag.Archived << 1}}},
	} {
		_, err := flag.Parse("ann", r.AppendTo(nil))
		require.ErrorIs(t, err, message.ErrCorrupt, name)
	}
}
