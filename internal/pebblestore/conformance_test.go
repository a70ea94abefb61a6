package pebblestore_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/fanmail/fanmail/pkg/follow/followtest"
	"github.com/fanmail/fanmail/pkg/message/messagetest"
	"github.com/fanmail/fanmail/pkg/progress/progresstest"
	"github.com/fanmail/fanmail/pkg/userstate/userstatetest"
)

// The conformance suites reopen what a crash leaves behind: only what was synced.

func TestMessageConformance(t *testing.T) {
	t.Parallel()
	messagetest.Run(t, func(t *testing.T) messagetest.Harness { return messageHarness(t, vfs.NewCrashableMem()) })
}

func messageHarness(t *testing.T, files *vfs.MemFS) messagetest.Harness {
	db := open(t, files)
	return messagetest.Harness{
		Messages: db.Messages(), Keys: db.Keys(),
		Reopen: func(t *testing.T) messagetest.Harness { return messageHarness(t, crash(files)) },
	}
}

func TestUserStateConformance(t *testing.T) {
	t.Parallel()
	userstatetest.Run(t, func(t *testing.T) userstatetest.Harness { return userHarness(t, vfs.NewCrashableMem()) })
}

func userHarness(t *testing.T, files *vfs.MemFS) userstatetest.Harness {
	return userstatetest.Harness{
		Store: open(t, files).Users(), Partitions: partitions,
		Reopen: func(t *testing.T) userstatetest.Harness { return userHarness(t, crash(files)) },
	}
}

func TestFollowConformance(t *testing.T) {
	t.Parallel()
	followtest.Run(t, func(t *testing.T) followtest.Harness { return followHarness(t, vfs.NewCrashableMem()) })
}

func followHarness(t *testing.T, files *vfs.MemFS) followtest.Harness {
	return followtest.Harness{
		Store: open(t, files).Edges(), Partitions: partitions,
		Reopen: func(t *testing.T) followtest.Harness { return followHarness(t, crash(files)) },
	}
}

func TestProgressConformance(t *testing.T) {
	t.Parallel()
	progresstest.Run(t, func(t *testing.T) progresstest.Harness { return progressHarness(t, vfs.NewCrashableMem()) })
}

func progressHarness(t *testing.T, files *vfs.MemFS) progresstest.Harness {
	return progresstest.Harness{
		Store: open(t, files).Progress(), Partitions: partitions,
		Reopen: func(t *testing.T) progresstest.Harness { return progressHarness(t, crash(files)) },
	}
}
