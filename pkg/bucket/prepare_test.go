package bucket_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/bucket"
)

// bodies encodes an entry as its body, and counts how often it does so.
func bodies(header int) (encoder *bucket.Encoder[[]byte], encoded *int) {
	encoded = new(int)
	return bucket.NewEncoder(bucket.Capacity, header, func(e *bucket.Entry) ([]byte, error) {
		*encoded++
		if e.Body == "bad" {
			return nil, errBad
		}
		return []byte(e.Body), nil
	}), encoded
}

var errBad = errors.New("bad body")

func TestEncoderEncodesOnce(t *testing.T) {
	t.Parallel()
	encoder, encoded := bodies(0)
	for range 3 {
		entries, _, try, err := encoder.Prepare(&bucket.Push{Entries: entries(1, 2)}, [][]byte{[]byte("kept")})
		require.NoError(t, err)
		require.True(t, try)
		require.Equal(t, [][]byte{[]byte("kept"), []byte("message 1"), []byte("message 2")}, entries)
	}
	require.Equal(t, 2, *encoded)

	recovered := entries(1, 1)
	recovered[0].Body, recovered[0].Recovered = "another", true
	got, _, _, err := encoder.Prepare(&bucket.Push{Entries: recovered}, nil)
	require.NoError(t, err)
	require.Equal(t, [][]byte{[]byte("another")}, got, "one id, other contents")

	deleted := entries(1, 1)
	deleted[0].Deleted = true
	_, _, try, err := encoder.Prepare(&bucket.Push{Entries: deleted}, nil)
	require.NoError(t, err)
	require.True(t, try)
	require.Equal(t, 4, *encoded, "one id, a tombstone")
}

func TestEncoderRefuses(t *testing.T) {
	t.Parallel()
	withBody := func(body string) []bucket.Entry {
		e := entries(1, 2)
		e[1].Body = body
		return e
	}
	withTombstone := entries(1, 2)
	withTombstone[0].Deleted = true
	for name, test := range map[string]struct {
		entries []bucket.Entry
		try     bool
		refusal error
		err     error
	}{
		"no entries":        {nil, false, nil, nil},
		"a full bucket":     {entries(1, bucket.Capacity), true, nil, nil},
		"more than fit":     {entries(1, bucket.Capacity+1), false, nil, nil},
		"the largest entry": {withBody(strings.Repeat("x", bucket.MaxEntryBytes-10)), true, nil, nil},
		"one byte more":     {withBody(strings.Repeat("x", bucket.MaxEntryBytes-9)), false, bucket.ErrTooLarge, nil},
		"a tombstone":       {withTombstone[:1], true, nil, nil},
		"one with another":  {withTombstone, false, bucket.ErrNotAlone, nil},
		"a failing encoder": {withBody("bad"), false, nil, errBad},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			encoder, _ := bodies(10)
			_, refused, try, err := encoder.Prepare(&bucket.Push{Entries: test.entries}, nil)
			require.Equal(t, test.try, try)
			require.ErrorIs(t, refused.Err, test.refusal)
			require.ErrorIs(t, err, test.err)
			require.False(t, refused.Applied)
		})
	}
}
