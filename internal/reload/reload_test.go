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
	reads, away := 0, false
	write("one")
	v, err := reload.New(
		reload.Options{Name: "words", Paths: []string{path}, Now: func() time.Time { return now }, Logger: zerolog.New(&log)},
		func() (string, error) {
			reads++
			if away {
				return "", errors.New("no descriptor is left")
			}
			content, err := os.ReadFile(path)
			if string(content) == "bad" {
				err = errors.New("a bad word")
			}
			return string(content), err
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

	write("five!")
	away = true
	now = now.Add(reload.Every)
	require.Equal(t, "three", v.Get())
	away = false
	now = now.Add(reload.Every)
	require.Equal(t, "five!", v.Get(), "the files are read again after a failure, although they have not changed")
	write("three")
	now = now.Add(reload.Every)
	require.Equal(t, "three", v.Get())

	require.NoError(t, os.Remove(path))
	now = now.Add(reload.Every)
	require.Equal(t, "three", v.Get())
	write("four")
	now = now.Add(-time.Hour)
	require.Equal(t, "four", v.Get(), "the files are checked although the clock was set back")
}

func TestNewFails(t *testing.T) {
	t.Parallel()
	failure := errors.New("no")
	_, err := reload.New(reload.Options{Now: time.Now}, func() (int, error) { return 0, failure })
	require.ErrorIs(t, err, failure)
}
