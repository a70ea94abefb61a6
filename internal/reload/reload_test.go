package reload_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/reload"
)

func TestValue(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	now := time.Now()
	var log bytes.Buffer
	reads := 0
	write("one")
	v, err := reload.New(
		reload.Options{Name: "words", Paths: []string{path}, Grace: time.Hour, Now: func() time.Time { return now }, Logger: zerolog.New(&log)},
		func(contents [][]byte) (string, error) {
			reads++
			if string(contents[0]) == "bad" {
				return "", errors.New("a bad word")
			}
			return string(contents[0]), nil
		},
	)
	require.NoError(t, err)
	require.Equal(t, "one", v.Get())

	look := func() string {
		now = now.Add(reload.Every)
		return v.Get()
	}
	write("three")
	require.Equal(t, "one", v.Get(), "the files were checked less than Every ago")
	require.Equal(t, "one", look(), "the file may be half written")
	write("thirteen")
	require.Equal(t, "one", look(), "it was")
	require.False(t, v.Stale())
	require.Equal(t, "thirteen", look())
	require.Equal(t, "thirteen", look())
	require.Equal(t, 2, reads, "unchanged files are not read again")
	write("")
	require.Equal(t, "thirteen", look())
	write("thirteen")
	require.Equal(t, "thirteen", look())
	require.Equal(t, 2, reads, "what was there for a moment is not read")

	write("bad")
	for range 4 {
		require.Equal(t, "thirteen", look(), "the previous content stays in force")
	}
	require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("a bad word")), "the error is logged once")
	require.True(t, v.Stale())
	write("thirteen")
	require.Equal(t, "thirteen", look())
	require.False(t, v.Stale())

	require.NoError(t, os.Remove(path))
	require.Equal(t, "thirteen", look())
	require.True(t, v.Stale())
	now = now.Add(time.Hour - time.Nanosecond)
	require.Equal(t, "thirteen", v.Get())
	write("thirteen")
	require.Equal(t, "thirteen", look())
	require.NoError(t, os.Remove(path))
	require.Equal(t, "thirteen", look(), "the grace begins when the file vanishes")
	now = now.Add(time.Hour)
	require.Empty(t, v.Get(), "a file that stays away is in force no longer")
	require.Contains(t, log.String(), "missing for too long")
	write("thirteen")
	require.Empty(t, look())
	require.Equal(t, "thirteen", look())

	write("four")
	now = now.Add(-3 * time.Hour)
	require.Equal(t, "thirteen", v.Get())
	require.Equal(t, "four", look(), "the files are checked although the clock was set back")
}

func TestNewFails(t *testing.T) {
	t.Parallel()
	failure := errors.New("no")
	_, err := reload.New(reload.Options{Now: time.Now}, func([][]byte) (int, error) { return 0, failure })
	require.ErrorIs(t, err, failure)
	_, err = reload.New(reload.Options{Now: time.Now, Paths: []string{"nowhere"}}, func([][]byte) (int, error) { return 0, nil })
	require.ErrorIs(t, err, os.ErrNotExist)
}
