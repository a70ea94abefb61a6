package e2e_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/testenv"
)

// recording is what test/upgrade has written beside a store that an earlier release filled.
type recording struct {
	Settings map[string]string
	Keyed    []struct {
		Key   string
		Draft message.Draft
		ID    message.ID
	}
	Before   json.RawMessage
	LoggedIn json.RawMessage `json:"logged_in"`
	Redriven json.RawMessage
}

// TestUpgrade runs today's release on stores of the last releases of the earlier format levels, in which users, fan-outs and rehydrations
// are in every state. Clients see what they saw in that release: before the upgrade, after it, after all users have logged in, and after
// the dead letters were redriven.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	for _, on := range everyStoreLeft() {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			for _, test := range []struct {
				name   string
				level  string
				atOnce bool
			}{
				{"level 1, after the unfinished work", "level1", false},
				{"level 1, before the unfinished work", "level1", true},
				{"level 2, after the unfinished work", "level2", false},
			} {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					ctx := bounded(t, 10*time.Minute)
					w, recorded := earlier(ctx, t, on, test.level)
					pending, running := w.inFlight(ctx)
					marked, swept := w.rehydrating(ctx)
					gaps, inThem := w.gaps(ctx)
					t.Logf("%d fan-outs not begun, %d unfinished; %d marks, %d sweeps; %d gaps with %d messages", pending, running, len(marked), len(swept), gaps, inThem)
					for _, n := range []int{pending, running, len(marked), len(swept), gaps} {
						require.Positive(t, n)
					}

					server := w.start(ctx)
					c := w.client()
					_, err := c.ChangeSetting(ctx, "dormant_after", client.SettingChange{Value: "720h", DryRun: true})
					if test.level == "level1" { // settings are recorded from level 2 on
						requireUpgradeNeeded(t, err)
					}
					_, err = c.Purge(ctx, "active-00", client.Purge{Until: client.Time{Time: time.Now().Add(-time.Hour)}, DryRun: true})
					requireUpgradeNeeded(t, err)
					if !test.atOnce {
						require.JSONEq(t, string(recorded.Before), w.look(ctx, "look"))
					}
					w.fanmail(ctx, "admin", "upgrade", "--yes")
					settings, err := c.Settings(ctx)
					require.NoError(t, err)
					for _, s := range settings {
						require.Equal(t, s.Configured, s.Recorded, s.Key)
					}
					require.JSONEq(t, string(recorded.Before), w.look(ctx, "look"))
					server.Stop(ctx)

					server = w.start(ctx)
					for _, keyed := range recorded.Keyed {
						receipt, err := c.Publish(ctx, keyed.Draft, keyed.Key)
						require.NoError(t, err)
						require.Equal(t, keyed.ID, receipt.ID, "the key is forgotten")
					}
					require.JSONEq(t, string(recorded.LoggedIn), w.look(ctx, "login"))
					if recorded.Redriven != nil {
						w.fanmail(ctx, "dlq", "redrive", "--all")
						require.JSONEq(t, string(recorded.Redriven), w.look(ctx, "look"))
					}
					w.requireSoundInboxes(ctx)
					w.useWhatIsNew(ctx)
					w.requireSoundInboxes(ctx)
					server.Stop(ctx)
				})
			}
		})
	}
}

func requireUpgradeNeeded(t *testing.T, err error) {
	t.Helper()
	problem, ok := errors.AsType[*client.Problem](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, client.ProblemUpgrade, problem.Type)
}

// useWhatIsNew uses what came after the earlier release, on inboxes with several buckets, gaps, deletions and read marks.
func (w *world) useWhatIsNew(ctx context.Context) {
	w.Helper()
	c := w.client()
	_, err := c.ChangeSetting(ctx, "inbox.bucket_size", client.SettingChange{Value: "7"})
	require.NoError(w, err)
	for _, user := range []message.UserID{"active-00", "active-07", "dormant-00", "dormant-03", "dormant-04", "stranger-0"} {
		before := w.inbox(ctx, user, client.InboxOptions{Peek: true})
		until := before[len(before)/2].Sent
		var kept []client.InboxMessage
		for _, m := range before {
			if m.Sent.After(until.Time) {
				kept = append(kept, m)
			}
		}
		for _, want := range []int{len(before) - len(kept), 0} {
			purged, err := c.Purge(ctx, user, client.Purge{Until: until})
			require.NoError(w, err)
			require.EqualValues(w, want, purged, "%s", user)
		}
		require.Equal(w, kept, w.inbox(ctx, user, client.InboxOptions{Peek: true}), "%s", user)
		require.Empty(w, w.inbox(ctx, user, client.InboxOptions{Peek: true, Until: until.Time}), "%s", user)

		const many = 60 // buckets of the old and of the new size
		drafts := make([]message.Draft, many)
		for i := range drafts {
			drafts[i] = message.Draft{From: "active-01", To: []message.UserID{user}, Body: strconv.Itoa(i)}
		}
		answers, err := c.PublishBatch(ctx, drafts, "")
		require.NoError(w, err)
		for _, answer := range answers {
			require.NoError(w, answer.Err)
			_, err = c.WaitDone(ctx, answer.ID, 0)
			require.NoError(w, err)
		}
		all := w.inbox(ctx, user, client.InboxOptions{Peek: true, Limit: 9})
		require.Len(w, all, many+len(kept), "%s", user)
		require.Equal(w, kept, all[many:], "%s", user)
		require.Equal(w, all[:many], w.inbox(ctx, user, client.InboxOptions{Peek: true, Since: all[many-1].Sent.Time}), "%s", user)
		page, err := c.Inbox(ctx, user, client.InboxOptions{Peek: true})
		require.NoError(w, err)
		require.EqualValues(w, len(all), page.Total, "%s", user)
	}
	w.expire(ctx)
}

// expire lets one inbox keep few messages, and then all of them none that the earlier release had.
func (w *world) expire(ctx context.Context) {
	w.Helper()
	c, user := w.client(), message.UserID("active-07")
	old := time.Now().Add(-time.Hour)
	young := slices.DeleteFunc(w.inbox(ctx, user, client.InboxOptions{Peek: true}), func(m client.InboxMessage) bool { return m.Sent.Before(old) })
	require.NoError(w, c.SetRetention(ctx, user, client.Retention{Newest: 1}))
	left := w.inbox(ctx, user, client.InboxOptions{Peek: true})
	require.NotEmpty(w, left)
	require.LessOrEqual(w, len(left), len(young))
	require.Equal(w, young[:len(left)], left)
	for _, gone := range young[len(left):] {
		require.True(w, gone.Sent.Before(time.Now().Add(-time.Minute)), "others of the last minutes may still arrive, so these stay")
	}
	require.NoError(w, c.DeleteRetention(ctx, user))

	kept := make(map[message.UserID][]client.InboxMessage)
	for _, user := range []message.UserID{"active-00", user, "dormant-00", "dormant-05"} {
		kept[user] = nil
		for _, m := range w.inbox(ctx, user, client.InboxOptions{Peek: true}) {
			if m.Sent.After(old) {
				kept[user] = append(kept[user], m)
			}
		}
	}
	_, err := c.ChangeSetting(ctx, "retention.max_age", client.SettingChange{Value: "1h", Confirm: true})
	require.NoError(w, err)
	testenv.Eventually(ctx, w.T, "what is old has expired", func() bool {
		status, err := c.RetentionStatus(ctx)
		require.NoError(w, err)
		return status.LowWater != nil && status.LowWater.Time().After(old)
	})
	for user, messages := range kept {
		require.Equal(w, messages, w.inbox(ctx, user, client.InboxOptions{Peek: true}), "%s", user)
	}
}

// inbox returns all messages of an inbox, newest first.
func (w *world) inbox(ctx context.Context, user message.UserID, opts client.InboxOptions) (all []client.InboxMessage) {
	w.Helper()
	for m, err := range w.client().InboxAll(ctx, user, opts) {
		require.NoError(w, err)
		all = append(all, m)
	}
	return all
}

// earlier returns a world with a store that an earlier release filled.
func earlier(ctx context.Context, t *testing.T, on store, level string) (*world, recording) {
	t.Helper()
	archive, err := filepath.Abs(filepath.Join("..", "upgrade", level, "embedded"))
	require.NoError(t, err)
	if on != embedded {
		archive = filepath.Join(filepath.Dir(archive), "mongodb")
	}
	file, err := os.Open(archive + ".json.gz")
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	unpacked, err := gzip.NewReader(bufio.NewReader(file))
	require.NoError(t, err)
	var recorded recording
	require.NoError(t, json.NewDecoder(unpacked).Decode(&recorded))

	settings := impatient(map[string]string{"rehydrate.lease": "4s", "rehydrate.reap_every": "500ms", "retention.every": "1s"})
	maps.Copy(settings, recorded.Settings)
	site := testenv.NewSite(t, settings)
	if on == embedded {
		testenv.Run(ctx, t, programs.Upgrade, "load", "--archive", archive+".tar.gz", "--data", site.Data)
	} else {
		uri, database := testenv.MongoDB(t)
		testenv.Run(ctx, t, programs.Upgrade, "load", "--archive", archive+".ndjson.gz", "--mongodb-uri", uri, "--mongodb-database", database)
		site.UseMongoDB(ctx, t, programs.Fanmail, uri, database)
	}
	return &world{T: t, site: site, on: on, programs: programs, dir: t.TempDir()}, recorded
}

// look returns what clients see when all work is done: with "login", after a login of all users.
func (w *world) look(ctx context.Context, command string) string {
	w.Helper()
	return testenv.Run(ctx, w.T, programs.Upgrade, command, "--server", w.site.URL())
}
