// Package backup saves a running deployment on the embedded store to a folder, and restores it.
//
// A backup has the streams of logins and of dead letters, and then the store as it is at one moment. The store knows all other work. The
// streams come first, and no dead letter is filed or removed until the store is saved. Otherwise the store could know of a letter that the
// backup lacks. A letter of which the store does not know is harmless, because redriving can be repeated.
package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

var (
	// ErrRunning means that another backup is under way.
	ErrRunning = errors.New("another backup is under way: wait until it has ended")
	// ErrNowhere means that no folder is configured for backups.
	ErrNowhere = errors.New("backup.dir is not set on the server: backups are written only below it")
	// ErrNoBackup means that a folder holds no complete backup.
	ErrNoBackup = errors.New("is not a complete backup")
	// ErrNotEmpty means that there are files where a backup is to be restored.
	ErrNotEmpty = errors.New("is not empty: restore to a new folder")
)

// The parts of a backup.
const (
	storeName   = "store"
	streamsName = "streams"
	// completeName is a file that is written last.
	completeName = "backup.json"
)

// version is the version of the format of backups.
const version = 1

// complete is the content of the file that says that a backup is complete.
type complete struct {
	Version int       `json:"v"`
	At      time.Time `json:"at"`
}

// Bus saves streams. Save saves them to files in dir, and then calls store before a dead letter is filed or removed.
type Bus interface {
	Save(ctx context.Context, dir string, store func() error) error
}

// Store saves itself to a new folder. It returns how long the slowest write took meanwhile.
type Store interface {
	Checkpoint(ctx context.Context, dir string) (longestPause time.Duration, err error)
}

// Service makes backups. It is safe for concurrent use.
type Service struct {
	bus   Bus
	store Store
	data  string // the data folder of the process
	below string // the folder that backups are written below, or empty
	now   func() time.Time

	running sync.Mutex
}

// New returns a service that saves a bus and a store whose data are in a folder. It writes backups only below another folder; if that is
// empty, it makes none.
func New(bus Bus, store Store, data, below string, now func() time.Time) *Service {
	return &Service{bus: bus, store: store, data: data, below: below, now: now}
}

// Save makes a backup in a folder, which is created or must be empty, and returns how long the slowest write took meanwhile. Everything
// that was answered before the call is in the backup. The error is a *message.InvalidError if no backup can be in the folder, or wraps
// ErrRunning or ErrNowhere. After every error the folder is empty again.
func (s *Service) Save(ctx context.Context, dir string) (longestPause time.Duration, err error) {
	if s.below == "" {
		return 0, ErrNowhere
	}
	if !s.running.TryLock() {
		return 0, ErrRunning
	}
	defer s.running.Unlock()
	if dir, err = s.claim(dir); err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, storeName)), os.RemoveAll(filepath.Join(dir, streamsName)))
		}
	}()
	streams := filepath.Join(dir, streamsName)
	if err := os.Mkdir(streams, 0o700); err != nil {
		return 0, fmt.Errorf("backup: %w", err)
	}
	err = s.bus.Save(ctx, streams, func() (err error) {
		longestPause, err = s.store.Checkpoint(ctx, filepath.Join(dir, storeName))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("backup: %w", err)
	}
	if err := s.complete(dir); err != nil {
		return 0, fmt.Errorf("backup: %w", err)
	}
	return longestPause, nil
}

// claim creates a folder for a backup, or checks that it is empty. It returns the folder's clean path.
func (s *Service) claim(dir string) (string, error) {
	invalid := func(reason string) (string, error) { return "", &message.InvalidError{Field: "dir", Reason: reason} }
	if !filepath.IsAbs(dir) {
		return invalid("is not an absolute path of a folder on the server")
	}
	dir = filepath.Clean(dir)
	if below := filepath.Clean(s.below); dir == below || !within(dir, below) {
		return invalid("is not below backup.dir, which is " + below)
	}
	data, err := filepath.Abs(s.data)
	if err != nil {
		return "", err
	}
	if within(dir, data) || within(data, dir) {
		return invalid("is in the data folder of the server, or has it: give another folder")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return invalid("cannot be created on the server: " + err.Error())
	}
	there, err := os.ReadDir(dir)
	switch {
	case err != nil:
		return invalid("cannot be read on the server: " + err.Error())
	case len(there) > 0:
		return invalid("is not empty on the server: give an empty folder, or one that does not exist")
	}
	return dir, nil
}

// within reports whether a clean path is a folder or in it.
func within(path, folder string) bool {
	relative, err := filepath.Rel(folder, path)
	return err == nil && relative != ".." && !strings.HasPrefix(relative, ".."+string(filepath.Separator))
}

// complete writes the file that says that a backup is complete, when everything else is on the disk.
func (s *Service) complete(dir string) error {
	text, err := json.Marshal(complete{Version: version, At: s.now().UTC()})
	if err != nil {
		return err
	}
	path := filepath.Join(dir, completeName)
	err = errors.Join(syncPath(filepath.Join(dir, streamsName)), syncPath(dir))
	if err == nil {
		err = os.WriteFile(path+".new", append(text, '\n'), 0o600)
	}
	if err == nil {
		err = syncPath(path + ".new")
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err == nil {
		err = syncPath(dir)
	}
	return err
}

// syncPath syncs a file or a folder.
func syncPath(path string) error {
	file, err := os.Open(path) //nolint:gosec // the operator names the folder
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// Restore copies the backup in a folder to a data folder. It creates the data folder; an existing one must be empty. streams restores the
// saved streams from their folder into a new data folder. The error wraps ErrNoBackup or ErrNotEmpty. The files appear in the data folder
// at the end. After an error the data folder is empty.
func Restore(dir, data string, streams func(saved, data string) error) error {
	if err := check(dir); err != nil {
		return fmt.Errorf("restore %s: %w", dir, err)
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	there, err := os.ReadDir(data)
	if err == nil && len(there) > 0 {
		err = fmt.Errorf("%s %w", data, ErrNotEmpty)
	}
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	growing, err := os.MkdirTemp(data, "restoring-") // in the data folder, which may be a disk of its own
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	err = os.CopyFS(filepath.Join(growing, storeName), os.DirFS(filepath.Join(dir, storeName)))
	if err == nil {
		err = streams(filepath.Join(dir, streamsName), growing)
	}
	if err == nil {
		err = moveSynced(growing, data)
	}
	if err = errors.Join(err, os.RemoveAll(growing)); err != nil {
		return fmt.Errorf("restore to %s: %w", data, err)
	}
	return nil
}

// moveSynced syncs what is in a folder, and moves it to another one on the same disk. The names are in order, so
// the store comes last.
func moveSynced(from, to string) error {
	err := filepath.WalkDir(from, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncPath(path)
	})
	if err != nil {
		return err
	}
	parts, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, part := range parts {
		if err := os.Rename(filepath.Join(from, part.Name()), filepath.Join(to, part.Name())); err != nil {
			return err
		}
	}
	return syncPath(to)
}

// check returns an error that wraps ErrNoBackup if a folder has no complete backup of a known version.
func check(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, completeName)) //nolint:gosec // the operator names the folder
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoBackup, err)
	}
	var found complete
	if err := json.Unmarshal(text, &found); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNoBackup, completeName, err)
	}
	if found.Version != version {
		return fmt.Errorf("%w that this release knows: its version is %d, not %d", ErrNoBackup, found.Version, version)
	}
	return nil
}
