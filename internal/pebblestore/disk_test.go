package pebblestore_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// brokenDisk is a file system some of whose calls fail, after a number of calls, and for a number of calls.
type brokenDisk struct {
	vfs.FS
	errno syscall.Errno
	// tables is whether only calls about tables fail.
	tables        bool
	after, during atomic.Int64
}

// fail returns the error of a call about a file.
func (d *brokenDisk) fail(op, name string) error {
	if d.tables && !strings.HasSuffix(name, ".sst") || d.errno == syscall.EMFILE && op == "write" {
		return nil
	}
	if d.after.Add(-1) >= 0 || d.during.Add(-1) < 0 {
		return nil
	}
	return &os.PathError{Op: op, Path: name, Err: d.errno}
}

func (d *brokenDisk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.fail("create", name); err != nil {
		return nil, err
	}
	f, err := d.FS.Create(name, category)
	return brokenFile{f, d, name}, err
}

func (d *brokenDisk) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.fail("create", name); err != nil {
		return nil, err
	}
	f, err := d.FS.ReuseForWrite(old, name, category)
	return brokenFile{f, d, name}, err
}

func (d *brokenDisk) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if d.errno == syscall.EMFILE {
		if err := d.fail("open", name); err != nil {
			return nil, err
		}
	}
	return d.FS.Open(name, opts...)
}

type brokenFile struct {
	vfs.File
	disk *brokenDisk
	name string
}

func (f brokenFile) Write(p []byte) (int, error) {
	if err := f.disk.fail("write", f.name); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

// The environment of a child: see diskChild.
const diskVariable = "FANMAIL_TEST_DISK"

var faults = []syscall.Errno{syscall.ENOSPC, syscall.EROFS, syscall.EMFILE}

// TestBrokenDisk breaks the disk of a store in a process of its own. The process ends with a line that says why, or goes on when the disk is whole
// again. Afterwards all that it has accepted is there.
func TestBrokenDisk(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv(diskVariable); dir != "" {
		diskChild(t, dir)
		return
	}
	ended := 0
	for round := range diskRounds {
		for _, errno := range faults {
			if breakDisk(t, errno, uint64(round)) {
				ended++
			}
		}
	}
	t.Logf("%d of %d processes ended, the others went on", ended, diskRounds*len(faults))
}

// breakDisk runs a child, and reports whether it ended.
func breakDisk(t *testing.T, errno syscall.Errno, seed uint64) (ended bool) {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // so that a hanging child is killed, and its output shown
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestBrokenDisk$")
	child.Env = append(os.Environ(), diskVariable+"="+dir, fmt.Sprintf("%s_FAULT=%d %d", diskVariable, errno, seed))
	var log bytes.Buffer
	child.Stderr = &log
	out, err := child.Output()
	what := fmt.Sprintf("%v, seed %d, %d accepted:\n%s", errno, seed, bytes.Count(out, []byte("accepted ")), &log)
	require.NoError(t, ctx.Err(), what)
	require.NotContains(t, log.String(), "fatal error", what)
	if ended = err != nil; ended {
		require.Contains(t, log.String(), "the store cannot go on", what)
		require.Contains(t, log.String(), errno.Error(), what)
	} else {
		require.Contains(t, string(out), "went on", what)
	}
	db, err := pebblestore.Open(t.Context(), filepath.Join(dir, "store"), options(t, vfs.Default))
	require.NoError(t, err, what)
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		if text, is := strings.CutPrefix(lines.Text(), "accepted "); is {
			n, err := strconv.Atoi(text)
			require.NoError(t, err)
			_, err = db.Messages().Get(t.Context(), messagetest.Message(n, "ada").Ref())
			require.NoError(t, err, "%d was accepted: %s", n, what)
		}
	}
	require.NoError(t, db.Close())
	return ended
}

// diskChild writes to a store on a disk that breaks, and prints what was accepted, until it ends or has written enough after the disk was whole again.
func diskChild(t *testing.T, dir string) {
	t.Helper()
	var seed uint64
	disk := &brokenDisk{FS: vfs.Default}
	_, err := fmt.Sscan(os.Getenv(diskVariable+"_FAULT"), &disk.errno, &seed)
	require.NoError(t, err)
	disk.after.Store(1 << 40)
	opts := options(t, disk)
	opts.MemTableBytes, opts.Logger = 64<<10, zerolog.New(os.Stderr)
	db, err := pebblestore.Open(t.Context(), filepath.Join(dir, "store"), opts)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(seed, uint64(disk.errno)))
	disk.tables = rng.IntN(2) == 0
	disk.during.Store(1 + rng.Int64N(4))
	disk.after.Store(rng.Int64N(200))
	var last atomic.Int64
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for more := 100; more > 0; {
				n := int(last.Add(1))
				m := messagetest.Message(n, "ada")
				m.Body = fmt.Sprintf("%x", messagetest.ID(n)) + strings.Repeat("x", 4<<10)
				err := panics.Do(func() error { // as the callers of the store do
					_, err := db.Inbox().Push(t.Context(), []bucket.Push{{Owner: "bob", Entries: []bucket.Entry{bucket.EntryOf(m)}}})
					_, inserting := db.Messages().Insert(t.Context(), []message.Message{m}, messagetest.AnyTime)
					return errors.Join(err, inserting)
				})
				if err == nil {
					fmt.Println("accepted", n)
				}
				if disk.during.Load() <= 0 {
					more--
				}
			}
		})
	}
	writers.Wait()
	require.NoError(t, db.Close())
	fmt.Println("went on")
}

// An unsynced write meets the failed log first. With the lock of Pebble held, all later writes would wait permanently.
func TestUnsyncedWriteToAFullDisk(t *testing.T) {
	t.Parallel()
	if os.Getenv(diskVariable) != "" {
		disk := &brokenDisk{FS: vfs.NewMem(), errno: syscall.ENOSPC}
		disk.after.Store(1 << 40)
		opts := options(t, disk)
		opts.Logger = zerolog.New(os.Stderr)
		db, err := pebblestore.Open(t.Context(), "store", opts)
		require.NoError(t, err)
		disk.during.Store(1)
		disk.after.Store(0)
		for n := range 200 {
			m := messagetest.Message(n+1, "ada")
			m.Body = strings.Repeat("x", 4<<10)
			_ = panics.Do(func() error {
				_, err := db.Inbox().Push(t.Context(), []bucket.Push{{Owner: "bob", Entries: []bucket.Entry{bucket.EntryOf(m)}}})
				return err
			})
		}
		_, err = db.Messages().Insert(t.Context(), []message.Message{messagetest.Message(1, "ada")}, messagetest.AnyTime)
		t.Log("survived", err)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.v", "-test.run=^TestUnsyncedWriteToAFullDisk$")
	child.Env = append(os.Environ(), diskVariable+"=memory")
	out, err := child.CombinedOutput()
	require.NoError(t, ctx.Err(), "it hangs: %s", out)
	require.Error(t, err, "%s", out)
	require.Contains(t, string(out), "the store cannot go on")
	require.Contains(t, string(out), syscall.ENOSPC.Error())
	require.NotContains(t, string(out), "survived")
}

// While flushes fail, each is followed by a pause before the next one creates a table.
func TestFailingFlushesPause(t *testing.T) {
	t.Parallel()
	disk := &brokenDisk{FS: vfs.NewMem(), errno: syscall.ENOSPC, tables: true}
	disk.after.Store(1 << 40)
	opts := options(t, disk)
	var log bytes.Buffer
	opts.Logger = zerolog.New(&log)
	db, err := pebblestore.Open(t.Context(), "store", opts)
	require.NoError(t, err)
	pauses := 0
	db.OnPause(func() { pauses++ })
	_, err = db.Messages().Insert(t.Context(), []message.Message{messagetest.Message(1, "ada")}, messagetest.AnyTime)
	require.NoError(t, err)
	disk.during.Store(30)
	disk.after.Store(0)
	require.NoError(t, db.Engine().Flush())
	require.NoError(t, db.Close())
	require.Equal(t, 30, pauses)
	require.Equal(t, 1, strings.Count(log.String(), "the store failed to write in the background"))
}
