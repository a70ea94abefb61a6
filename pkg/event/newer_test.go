package event_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/event"
)

// newer returns an encoded event of a future release.
func newer(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "newer", file))
	require.NoError(t, err)
	return []byte(strings.TrimSuffix(string(text), "\n"))
}

// TestNewerVersion refuses events of a later version with ErrNewer, even if their fields have other types.
func TestNewerVersion(t *testing.T) {
	t.Parallel()
	for file, decode := range map[string]func([]byte) error{
		"published.version.json":   func(b []byte) error { _, err := event.DecodePublished(b); return err },
		"task.version.json":        func(b []byte) error { _, err := event.DecodeTask(b); return err },
		"login.version.json":       func(b []byte) error { _, err := event.DecodeLogin(b); return err },
		"rehydrated.version.json":  func(b []byte) error { _, err := event.DecodeRehydrated(b); return err },
		"dead-letter.version.json": func(b []byte) error { _, err := event.DecodeDeadLetter(b); return err },
	} {
		err := decode(newer(t, file))
		require.ErrorIs(t, err, event.ErrNewer, file)
		require.ErrorIs(t, err, event.ErrMalformed, "a caller that checks only ErrMalformed refuses the event too")
		require.ErrorContains(t, err, "format version is 2, this program reads 1")
	}
}

// TestOlderIsNotNewer requires that no malformed event of this or an older version is an ErrNewer.
func TestOlderIsNotNewer(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"v":0}`, `{}`, `{"v":"2"}`, `{"v":-1}`, `{"v":1,"id":7}`, `{"v":2`, `[2]`} {
		_, err := event.DecodeTask([]byte(text))
		require.ErrorIs(t, err, event.ErrMalformed, text)
		require.NotErrorIs(t, err, event.ErrNewer, text)
	}
}
