package backup_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/backup"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// folders is a bus and a store that save one file each. The store fails with err, after it has written the file.
type folders struct {
	err error
	// meanwhile is called while the store is saved; it may be nil.
	meanwhile func()
}

func (f folders) Save(_ context.Context, dir string, store func() error) error {
	if err := os.WriteFile(filepath.Join(dir, "stream"), []byte("letters"), 0o600); err != nil {
		return err
	}
	return store()
}

func (f folders) Checkpoint(_ context.Context, dir string) (time.Duration, error) {
	if f.meanwhile != nil {
		f.meanwhile()
	}
	return time.Millisecond, errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "table"), []byte("inboxes"), 0o600), f.err)
}

var at = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func service(f folders, data string) *backup.Service {
	return backup.New(f, f, data, "/", func() time.Time { return at })
}

func listed(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// restore restores a backup; the streams become one file.
func restore(dir, data string) error {
	return backup.Restore(dir, data, func(saved, data string) error {
		return os.CopyFS(filepath.Join(data, "nats"), os.DirFS(saved))
	})
}

func TestSaveAndRestore(t *testing.T) {
	t.Parallel()
	for name, there := range map[string]bool{"folders that do not exist": false, "empty folders": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, data := filepath.Join(t.TempDir(), "some", "backup"), filepath.Join(t.TempDir(), "data")
			if there {
				dir, data = t.TempDir(), t.TempDir()
			}
			longestPause, err := service(folders{}, t.TempDir()).Save(t.Context(), dir)
			require.NoError(t, err)
			require.Equal(t, time.Millisecond, longestPause)
			require.Equal(t, []string{"backup.json", "store", "streams"}, listed(t, dir))
			text, err := os.ReadFile(filepath.Join(dir, "backup.json"))
			require.NoError(t, err)
			require.JSONEq(t, `{"v":1,"at":"2026-11-01T12:00:00Z"}`, string(text))

			require.NoError(t, restore(dir, data))
			require.Equal(t, []string{"nats", "store"}, listed(t, data))
			for path, want := range map[string]string{"store/table": "inboxes", "nats/stream": "letters"} {
				text, err := os.ReadFile(filepath.Join(data, path))
				require.NoError(t, err)
				require.Equal(t, want, string(text))
			}
			require.Equal(t, []string{"backup.json", "store", "streams"}, listed(t, dir), "the backup stays")
		})
	}
}

// A folder in which no backup can be is refused, and nothing changes.
func TestSaveRefuses(t *testing.T) {
	t.Parallel()
	data, full := t.TempDir(), t.TempDir()
	file := filepath.Join(full, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, test := range map[string]struct{ dir, reason string }{
		"backup.dir":           {"/x/..", "is not below backup.dir, which is /"},
		"no path":              {"", "is not an absolute path"},
		"relative":             {"backup", "is not an absolute path"},
		"the data folder":      {data, "is in the data folder"},
		"in the data folder":   {filepath.Join(data, "a", "..", "backup"), "is in the data folder"},
		"has the data folder":  {filepath.Dir(data), "is in the data folder"},
		"not empty":            {full, "is not empty"},
		"a file":               {file, "cannot be created"},
		"in a file":            {filepath.Join(file, "backup"), "cannot be created"},
		"beside the data, ..x": {filepath.Join(data, "..", "..x", ".."), "is in the data folder"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := service(folders{}, data).Save(t.Context(), test.dir)
			invalid, ok := errors.AsType[*message.InvalidError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, "dir", invalid.Field)
			require.Contains(t, invalid.Reason, test.reason)
			require.Empty(t, listed(t, data))
			require.Equal(t, []string{"file"}, listed(t, full))
		})
	}
}

// A backup is written below one folder and nowhere else.
func TestSaveBelow(t *testing.T) {
	t.Parallel()
	below, elsewhere := t.TempDir(), t.TempDir()
	save := func(below, dir string) error {
		_, err := backup.New(folders{}, folders{}, t.TempDir(), below, func() time.Time { return at }).Save(t.Context(), dir)
		return err
	}
	for _, dir := range []string{below, below + "x", elsewhere, filepath.Join(below, "a") + "/../../" + filepath.Base(elsewhere) + "/a", "/"} {
		require.ErrorContains(t, save(below, dir), "is not below backup.dir, which is "+below, dir)
	}
	require.Empty(t, append(listed(t, elsewhere), listed(t, below)...))
	require.ErrorIs(t, save("", elsewhere), backup.ErrNowhere)
	require.NoError(t, save(below+"/", filepath.Join(below, "a", "b")))
}

// A backup that fails leaves an empty folder, in which the next one can be made.
func TestSaveFails(t *testing.T) {
	t.Parallel()
	dir, full := t.TempDir(), errors.New("no space left on device")
	_, err := service(folders{err: full}, t.TempDir()).Save(t.Context(), dir)
	require.ErrorIs(t, err, full)
	require.Empty(t, listed(t, dir))
	_, err = service(folders{}, t.TempDir()).Save(t.Context(), dir)
	require.NoError(t, err)
}

func TestOneSaveAtATime(t *testing.T) {
	t.Parallel()
	var s *backup.Service
	var second error
	s = service(folders{meanwhile: func() {
		_, second = s.Save(t.Context(), filepath.Join(t.TempDir(), "second"))
	}}, t.TempDir())
	_, err := s.Save(t.Context(), filepath.Join(t.TempDir(), "first"))
	require.NoError(t, err)
	require.ErrorIs(t, second, backup.ErrRunning)
}

// What is no complete backup is not restored, nor is a backup over other data. Nothing changes then.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	whole := t.TempDir()
	_, err := service(folders{}, t.TempDir()).Save(t.Context(), whole)
	require.NoError(t, err)
	taken := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(taken, "file"), nil, 0o600))
	require.ErrorIs(t, restore(whole, taken), backup.ErrNotEmpty)
	require.Equal(t, []string{"file"}, listed(t, taken))

	for name, text := range map[string]string{"of a newer release": `{"v":2}`, "unreadable": "{", "not complete": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
			if text != "" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "backup.json"), []byte(text), 0o600))
			}
			require.ErrorIs(t, restore(dir, data), backup.ErrNoBackup)
			require.NoDirExists(t, data)
		})
	}
}

// A restore that fails leaves an empty data folder.
func TestRestoreFails(t *testing.T) {
	t.Parallel()
	whole, data := t.TempDir(), t.TempDir()
	_, err := service(folders{}, t.TempDir()).Save(t.Context(), whole)
	require.NoError(t, err)
	broken := errors.New("the server does not start")
	require.ErrorIs(t, backup.Restore(whole, data, func(string, string) error { return broken }), broken)
	require.Empty(t, listed(t, data))
	require.NoError(t, os.RemoveAll(filepath.Join(whole, "store")))
	require.ErrorIs(t, restore(whole, data), fs.ErrNotExist)
	require.Empty(t, listed(t, data))
}
