package bucket_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/storetest/buckettest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// TestMendedReadMark mends marks up to a message from the future, in an inbox of 60 slots. That message has slot 0 of bucket 1, and the
// messages 1 to 50 and 51 to 59 come before and after it.
func TestMendedReadMark(t *testing.T) {
	t.Parallel()
	slots := func(sequence uint32, slots int64) bucket.ReadMark {
		return bucket.ReadMark{UpTo: id(future), Sequence: sequence, Slots: slots, Gaps: 2, Read: slots}
	}
	want := func(upTo int, was bucket.ReadMark, read int64) bucket.ReadMark {
		was.UpTo, was.Read = id(upTo), read
		return was
	}
	for name, test := range map[string]struct {
		mark   bucket.ReadMark
		inGaps int
		change func(t *testing.T, store *buckettest.Model)
		want   bucket.ReadMark // the zero mark if it cannot be mended
	}{
		"of the whole inbox":                {mark: slots(0, 60), want: want(59, slots(0, 60), 59)},
		"of earlier slots":                  {mark: slots(0, 54), want: want(53, slots(0, 54), 53)},
		"of the slot alone":                 {mark: slots(1, 51), want: want(50, slots(1, 51), 50)},
		"that begins later":                 {mark: slots(1, 60), want: want(59, slots(1, 60), 59)},
		"with an older message in a gap":    {mark: slots(0, 60), inGaps: 20, want: want(59, slots(0, 60), 59)},
		"with the newest message in a gap":  {mark: slots(0, 60), inGaps: 300, want: want(300, slots(0, 60), 59)},
		"of an inbox with nothing but gaps": {mark: slots(0, 0), inGaps: 300, want: want(300, slots(0, 0), 0)},
		"up to a deleted message": {
			mark: slots(0, 60), want: want(59, slots(0, 60), 59),
			change: func(t *testing.T, store *buckettest.Model) {
				t.Helper()
				require.NoError(t, store.Delete(t.Context(), "ann", 1, id(59)))
			},
		},
		"up to a blanked message": {
			mark: slots(0, 60), want: want(59, slots(0, 60), 59),
			change: func(t *testing.T, store *buckettest.Model) {
				t.Helper()
				require.NoError(t, store.Blank(t.Context(), "ann", 1, 9, id(59)))
			},
		},
		"below an unread message": {
			mark: slots(0, 61), want: want(59, slots(0, 61), 59),
			change: func(t *testing.T, store *buckettest.Model) {
				t.Helper()
				require.True(t, pushTo(t, store, bucket.Push{Owner: "ann", Sequence: 1, Entries: entries(future+1, 1)}))
			},
		},
		"while another one is live": {
			mark: slots(0, 61),
			change: func(t *testing.T, store *buckettest.Model) {
				t.Helper()
				require.True(t, pushTo(t, store, bucket.Push{Owner: "ann", Sequence: 1, Entries: entries(future-1, 1)}))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := inboxOf(t, append(append(from(1, 50), future), from(51, 9)...)...)
			require.NoError(t, store.Delete(t.Context(), "ann", 1, id(future)))
			if test.change != nil {
				test.change(t, store)
			}
			var inGaps message.ID
			if test.inGaps > 0 {
				inGaps = id(test.inGaps)
			}
			mended, ok, err := bucket.MendedReadMark(t.Context(), store, "ann", test.mark, inGaps, isVoid(future-1, future))
			require.NoError(t, err)
			require.Equal(t, test.want != bucket.ReadMark{}, ok)
			if ok {
				require.Equal(t, test.want, mended)
			}
		})
	}
}

func TestMendedReadMarkOfALiveMessage(t *testing.T) {
	t.Parallel()
	store := inboxOf(t, 1, future)
	_, ok, err := bucket.MendedReadMark(t.Context(), store, "ann", bucket.ReadMark{UpTo: id(future), Slots: 2, Read: 2}, message.ID{}, isVoid(future))
	require.NoError(t, err)
	require.False(t, ok)
	require.NoError(t, store.Delete(t.Context(), "ann", 0, id(future)))
	_, ok, err = bucket.MendedReadMark(t.Context(), damaged{store, 0}, "ann", bucket.ReadMark{UpTo: id(future), Slots: 2, Read: 2}, message.ID{}, isVoid(future))
	require.NoError(t, err)
	require.False(t, ok, "a slot has lost its id")
}

// TestReadSlots requires that the slots of a mark are counted as when it was set, whatever was appended and deleted since.
func TestReadSlots(t *testing.T) {
	t.Parallel()
	for _, upTo := range []int{0, 1, 40, 59, 60, 70, 130} {
		store := inboxOf(t, append(append(from(1, 50), from(61, 50)...), from(51, 10)...)...) // the last ten came late
		require.NoError(t, store.Blank(t.Context(), "ann", 0, 30, id(31)))
		mark, err := bucket.NewReadMark(t.Context(), store, "ann", bucket.Hint{}, id(upTo))
		require.NoError(t, err)
		require.True(t, pushTo(t, store, bucket.Push{Owner: "ann", Sequence: 2, Entries: entries(120, 3)}))
		require.NoError(t, store.Delete(t.Context(), "ann", 1, id(70)))
		require.NoError(t, store.Blank(t.Context(), "ann", 0, 20, id(21)))
		read, err := bucket.ReadSlots(t.Context(), store, "ann", mark)
		require.NoError(t, err)
		require.Equal(t, mark.Read, read, "up to %d", upTo)
	}
	read, err := bucket.ReadSlots(t.Context(), inboxOf(t, 1), "ann", bucket.ReadMark{})
	require.NoError(t, err)
	require.Zero(t, read, "without a mark")
}
