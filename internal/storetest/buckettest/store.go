package buckettest

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

const owner message.UserID = "ann"

// stored puts 130 messages into the inbox of ann: two full buckets, and 30 slots of a third. The ids are 10, 20 and so on.
func (s suite) stored(t *testing.T) Harness {
	t.Helper()
	h := s.open(t)
	prefill(t, h.Store, owner, numbers(10, 10, 130))
	require.NoError(t, h.Store.Persist(t.Context()))
	return h
}

// pushConditions tries pushes on an inbox whose bucket 0 is full up to 500. Bucket 1 has the floor 500 and the ids from 510 to 980 in 48
// slots.
func (s suite) pushConditions(t *testing.T) {
	for _, test := range []struct {
		name    string
		push    bucket.Push
		applied bool
	}{
		{"guarded onto the head", bucket.Push{Sequence: 1, Entries: entries(2000), Guard: true}, true},
		{"guarded above the floor, below others", bucket.Push{Sequence: 1, Entries: entries(505), Guard: true}, true},
		{"guarded at the floor", bucket.Push{Sequence: 1, Entries: entries(500), Guard: true}, false},
		{"guarded below the floor", bucket.Push{Sequence: 1, Entries: entries(5), Guard: true}, false},
		{"guarded, the least below the floor", bucket.Push{Sequence: 1, Entries: entries(5, 2000), Guard: true}, false},
		{"unguarded below the floor", bucket.Push{Sequence: 1, Entries: entries(5)}, true},
		{"as many as fit", bucket.Push{Sequence: 1, Entries: entries(2000, 2001), Guard: true}, true},
		{"one too many", bucket.Push{Sequence: 1, Entries: entries(2000, 2001, 2002)}, false},
		{"onto a full bucket", bucket.Push{Sequence: 0, Entries: entries(2000)}, false},
		{"guarded onto a full bucket", bucket.Push{Sequence: 0, Entries: entries(2000), Guard: true}, false},
		{"of one that is there", bucket.Push{Sequence: 1, Entries: entries(510)}, false},
		{"of several, the last of which is there", bucket.Push{Sequence: 1, Entries: entries(505, 980), Guard: true}, false},
		{"of several, the first of which is there", bucket.Push{Sequence: 1, Entries: entries(980, 2000), Guard: true}, false},
		{"of one that was deleted", bucket.Push{Sequence: 1, Entries: entries(520)}, false},
		{"onto a bucket that is there, prepared to create it", bucket.Push{Sequence: 1, Entries: entries(5), Create: true, Floor: id(500)}, true},
		{"onto a full bucket, prepared to create it", bucket.Push{Sequence: 0, Entries: entries(5), Create: true}, false},
		{"onto a bucket that is not there", bucket.Push{Sequence: 2, Entries: entries(2000)}, false},
		{"guarded onto a bucket that is not there", bucket.Push{Sequence: 2, Entries: entries(2000), Guard: true}, false},
		{"onto a bucket far beyond", bucket.Push{Sequence: math.MaxUint32, Entries: entries(2000)}, false},
		{"of an id above one byte order but not the other", bucket.Push{Sequence: 1, Entries: entries(512), Guard: true}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			store := s.open(t).Store
			prefill(t, store, owner, numbers(10, 10, 98))
			require.NoError(t, store.Delete(t.Context(), owner, 1, id(520)))
			before := readInbox(t, store, owner)
			test.push.Owner = owner
			require.Equal(t, test.applied, pushOne(t, store, test.push))
			after := readInbox(t, store, owner)
			if !test.applied {
				require.Equal(t, before, after, "a push that is refused changes nothing")
				return
			}
			require.NoError(t, after.check())
			require.NoError(t, after.follows(before))
			require.Equal(t, append(before.entries(), test.push.Entries...), after.entries(), "appended in their order")
		})
	}
}

func (s suite) pushCreates(t *testing.T) {
	for _, test := range []struct {
		name string
		in   []int
		push bucket.Push
		last message.ID
	}{
		{"bucket 0, guarded", nil, bucket.Push{Entries: entries(7), Guard: true}, id(7)},
		{"bucket 0, not guarded", nil, bucket.Push{Entries: entries(7, 8)}, id(8)},
		{"bucket 0 with 50 entries", nil, bucket.Push{Entries: entries(numbers(1, 1, 50)...), Guard: true}, id(50)},
		{"bucket 1, above its floor", numbers(10, 10, 50), bucket.Push{Sequence: 1, Entries: entries(505), Create: true, Floor: id(500)}, id(505)},
		{"bucket 1, without a floor", numbers(10, 10, 50), bucket.Push{Sequence: 1, Entries: entries(505), Create: true}, id(505)},
		{"bucket 1, below its floor", numbers(10, 10, 50), bucket.Push{Sequence: 1, Entries: entries(5, 6), Create: true, Floor: id(500)}, id(500)},
		{"bucket 1, around its floor", numbers(10, 10, 50), bucket.Push{Sequence: 1, Entries: entries(5, 505), Create: true, Floor: id(500)}, id(505)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			store := s.open(t).Store
			prefill(t, store, owner, test.in)
			test.push.Owner = owner
			require.True(t, pushOne(t, store, test.push))
			outline := bucket.Outline{Sequence: test.push.Sequence, Slots: len(test.push.Entries), Floor: test.push.Floor, Last: test.last}
			buckets := read(t, store, bucket.Section{Owner: owner, Low: test.push.Sequence, High: math.MaxUint32}, bucket.AllFields)
			require.Equal(t, []bucket.Bucket{{Owner: owner, Outline: outline, Entries: test.push.Entries}}, buckets)
		})
	}
}

// pushManyOwners pushes to many owners in one call. Some of the pushes are refused.
func (s suite) pushManyOwners(t *testing.T) {
	t.Parallel()
	const count = 300
	store := s.open(t).Store
	var pushes []bucket.Push
	for i := range count {
		user := message.UserID(fmt.Sprintf("user-%d", i))
		if i%3 == 0 {
			prefill(t, store, user, []int{5})
		}
		pushes = append(pushes, bucket.Push{Owner: user, Entries: entries(5, 6), Guard: true})
	}
	outcomes, err := store.Push(t.Context(), pushes)
	require.NoError(t, err)
	require.Len(t, outcomes, count)
	for i, o := range outcomes {
		require.Equal(t, i%3 > 0, o.Applied, "outcomes are in the order of pushes")
		require.NoError(t, o.Err)
		if o.Seen.Slots > 0 {
			require.Equal(t, bucket.Outline{Slots: 1, Last: id(5)}, o.Seen, "a bucket that is seen is the one that refused")
		}
		want := entries(5, 6)
		if i%3 == 0 {
			want = entries(5)
		}
		require.Equal(t, want, readInbox(t, store, pushes[i].Owner).entries())
	}
	outcomes, err = store.Push(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, outcomes)
}

// pushKeepsContents reads entries of every kind and compares them with the pushed ones, including the largest with the default
// limits.
func (s suite) pushKeepsContents(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	want := []bucket.Entry{
		{ID: id(1), From: "ü😀", Body: "\x00 \" \\ \u2028 😀"},
		{ID: id(2), From: "bob", ContentType: "text/plain; charset=utf-8", Attrs: json.RawMessage(`{"a":[1,null],"ä":1.50}`)},
		{ID: id(3), From: "bob", Body: "both", ContentType: "text/html", Attrs: json.RawMessage(`{}`)},
	}
	want[0].To, want[0].ToCount, want[0].Topics = []message.UserID{"ann", "ü😀"}, 2, []message.Topic{"news", "go/fmt"}
	want[1].ToCount, want[1].Audience, want[1].Recovered = message.MaxRecipients, message.AudienceFollowers, true
	limits := message.DefaultLimits()
	body := strings.Repeat("b", limits.BodyBytes)
	attrs := json.RawMessage(`{"a":"` + strings.Repeat("a", limits.AttrsBytes-8) + `"}`)
	for n := 4; n <= bucket.Capacity; n++ {
		want = append(want, bucket.Entry{ID: id(n), From: "bob", Body: body, ContentType: "text/plain", Attrs: attrs, Recovered: n%2 == 0})
	}
	require.True(t, pushOne(t, h.Store, bucket.Push{Owner: owner, Entries: want, Guard: true}))
	require.Equal(t, want, readInbox(t, h.Store, owner).entries())
	require.NoError(t, h.Store.Persist(t.Context()))
	h = h.Reopen(t)
	require.Equal(t, want, readInbox(t, h.Store, owner).entries())
}

// pushLargest pushes the largest entry that every store accepts, with all fields set.
func (s suite) pushLargest(t *testing.T) {
	t.Parallel()
	store := s.open(t).Store
	largest := entry(1)
	largest.ContentType, largest.Attrs, largest.Recovered = "text/plain", json.RawMessage(`{"a":1}`), true
	rest := len(largest.From) + len(largest.ContentType) + len(largest.Attrs)
	largest.Body = strings.Repeat("x", bucket.MaxEntryBytes-bucket.EntryOverhead-rest)
	require.True(t, pushOne(t, store, bucket.Push{Owner: owner, Entries: []bucket.Entry{largest}, Guard: true}))
	require.Equal(t, []bucket.Entry{largest}, readInbox(t, store, owner).entries())
}

// pushTooLarge pushes an entry that no store accepts, together with pushes to other owners.
func (s suite) pushTooLarge(t *testing.T) {
	t.Parallel()
	store := s.open(t).Store
	huge := entry(1)
	huge.Body = strings.Repeat("x", bucket.MaxEntryBytes)
	outcomes, err := store.Push(t.Context(), []bucket.Push{
		{Owner: "ann", Entries: entries(1), Guard: true},
		{Owner: "bob", Entries: []bucket.Entry{huge}, Guard: true},
		{Owner: "cid", Entries: entries(1), Guard: true},
	})
	require.NoError(t, err)
	require.Equal(t, bucket.Outcome{Applied: true}, outcomes[0])
	require.Equal(t, bucket.Outcome{Applied: true}, outcomes[2])
	require.False(t, outcomes[1].Applied)
	require.ErrorIs(t, outcomes[1].Err, bucket.ErrTooLarge)
	require.Empty(t, readInbox(t, store, "bob"))
}

// pushKeepsNoReference overwrites the pushed slices and the returned slices, and reads again.
func (s suite) pushKeepsNoReference(t *testing.T) {
	t.Parallel()
	store := s.open(t).Store
	pushed := entries(1, 2)
	pushed[0].Attrs = json.RawMessage(`{"a":1}`)
	require.True(t, pushOne(t, store, bucket.Push{Owner: owner, Entries: pushed, Guard: true}))
	want := entries(1, 2)
	want[0].Attrs = json.RawMessage(`{"a":1}`)
	copy(pushed[0].Attrs, `{"b":2}`)
	clear(pushed)
	got := readInbox(t, store, owner)
	require.Equal(t, want, got.entries())
	clear(got[0].Entries)
	require.Equal(t, want, readInbox(t, store, owner).entries(), "the caller owns the buckets that it read")
}

func (s suite) heads(t *testing.T) {
	t.Parallel()
	store := s.stored(t).Store
	prefill(t, store, "anna", numbers(1, 1, 3))
	in := readInbox(t, store, owner)
	at := func(owner message.UserID, sequence uint32) bucket.Head {
		return bucket.Head{Owner: owner, Hint: bucket.Hint{Sequence: sequence}}
	}
	heads, err := store.Heads(t.Context(), []bucket.Head{
		at("anna", 0), at(owner, 2), at("an", 0), at(owner, 3), at(owner, 0), at("anna", math.MaxUint32), at(owner, 1),
	})
	require.NoError(t, err)
	want := without(in[2], bucket.NoFields)
	require.Equal(t, bucket.Outline{Slots: 3, Last: id(3)}, heads[0].Outline)
	require.Equal(t, []bucket.Bucket{want, {}, {}, want, {}, want}, heads[1:])
	require.NoError(t, store.Delete(t.Context(), owner, 2, id(1300)))
	want.Entries[29].Deleted = true
	require.Equal(t, want, head(t, store, owner), "it has tombstones, too")
	require.Equal(t, 50, int(store.Size()))
}

func (s suite) ranges(t *testing.T) {
	t.Parallel()
	store := s.stored(t).Store
	prefill(t, store, "anna", numbers(1, 1, 3))
	for _, test := range []struct {
		name      string
		low, high uint32
		limit     int
		want      []uint32
	}{
		{"everything", 0, math.MaxUint32, 100, []uint32{2, 1, 0}},
		{"the highest", 0, math.MaxUint32, 2, []uint32{2, 1}},
		{"low is included", 1, 2, 100, []uint32{2, 1}},
		{"high is included", 0, 1, 100, []uint32{1, 0}},
		{"the highest up to high", 0, 1, 1, []uint32{1}},
		{"one", 1, 1, 1, []uint32{1}},
		{"beyond the head", 3, math.MaxUint32, 100, nil},
		{"nothing between", 2, 1, 100, nil},
		{"without a limit", 0, math.MaxUint32, 0, []uint32{2, 1, 0}},
	} {
		buckets := read(t, store, bucket.Section{Owner: owner, Low: test.low, High: test.high, Limit: test.limit}, bucket.AllFields)
		var got []uint32
		for _, b := range buckets {
			require.Equal(t, owner, b.Owner, test.name)
			first := int(b.Sequence)*500 + 10
			require.Equal(t, entries(numbers(first, 10, b.Slots)...), b.Entries, test.name)
			require.Equal(t, id(first+10*(b.Slots-1)), b.Last, test.name)
			got = append(got, b.Sequence)
		}
		require.Equal(t, test.want, got, test.name)
	}
	ended := read(t, store, bucket.Section{Owner: owner, High: 1, Bytes: 1}, bucket.AllFields)
	require.Len(t, ended, 1, "the read ends with the bucket that has too many bytes")
	require.EqualValues(t, 1, ended[0].Sequence)
	require.Empty(t, read(t, store, bucket.Section{Owner: "an", High: math.MaxUint32}, bucket.AllFields), "nobody else's buckets")
}

// late names the buckets above one into which a message below an id came late.
func late(owner message.UserID, above uint32, id message.ID) bucket.Section {
	return bucket.Section{Owner: owner, Low: math.MaxUint32, High: above, Late: id}
}

func (s suite) late(t *testing.T) {
	t.Parallel()
	store := s.open(t).Store
	in := numbers(10, 10, 220)
	in[60] = 5    // in bucket 1, far below its floor of 500
	in[110] = 995 // in bucket 2, just below its floor of 1000
	in[160] = 6   // in bucket 3, and deleted there
	in[210] = 7   // in bucket 4, and blanked there
	prefill(t, store, owner, in)
	require.NoError(t, store.Delete(t.Context(), owner, 3, id(6)))
	require.NoError(t, store.Blank(t.Context(), owner, 4, 10, id(7)))
	prefill(t, store, "ann2", in)
	for _, test := range []struct {
		name  string
		above uint32
		id    message.ID
		want  []uint32
	}{
		{"all that came late", 0, message.MaxID, []uint32{1, 2, 3, 4}},
		{"above is excluded", 1, message.MaxID, []uint32{2, 3, 4}},
		{"above the last", 4, message.MaxID, nil},
		{"above everything", math.MaxUint32, message.MaxID, nil},
		{"below an id", 0, id(995), []uint32{1, 3, 4}},
		{"just above an id", 0, id(996), []uint32{1, 2, 3, 4}},
		{"tombstones count", 2, id(7), []uint32{3}},
		{"blanked ones too", 3, id(8), []uint32{4}},
		{"the id is excluded", 0, id(5), nil},
		{"an id between", 0, id(6), []uint32{1}},
	} {
		buckets := read(t, store, late(owner, test.above, test.id), bucket.AllFields)
		var got []uint32
		for _, b := range buckets {
			require.Equal(t, read(t, store, one(owner, b.Sequence), bucket.AllFields)[0], b, test.name)
			got = append(got, b.Sequence)
		}
		require.ElementsMatch(t, test.want, got, test.name)
	}
}

// lateAtFloor has an entry whose id is its bucket's floor. The Appender never pushes one. A store accepts it, because it
// checks only one bucket.
func (s suite) lateAtFloor(t *testing.T) {
	t.Parallel()
	store := s.open(t).Store
	prefill(t, store, owner, numbers(10, 10, 50))
	require.True(t, pushOne(t, store, bucket.Push{Owner: owner, Sequence: 1, Entries: entries(500), Create: true, Floor: id(500)}))
	require.Len(t, read(t, store, late(owner, 0, id(501)), bucket.AllFields), 1)
	require.Empty(t, read(t, store, late(owner, 0, id(500)), bucket.AllFields))
}
