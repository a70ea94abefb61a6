//go:build long && mongodb

package faults_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/testenv"
)

// Messages of the log.
const (
	silence      = "the database server does not answer: waiting for it"
	answers      = "the database server answers"
	again        = "database operation failed: trying again"
	routeError   = "a published message cannot be routed now: routing other messages first"
	sweepError   = "resuming stopped messages failed: it is tried again"
	forgetError  = "cannot remove expired idempotency keys: trying again in a minute"
	reapError    = "looking for abandoned rehydrations failed: it is tried again"
	attemptError = "rehydration failed, and will be tried again"
	leftToLease  = "rehydration cannot be released: another worker takes it over when its lease ends"
	takenOver    = "taking over a rehydration: its worker made no progress"
)

// subjects are the fields that name the subject of a line.
var subjects = []string{"request_id", "server", "user", "message_id", "message_ids", "work", "subject", "consumer"}

// general are the lines without a subject.
var general = []string{
	silence, sweepError, forgetError, reapError, "messages had not moved: emitted them again",
	"the recorded settings cannot be read: the last ones hold", "this process cannot be recorded: it is tried again",
	"rehydrations have waited too long: more workers or processes would help",
	"the walk over all users cannot continue: it is tried again",
	"what has ended cannot be removed: it is tried again after the next round through all users",
	"this process is not ready: /readyz answers 503 until what is missing is back",
}

// server is a running server whose log the test reads.
type server struct{ *testenv.Process }

// line is a line of a log by field.
type line map[string]any

func (l line) message() string { text, _ := l["message"].(string); return text }

// log returns the lines that the server has written so far.
func (s *server) log(t *testing.T) (lines []line) {
	t.Helper()
	text := s.Stderr()
	for text := range strings.Lines(text[:strings.LastIndex(text, "\n")+1]) {
		var l line
		require.NoError(t, json.Unmarshal([]byte(text), &l), text)
		lines = append(lines, l)
	}
	return lines
}

// count counts the lines of the log with a message.
func (s *server) count(t *testing.T, message string) (n int) {
	t.Helper()
	for _, l := range s.log(t) {
		if l.message() == message {
			n++
		}
	}
	return n
}

// stop stops the server. It requires that the log has no unexpected errors: an error must be in errors, or must be caused by an
// unreachable database. Every warning and error must have a subject, except those in general.
func (w *world) stop(ctx context.Context, s *server, errors ...string) {
	w.Helper()
	s.Terminate()
	require.Zero(w, s.Code(ctx), "the server exits with an error")
	for _, trouble := range []string{"DATA RACE", "panic"} {
		require.NotContains(w, s.Stderr(), trouble)
	}
	for _, l := range s.log(w.T) {
		switch l["level"] {
		case "error":
			if cause, _ := l["error"].(string); !strings.Contains(cause, message.ErrUnavailable.Error()) { // expected on a busy machine
				require.Contains(w, errors, l.message(), "%v", l)
			}
		case "warn":
		default:
			continue
		}
		about := func(field string) bool { return l[field] != nil }
		require.True(w, slices.Contains(general, l.message()) || slices.ContainsFunc(subjects, about), "what is it about? %v", l)
	}
}
