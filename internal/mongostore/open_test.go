//go:build mongodb

package mongostore_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/testenv"
)

// lines is a log that may be written while it is read.
type lines struct {
	mu  sync.Mutex
	log bytes.Buffer
	// written gets one for each line, as long as there is room.
	written chan struct{}
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.written <- struct{}{}:
	default:
	}
	return l.log.Write(line)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.String()
}

// TestOpenWaitsForTheServer opens a database whose server is away, and lets the server come when the log has said so.
func TestOpenWaitsForTheServer(t *testing.T) {
	t.Parallel()
	_, opts := create(t)
	network := testenv.NewProxy(t, opts.URI)
	network.Set(t, testenv.Fault{Refuse: true})
	log := &lines{written: make(chan struct{}, 1)}
	opts.URI, opts.Timeout, opts.Logger = network.URI(), time.Minute, zerolog.New(log)
	opened := make(chan error, 1)
	go func() {
		db, err := mongostore.Open(t.Context(), opts)
		if err == nil {
			err = errors.Join(db.Healthy(t.Context()), db.Close())
		}
		opened <- err
	}()
	<-log.written
	require.Contains(t, log.String(), "the database server does not answer: waiting for it")
	require.Contains(t, log.String(), network.Addr(), "it says which")
	select {
	case err := <-opened:
		require.Fail(t, "Open has returned without a server", "%v", err)
	default:
	}
	network.Set(t, testenv.Fault{})
	require.NoError(t, <-opened)
}

// TestOpenWaitsAmidTheCheck takes the server away when Open has connected and reads the indexes. Open must wait as it does before the
// connection: a server that restarts must not end the processes that start beside it.
func TestOpenWaitsAmidTheCheck(t *testing.T) {
	t.Parallel()
	_, opts := create(t)
	network := testenv.NewProxy(t, opts.URI)
	log := &lines{written: make(chan struct{}, 1)}
	var once sync.Once
	opts.Monitor = &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		if e.CommandName == "listIndexes" {
			once.Do(func() { network.Set(t, testenv.Fault{Refuse: true}) })
		}
	}}
	opts.URI, opts.Timeout, opts.Logger = network.URI(), time.Second, zerolog.New(log)
	opened := make(chan error, 1)
	go func() {
		db, err := mongostore.Open(t.Context(), opts)
		if err == nil {
			err = db.Close()
		}
		opened <- err
	}()
	for !strings.Contains(log.String(), "list indexes") {
		select {
		case <-log.written:
		case err := <-opened:
			require.Fail(t, "Open has returned without a server", "%v", err)
		}
	}
	network.Set(t, testenv.Fault{})
	require.NoError(t, <-opened)
}

func TestOpenGivesUpWithItsCaller(t *testing.T) {
	t.Parallel()
	opts := testOptions(t, "mongodb://127.0.0.1:"+testenv.FreePort(t), "none")
	opts.Timeout, opts.Logger = 50*time.Millisecond, zerolog.Nop()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := mongostore.Open(ctx, opts)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// TestUnavailable takes the server away from a database that is open: calls fail within their time, with an error that is not
// their caller's, and go on working when it is back.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	direct, opts := create(t)
	network := testenv.NewProxy(t, opts.URI)
	opts.URI, opts.Timeout = network.URI(), 10*time.Second
	db := open(t, opts)
	m := messagetest.Message(1, "ann")
	_, err := db.Messages().Insert(t.Context(), []message.Message{messagetest.Message(2, "ann")}, messagetest.AnyTime)
	require.NoError(t, err, "it raises the ceiling")
	network.Set(t, testenv.Fault{HoldWrites: true})
	_, err = db.Messages().Insert(t.Context(), []message.Message{m}, messagetest.AnyTime)
	require.ErrorIs(t, err, mongostore.ErrUnavailable)
	require.NotErrorIs(t, err, context.DeadlineExceeded, "it must not pass for the caller's own")
	require.ErrorContains(t, err, "insert a message in messages")
	require.ErrorContains(t, err, "10s")
	network.Set(t, testenv.Fault{})
	opts.Timeout = time.Minute
	_, err = open(t, opts).Messages().Insert(t.Context(), []message.Message{m}, messagetest.AnyTime)
	require.NoError(t, err)
	_, err = direct.Messages().Get(t.Context(), m.Ref())
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = db.Messages().Get(ctx, m.Ref())
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, mongostore.ErrUnavailable, "the server was never asked")
}

func TestClosed(t *testing.T) {
	t.Parallel()
	uri, database := testenv.MongoDB(t)
	opts := testOptions(t, uri, database)
	measured := prometheus.NewRegistry()
	opts.Metrics = measured
	db := connect(t, opts)
	_, err := db.Messages().Get(t.Context(), messagetest.Message(1, "ann").Ref())
	require.ErrorIs(t, err, message.ErrNotFound, "an answer, which is no failure")
	require.NoError(t, db.Close())
	require.NoError(t, db.Close(), "closing it again does nothing")
	require.ErrorIs(t, db.Healthy(t.Context()), mongostore.ErrClosed)
	_, err = db.Messages().Get(t.Context(), messagetest.Message(1, "ann").Ref())
	require.ErrorIs(t, err, mongostore.ErrClosed)
	require.NoError(t, testutil.GatherAndCompare(measured, strings.NewReader(`
# HELP fanmail_store_errors_total Failed calls of a store. Calls that were canceled or found nothing are not counted.
# TYPE fanmail_store_errors_total counter
fanmail_store_errors_total{operation="connect"} 0
fanmail_store_errors_total{operation="get a message in messages"} 1
fanmail_store_errors_total{operation="ping"} 1
`), "fanmail_store_errors_total"))
}

// TestTheLastAnswerIsReported has a server that answers once, and then nothing until time is up.
func TestTheLastAnswerIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answered := false
		err := mongostore.Call(t.Context(), time.Minute, func(ctx context.Context) error {
			if !answered {
				answered = true
				return mongo.CommandError{Code: 189, Message: "the primary has stepped down"}
			}
			<-ctx.Done()
			return ctx.Err()
		})
		require.ErrorIs(t, err, mongostore.ErrUnavailable)
		require.ErrorContains(t, err, "the primary has stepped down")
	})
}

func TestWhatPasses(t *testing.T) {
	t.Parallel()
	command := func(code int32) error { return mongo.CommandError{Code: code, Message: "words"} }
	write := func(code int) error {
		return mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: code, Message: "words"}}}
	}
	for name, test := range map[string]struct {
		err       error
		permanent bool
	}{
		"a primary that steps down":           {command(189), false},
		"no longer the primary":               {command(10107), false},
		"time is up in the server":            {command(50), false},
		"a write conflict":                    {command(112), false},
		"an interrupted shutdown":             {command(11600), false},
		"a deadlock on DocumentDB":            {write(16908292), false},
		"an internal error":                   {command(1), false},
		"the same in a bulk":                  {mongo.BulkWriteException{WriteConcernError: &mongo.WriteConcernError{Code: 91}}, false},
		"a shard that cannot be reached":      {command(6), false},
		"a chunk that has moved":              {command(13388), false},
		"what the driver would try again":     {mongo.CommandError{Code: 999, Labels: []string{"RetryableWriteError"}}, false},
		"a network that fails":                {mongo.CommandError{Labels: []string{"NetworkError"}}, false},
		"a code that nobody knows":            {write(999), true},
		"a path that collides":                {command(31250), true},
		"time is up here":                     {context.DeadlineExceeded, false},
		"the connection is gone":              {io.ErrUnexpectedEOF, false},
		"a unique key":                        {write(11000), true},
		"a document that is too large":        {write(17419), true},
		"a document that is larger still":     {command(10334), true},
		"a document that is too large there":  {write(285999133), true},
		"a value that is none":                {write(2), true},
		"a password that is none":             {command(18), true},
		"a right that is not granted":         {command(13), true},
		"a command that is none":              {command(59), true},
		"damage":                              {mongostore.ErrCorrupt, true},
		"another format":                      {mongostore.ErrFormat, true},
		"nothing found":                       {mongo.ErrNoDocuments, true},
		"a caller who has given up":           {context.Canceled, true},
		"a database that is not initialized":  {mongostore.ErrNotInitialized, true},
		"a key whose reservation has changed": {message.ErrKeyChanged, true},
		"a wrapped command that is none":      {errors.Join(errors.New("work"), command(59)), true},
		"more updates than a server accepts":  {command(16), true},
	} {
		require.Equal(t, test.permanent, mongostore.Permanent(test.err), name)
	}
}
