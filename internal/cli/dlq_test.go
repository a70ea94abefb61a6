package cli_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// corrupt is a message store whose messages cannot be read while broken is set.
type corrupt struct {
	message.Store
	broken *atomic.Bool
}

func (c corrupt) GetMany(ctx context.Context, refs []message.Ref) ([]message.Found, error) {
	found, err := c.Store.GetMany(ctx, refs)
	for i := range found {
		if c.broken.Load() {
			found[i] = message.Found{Err: fmt.Errorf("message %s: %w", refs[i].ID, message.ErrCorrupt)}
		}
	}
	return found, err
}

// TestDeadLetters makes tasks fail permanently on a real server. It lists the dead letters, removes the cause, and redrives them.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	var events bus.Bus
	server := []string{"--server", serveWith(t, func(p app.Parts) app.Parts {
		events = p.Bus
		p.Messages = corrupt{p.Messages, &broken}
		return p
	})}
	ask := func(args ...string) string { return fanmail(t, append(args, server...)...) }
	require.Equal(t, "there are no dead letters\n", ask("dlq", "list"))
	require.Equal(t, "0 dead letters are redriven\n", ask("dlq", "redrive", "--all"))

	now := time.Now().UTC().Format(time.RFC3339)
	ask("import", "users", file(t, "users", `{"user":"ben","last_viewed":"`+now+`"}`+"\n"))
	broken.Store(true)
	id := fromJSON[client.Receipt](t, ask("publish", "--from", "ann", "--to", "ben", "--body", "x", "--json")).ID.String()
	require.Eventually(t, func() bool { return ask("dlq", "list", "--json") != "" }, time.Minute, 10*time.Millisecond)
	letter := fromJSON[client.DeadLetter](t, ask("dlq", "list", "--json"))
	require.Equal(t, "corrupt", letter.Reason)
	require.Equal(t, id, letter.Message.String())
	require.Equal(t, message.UserID("ann"), letter.From)
	require.Regexp(t, `^ID +AT +REASON +ABOUT +ERROR\n1 +\S+ \S+ +corrupt +`+id+` from ann  .*corrupt`, ask("dlq", "list", "--reason", "corrupt"))
	require.Equal(t, "there are no dead letters\n", ask("dlq", "list", "--reason", "too_large"))
	require.Contains(t, ask("dlq", "show", "1"), "about     "+id+" from ann\nreason    corrupt\n")
	require.Equal(t, letter, fromJSON[client.DeadLetter](t, ask("dlq", "show", "1", "--json")))

	broken.Store(false)
	require.Equal(t, "0 dead letters are redriven\n", ask("dlq", "redrive", "--all", "--reason", "too_large"))
	require.Equal(t, "1 dead letter is redriven\n", ask("dlq", "redrive", "1"))
	require.Contains(t, ask("status", id, "--wait"), "delivered   1\n")
	require.Equal(t, "there are no dead letters\n", ask("dlq", "list"))

	for _, payload := range []string{`{"user":"ben"}`, "\xff\x1b[2J"} {
		require.NoError(t, events.DeadLetter(t.Context(), event.DeadLetter{
			Version: event.Version, Reason: "malformed", Error: "no\x1b[2J", Attempts: 1, Subject: "fanmail.v1.nowhere", Payload: []byte(payload),
		}))
	}
	require.Contains(t, ask("dlq", "show", "2"), "about     login of ben\nreason    malformed\nerror     no\\x1b[2J\n")
	require.Contains(t, ask("dlq", "show", "3"), "payload   \"\\xff\\x1b[2J\"\n")
	for _, refused := range []struct{ args, want string }{
		{"redrive 2", "dead letter 2: no worker reads the subject of this dead letter: it can only be dropped (409 Conflict) (0 of 1 were redriven before it)"},
		{"redrive 99", "there is no dead letter with this id"},
		{"drop 0", "there is no dead letter with this id"},
		{"show 1", "there is no dead letter 1"},
	} {
		got := run{args: slices.Concat([]string{"dlq"}, strings.Fields(refused.args), server)}.do(t.Context(), t)
		require.Equal(t, program.ExitFailed, got.code)
		require.Contains(t, got.stderr, refused.want)
	}
	_, err := events.FileDamaged(t.Context(), event.NewDamaged("ben", time.Now()), "short")
	require.NoError(t, err)
	require.Contains(t, ask("dlq", "show", "4"), "about     messages for ben\nreason    damaged\n")
	got := run{args: slices.Concat([]string{"dlq", "redrive", "--all"}, server)}.do(t.Context(), t)
	require.Equal(t, program.ExitFailed, got.code)
	require.Contains(t, got.stderr, "1 of 3 were redriven: dead letter 2: no worker reads", "the refused ones do not stop the others")
	require.Equal(t, "2 dead letters are dropped\n", ask("dlq", "drop", "2", "3"))
	require.Equal(t, "there are no dead letters\n", ask("dlq", "list"))
}
