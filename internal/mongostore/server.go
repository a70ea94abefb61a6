package mongostore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
)

// silence is logged when a server does not answer, even for a short time. Operations wait meanwhile without logging.
const silence = "the database server does not answer: waiting for it"

// server is the description that a server gives of itself.
type server struct {
	// SetName is the name of its replica set; empty if it has none.
	SetName string `bson:"setName"`
	// Msg is isdbgrid for a mongos, the router of a sharded cluster.
	Msg string `bson:"msg"`
}

func (s server) sharded() bool { return s.Msg == "isdbgrid" }

// replicated reports whether two servers could believe to be the primary at the same time.
func (s server) replicated() bool { return s.SetName != "" || s.sharded() }

// greet asks the server for its description. It waits for the server until ctx ends.
func (db *DB) greet(ctx context.Context) (s server, err error) {
	err = db.Await(ctx, func(ctx context.Context) error {
		return db.call(ctx, "connect", func(ctx context.Context) error {
			return db.client.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&s)
		})
	})
	return s, err
}

// Await calls do again as long as it returns an error that wraps ErrUnavailable, until ctx ends. A start uses it: a process that
// starts while the server restarts waits, and does not end. The operations in do wait for the server, so Await does not.
func (db *DB) Await(ctx context.Context, do func(context.Context) error) error {
	for {
		err := do(ctx)
		if !errors.Is(err, ErrUnavailable) {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", err, ctx.Err())
		}
		db.opts.Logger.Warn().Err(err).Strs("servers", db.hosts).Msg(silence)
	}
}

// watch logs when a server stops answering and when it answers again. The driver asks each server every ten seconds. After an
// operation on a server fails, the driver asks it every half second.
type watch struct {
	logger zerolog.Logger

	mu     sync.Mutex
	silent map[string]bool // by address
	ended  bool
}

func newWatch(logger zerolog.Logger) *watch {
	return &watch{logger: logger, silent: make(map[string]bool)}
}

// end stops logging. The driver reports connections that it closes itself as servers that do not answer.
func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
}

func (w *watch) monitor() *event.ServerMonitor {
	return &event.ServerMonitor{
		ServerHeartbeatFailed: func(e *event.ServerHeartbeatFailedEvent) {
			if errors.Is(e.Failure, context.Canceled) || errors.Is(e.Failure, net.ErrClosed) {
				return // the driver cancelled this check to start another
			}
			if server, changed := w.note(e.ConnectionID, true); changed {
				w.logger.Warn().Err(e.Failure).Str("server", server).Msg(silence)
			}
		},
		ServerHeartbeatSucceeded: func(e *event.ServerHeartbeatSucceededEvent) {
			if server, changed := w.note(e.ConnectionID, false); changed {
				w.logger.Info().Str("server", server).Msg("the database server answers")
			}
		},
	}
}

// note records whether a server is silent. It returns the server's address and whether the state changed.
func (w *watch) note(connection string, silent bool) (server string, changed bool) {
	server, _, _ = strings.Cut(connection, "[") // "[" begins the connection number
	w.mu.Lock()
	defer w.mu.Unlock()
	changed = w.silent[server] != silent && !w.ended
	w.silent[server] = silent
	return server, changed
}
