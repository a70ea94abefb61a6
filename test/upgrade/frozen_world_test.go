//go:build older

package main

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/testenv"
)

// frozen is the world of TestFrozenDuringUpgrade.
type frozen struct {
	*testing.T
	folder   string // of the earlier programs
	programs testenv.Binaries
	settings map[string]string
	db       *mongostore.DB

	dir       string   // of the files below, which are for the checker
	users     string   // when users were last seen
	follows   string   // the first edges
	unlogged  string   // who logged in at the earlier rehydrator
	published []string // what was published, a file for each call of publish
	drafts    int
}

// older returns the path of an earlier program.
func (w *frozen) older(program string) string { return filepath.Join(w.folder, program) }

// open opens the database for the looks of the test itself.
func (w *frozen) open(ctx context.Context, uri, database string) {
	w.Helper()
	partitions, err := strconv.Atoi(w.settings["partitions"])
	require.NoError(w, err)
	w.db, err = mongostore.Open(ctx, mongostore.Options{
		URI: uri, Database: database, Partitions: partitions, Timeout: time.Minute, Now: time.Now, Logger: zerolog.Nop(),
	})
	require.NoError(w, err)
	w.Cleanup(func() { require.NoError(w, w.db.Close()) })
}

func (w *frozen) write(path, text string) {
	w.Helper()
	require.NoError(w, os.WriteFile(path, []byte(text), 0o600))
}

func (w *frozen) read(path string) string {
	w.Helper()
	text, err := os.ReadFile(path)
	require.NoError(w, err)
	return string(text)
}

// publish publishes the lines of a text, and returns the ids of the messages, ascending.
func (w *frozen) publish(ctx context.Context, publisher *process, text string) (ids []message.ID) {
	w.Helper()
	n := strconv.Itoa(len(w.published))
	file, log := filepath.Join(w.dir, "lines-"+n), filepath.Join(w.dir, "published-"+n)
	w.write(file, text)
	testenv.Run(ctx, w.T, w.programs.Driver, "publish", "--server", publisher.site.URL(), "--file", file, "--log", log, "--connections", "4")
	w.published = append(w.published, log)
	return w.idsIn(log)
}

// idsIn returns the ids of the messages in a log, ascending.
func (w *frozen) idsIn(log string) (ids []message.ID) {
	w.Helper()
	for line := range strings.Lines(w.read(log)) {
		var m struct{ ID message.ID }
		require.NoError(w, json.Unmarshal([]byte(line), &m))
		if !m.ID.IsZero() {
			ids = append(ids, m.ID)
		}
	}
	slices.SortFunc(ids, message.ID.Compare)
	return ids
}

// await waits until the fan-out of all messages is done, and recorded as finished.
func (w *frozen) await(ctx context.Context, publisher *process) {
	w.Helper()
	for _, log := range w.published {
		for _, id := range w.idsIn(log) {
			_, err := publisher.client.WaitDone(ctx, id, 0)
			require.NoError(w, err)
		}
	}
	testenv.Eventually(ctx, w.T, "all messages are recorded as finished", func() bool { return len(w.unfinished(ctx)) == 0 })
}

// unfinished returns the messages whose fan-out is not recorded as finished, ascending.
func (w *frozen) unfinished(ctx context.Context) (ids []message.ID) {
	w.Helper()
	refs, err := w.db.Messages().Unfinished(ctx, message.ID{}, math.MaxInt16)
	require.NoError(w, err)
	for _, ref := range refs {
		ids = append(ids, ref.ID)
	}
	slices.SortFunc(ids, message.ID.Compare)
	return ids
}

// those returns those of the users, who have to be ascending, whose state is one that is wanted.
func (w *frozen) those(ctx context.Context, users []message.UserID, wanted func(userstate.State) bool) (those []message.UserID) {
	w.Helper()
	states, err := userstate.States(w.db.Users().Lookup(ctx, users))
	require.NoError(w, err)
	for _, st := range states {
		if wanted(st) {
			those = append(those, st.User)
		}
	}
	return those
}

// entries returns how many entries of some messages are in inboxes.
func (w *frozen) entries(ctx context.Context, of []message.ID) (entries int) {
	w.Helper()
	wanted := make(map[message.ID]bool)
	for _, id := range of {
		wanted[id] = true
	}
	for _, user := range everybody() {
		buckets, err := w.db.Inbox().Range(ctx, user, 0, math.MaxUint32, math.MaxInt)
		require.NoError(w, err)
		for _, b := range buckets {
			for _, e := range b.Entries {
				if wanted[e.ID] {
					entries++
				}
			}
		}
	}
	return entries
}

// check lets all users log in, and requires that every inbox is right: by the checker and by the audit. It requires that there are no dead
// letters.
func (w *frozen) check(ctx context.Context, server *process) {
	w.Helper()
	log, url := filepath.Join(w.dir, "logins"), server.site.URL()
	who := filepath.Join(w.dir, "who")
	var names strings.Builder
	for _, user := range everybody() {
		names.WriteString(string(user) + "\n")
	}
	w.write(who, names.String())
	w.Logf("%s", testenv.Run(ctx, w.T, w.programs.Driver, "login", "--server", url, "--file", who, "--log", log, "--by", "either"))
	w.Logf("%s", testenv.Run(ctx, w.T, w.programs.Check, "--server", url, "--published", strings.Join(w.published, ","), "--users", w.users,
		"--follows", w.follows, "--logins", log, "--unlogged", w.unlogged, "--wait", "2m",
		"--dormant-after", w.settings["dormant_after"], "--settled-after", "16s", "--rehydrate-limit", "0"))
	code, report := audit(ctx, w.T, w.programs.Fanmail, server.site)
	require.Zero(w, code, report)
	w.Logf("audit: %s", report)
	w.requireNoLetters(ctx, server)
}
