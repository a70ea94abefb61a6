package main

import (
	"bytes"
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/app/embedded"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/verdict"
	"github.com/fanmail/fanmail/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// serve runs a server on a data folder while do does something with it.
func serve(t *testing.T, data string, do func(c *client.Client)) {
	t.Helper()
	serveWith(t, data, nil, do)
}

// slack is publish_slack, so long that no message is too late on a slow machine.
const slack = time.Hour

// serveWith is serve with wrapped parts. A task becomes a dead letter at its second panic.
func serveWith(t *testing.T, data string, wrap func(app.Parts) app.Parts, do func(c *client.Client)) {
	t.Helper()
	cfg := config.Default()
	cfg.Addr, cfg.Data = "127.0.0.1:0", data
	cfg.NATS.MaxPublished, cfg.NATS.MaxFanout, cfg.NATS.MaxLogin, cfg.NATS.MaxDLQ = 16*config.MiB, 16*config.MiB, 16*config.MiB, 16*config.MiB
	cfg.Fanout.MaxAttempts, cfg.PublishSlack = 2, slack
	cfg.Embedded.Cache, cfg.Embedded.Memtable = 8*config.MiB, 4*config.MiB
	server := app.New(cfg, app.Options{Embedded: embedded.Engines{}, Wrap: wrap, Logger: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)})
	require.NoError(t, server.Start(t.Context()))
	c, err := client.New(server.URL(), client.Options{})
	require.NoError(t, err)
	do(c)
	c.Close()
	require.NoError(t, server.Stop(context.WithoutCancel(t.Context())))
}

// audit audits all users. It returns the findings, and the numbers of found, repaired and remaining ones.
func audit(t *testing.T, c *client.Client, repair bool) (findings map[message.ID]verdict.Kind, summary verdict.Summary) {
	t.Helper()
	findings = make(map[message.ID]verdict.Kind)
	for line, err := range c.Audit(t.Context(), client.AuditOptions{Repair: repair}) {
		require.NoError(t, err)
		switch {
		case line.Finding != nil:
			findings[line.Finding.Message] = line.Finding.Kind
			require.Equal(t, message.UserID("ben"), line.Finding.User)
		case line.Summary != nil:
			summary = *line.Summary
		}
	}
	return findings, summary
}

func command(t *testing.T, args ...string) (code int, output string) {
	t.Helper()
	var out bytes.Buffer
	code = run(t.Context(), args, &out, &out)
	return code, out.String()
}

// TestAuditMendsWhatWasTamperedWith damages the folder of a real server, between two of its runs.
func TestAuditMendsWhatWasTamperedWith(t *testing.T) {
	t.Parallel()
	const messages = 70
	data := t.TempDir()
	ids := make([]message.ID, messages)
	serve(t, data, func(c *client.Client) {
		require.NoError(t, c.SetSeen(t.Context(), "ben", time.Now()))
		require.NoError(t, c.SetSeen(t.Context(), "dora", time.Now()))
		require.NoError(t, c.Follow(t.Context(), "ben", "ann"))
		require.NoError(t, c.Follow(t.Context(), "dora", "ann"))
		for i := range ids {
			receipt, err := c.Publish(t.Context(), message.Draft{From: "ann", Audience: message.AudienceFollowers, Body: strconv.Itoa(i)}, "")
			require.NoError(t, err)
			ids[i] = receipt.ID
		}
		for _, id := range ids {
			_, err := c.WaitDone(t.Context(), id, time.Millisecond)
			require.NoError(t, err)
		}
		code, output := command(t, "-data", data, "-user", "ben", "remove", ids[3].String())
		require.Equal(t, 1, code, "a server is running")
		require.Contains(t, output, "tamper: open the store in "+data)
	})
	newest := ids[messages-1]
	code, output := command(t, "-data", data, "-user", "ben", "remove", newest.String())
	require.Zero(t, code, output)
	require.Equal(t, "ben: remove "+newest.String()+"\n", output)
	code, output = command(t, "-data", data, "-user", "ben", "double", ids[10].String())
	require.Zero(t, code, output)

	serve(t, data, func(c *client.Client) {
		want := map[message.ID]verdict.Kind{newest: verdict.MissingEntry, ids[10]: verdict.DoubleEntry}
		found, summary := audit(t, c, false)
		require.Equal(t, want, found)
		require.Len(t, summary.Remaining, 2)
		explained, err := c.Explain(t.Context(), "ben", newest)
		require.NoError(t, err)
		require.Equal(t, verdict.Missing, explained.Verdict)

		found, summary = audit(t, c, true)
		require.Equal(t, want, found)
		require.Empty(t, summary.Remaining)
		found, summary = audit(t, c, false)
		require.Empty(t, found)
		require.Equal(t, []int64{2, 2 * messages, 2 * messages}, []int64{summary.Users, summary.Entries, summary.Expected})

		page, err := c.Inbox(t.Context(), "ben", client.InboxOptions{Limit: 200})
		require.NoError(t, err)
		require.EqualValues(t, messages, page.Total)
		require.Len(t, page.Messages, messages)
		for i, m := range page.Messages {
			require.Equal(t, ids[messages-1-i], m.ID)
			require.Equal(t, strconv.Itoa(messages-1-i), m.Body)
		}
	})
}

func TestUsage(t *testing.T) {
	t.Parallel()
	const id = "019b7ca9-8c88-7000-8000-000000000000"
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-help"}, 0, "tamper damages records of a user"},
		{nil, 2, "give -data or -mongodb-uri, -user, and what to do"},
		{[]string{"-data", "d", "-user", "a/b", "remove", id}, 2, "user contains '/'"},
		{[]string{"-data", "d", "-user", "ben", "lose", "x"}, 2, "invalid syntax"},
		{[]string{"-data", t.TempDir() + "/none", "-user", "ben", "spoil"}, 1, "does not exist"},
		{[]string{"-data", "d", "-user", "ben", "remove", "7"}, 2, "id is not a UUID"},
		{[]string{"-data", "d", "-user", "ben", "hide", id}, 2, `"hide" is not something that it does`},
		{[]string{"-data", t.TempDir() + "/none", "-user", "ben", "remove", id}, 1, "does not exist"},
	} {
		code, output := command(t, test.args...)
		require.Equal(t, test.code, code, output)
		require.Contains(t, output, test.want)
	}
}
