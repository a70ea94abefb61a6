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

	write("three")
	require.Equal(t, "one", v.Get(), "the files were checked less than Every ago")
	now = now.Add(reload.Every)
	require.Equal(t, "three", v.Get())
	now = now.Add(reload.Every)
	require.Equal(t, "three", v.Get())
	require.Equal(t, 2, reads, "unchanged files are not read again")

	write("bad")
	for range 3 {
		now = now.Add(reload.Every)
		require.Equal(t, "three", v.Get(), "the previous content stays in force")
	}
	require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("a bad word")), "the error is logged once")

	require.True(t, v.Stale())
	write("three")
	now = now.Add(reload.Every)
	require.Equal(t, "three", v.Get())
	require.False(t, v.Stale())

	require.NoError(t, os.Remove(path))
	now = now.Add(reload.Every)
	require.Equal(t, "three", v.Get())
	require.True(t, v.Stale())
	now = now.Add(time.Hour - time.Nanosecond)
	require.Equal(t, "three", v.Get())
	write("three")
	now = now.Add(reload.Every)
	require.Equal(t, "three", v.Get())
	require.NoError(t, os.Remove(path))
	now = now.Add(reload.Every)
	require.Equal(t, "three", v.Get(), "the grace begins when the file vanishes")
	now = now.Add(time.Hour)
	require.Empty(t, v.Get(), "a file that stays away is in force no longer")
	require.Contains(t, log.String(), "missing for too long")
	write("three")
	now = now.Add(reload.Every)
	require.Equal(t, "three", v.Get())

	write("four")
	now = now.Add(-3 * time.Hour)
	require.Equal(t, "four", v.Get(), "the files are checked although the clock was set back")
}

func TestNewFails(t *testing.T) {
	t.Parallel()
	failure := errors.New("no")
	_, err := reload.New(reload.Options{Now: time.Now}, func([][]byte) (int, error) { return 0, failure })
	require.ErrorIs(t, err, failure)
	_, err = reload.New(reload.Options{Now: time.Now, Paths: []string{"nowhere"}}, func([][]byte) (int, error) { return 0, nil })
	require.ErrorIs(t, err, os.ErrNotExist)
}
