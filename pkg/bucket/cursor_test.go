package bucket_test

import (
	"encoding/base64"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

func TestCursorRoundTrip(t *testing.T) {
	t.Parallel()
	for _, c := range []bucket.Cursor{{}, {ID: id(1), Sequence: 3}, {ID: message.MaxID, Sequence: math.MaxUint32}} {
		got, err := bucket.ParseCursor("ann", c.Encode("ann"))
		require.NoError(t, err)
		require.Equal(t, c, got)
	}
}

// A cursor that was handed out goes on to be understood: its format never changes.
func TestCursorFormat(t *testing.T) {
	t.Parallel()
	const golden = "AQAAAAMBm3ypjItwAIAAAAAAAAAD0OsJgvvNHeg"
	require.Equal(t, golden, bucket.Cursor{ID: id(3), Sequence: 3}.Encode("ann"))
}

func TestParseCursorRefuses(t *testing.T) {
	t.Parallel()
	good := bucket.Cursor{ID: id(1), Sequence: 3}.Encode("ann")
	flip := func(i int) string {
		raw, err := base64.RawURLEncoding.DecodeString(good)
		require.NoError(t, err)
		raw[i] ^= 1
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	for name, s := range map[string]string{
		"nothing":         "",
		"no base64":       "not a cursor!",
		"padded":          good + "=",
		"cut short":       good[:len(good)-4],
		"continued":       good + "AAAA",
		"another version": flip(0),
		"another bucket":  flip(4),
		"another id":      flip(10),
		"another sum":     flip(28),
		"a line break":    good[:4] + "\n" + good[4:],
		"random":          strings.Repeat("A", len(good)),
	} {
		_, err := bucket.ParseCursor("ann", s)
		require.ErrorIs(t, err, bucket.ErrCursor, name)
	}
	for _, owner := range []message.UserID{"bob", "", "anna", "Ann"} {
		_, err := bucket.ParseCursor(owner, good)
		require.ErrorIs(t, err, bucket.ErrCursor, "a cursor belongs to one inbox")
	}
}

func FuzzParseCursor(f *testing.F) {
	f.Add("ann", bucket.Cursor{ID: id(1), Sequence: 3}.Encode("ann"))
	f.Add("ann", bucket.Cursor{}.Encode("bob"))
	f.Add("", "AAAA")
	f.Fuzz(func(t *testing.T, owner, s string) {
		c, err := bucket.ParseCursor(message.UserID(owner), s)
		if err != nil {
			require.ErrorIs(t, err, bucket.ErrCursor)
			require.Zero(t, c)
			return
		}
		again, err := bucket.ParseCursor(message.UserID(owner), c.Encode(message.UserID(owner)))
		require.NoError(t, err)
		require.Equal(t, c, again)
	})
}
