package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/app/embedded"
	"github.com/fanmail/fanmail/internal/mongostore/mongoraw"
	"github.com/fanmail/fanmail/internal/pebblestore/pebbleraw"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Env configures all benchmarks.
type Env struct {
	// Config is the configuration of the measured server. On MongoDB, each world has a database with another name.
	Config config.Config
	// Dir is the folder for temporary folders. It is on the measured disk.
	Dir    string
	Logger zerolog.Logger
	Now    func() time.Time
	// Tell receives a line of text at each step of a benchmark.
	Tell func(what string)
	// Body is the size of the body of a message in bytes.
	Body int
}

// together is the number of records in one write when a world is filled.
const together = 5000

// world is a running server with its own store.
type world struct {
	env    Env
	cfg    config.Config
	app    *app.App
	parts  app.Parts
	pushes *pushes
	client *client.Client
	opened time.Time
	// commands counts the commands to MongoDB.
	commands atomic.Int64
}

// open makes a world. The caller must close it.
func (e Env) open(ctx context.Context) (*world, error) { return e.openStamped(ctx, nil) }

// openStamped makes a world in which stamp returns the time at which a message is stored. The caller must close it.
func (e Env) openStamped(ctx context.Context, stamp func() time.Time) (_ *world, err error) {
	w := &world{env: e, cfg: e.Config, opened: e.Now()}
	if w.cfg.Data, err = os.MkdirTemp(e.Dir, "fanmail-bench-"); err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.remove(ctx))
		}
	}()
	if w.onMongoDB() {
		w.cfg.MongoDB.Database = fmt.Sprintf("%s_bench_%s", w.cfg.MongoDB.Database, strings.ToLower(rand.Text()[:8]))
		if err := app.Init(ctx, w.cfg, false, e.Logger); err != nil {
			return nil, err
		}
	}
	return w, w.start(ctx, stamp)
}

func (w *world) onMongoDB() bool { return w.cfg.Store == config.StoreMongoDB }

// start starts the server. stamp returns the time at which a message is stored; nil means the real time.
func (w *world) start(ctx context.Context, stamp func() time.Time) error {
	w.cfg.Addr = "127.0.0.1:0"
	w.app = app.New(w.cfg, app.Options{Embedded: embedded.Engines{}, Logger: w.env.Logger, Now: w.env.Now, Stamp: stamp, Wrap: func(p app.Parts) app.Parts {
		w.pushes = &pushes{Store: p.Inbox}
		p.Inbox = w.pushes
		w.parts = p
		return p
	}, Command: func() { w.commands.Add(1) }})
	if err := w.app.Start(ctx); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	var err error
	w.client, err = client.New(w.app.URL(), client.Options{})
	return err
}

// stop stops the server. start may start it again.
func (w *world) stop(ctx context.Context) error {
	if w.client != nil {
		w.client.Close()
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.DrainTimeout)
	defer cancel()
	return w.app.Stop(bounded)
}

// close stops the server and removes its data.
func (w *world) close(ctx context.Context) error { return errors.Join(w.stop(ctx), w.remove(ctx)) }

func (w *world) remove(ctx context.Context) error {
	var err error
	if w.onMongoDB() {
		err = app.Drop(context.WithoutCancel(ctx), w.cfg, w.env.Logger)
	}
	return errors.Join(err, os.RemoveAll(w.cfg.Data))
}

// user returns the nth user id with a prefix.
func user(prefix string, n int) message.UserID {
	return message.UserID(fmt.Sprintf("%s-%07d", prefix, n))
}

func users(prefix string, from, to int) []message.UserID {
	users := make([]message.UserID, 0, to-from)
	for n := from; n < to; n++ {
		users = append(users, user(prefix, n))
	}
	return users
}

// see records that users opened their inbox at the given time.
func (w *world) see(ctx context.Context, at time.Time, all []message.UserID) error {
	at = at.UTC().Truncate(time.Millisecond)
	for some := range slices.Chunk(all, together) {
		steps := make([]userstate.Step, len(some))
		for i, user := range some {
			steps[i] = userstate.Step{From: userstate.State{User: user}, To: userstate.State{User: user, LastViewed: at}}
		}
		if _, err := w.parts.Users.Step(ctx, steps); err != nil {
			return fmt.Errorf("see users: %w", err)
		}
	}
	return nil
}

// follow gives users edges to a source. They begin an hour before the world was opened.
func (w *world) follow(ctx context.Context, source message.Source, all []message.UserID) error {
	since := w.opened.Add(-time.Hour)
	for some := range slices.Chunk(all, together) {
		pairs := make([]follow.Pair, len(some))
		for i, user := range some {
			pairs[i] = follow.Pair{Follower: user, Followee: source}
		}
		if _, err := w.parts.Edges.Follow(ctx, pairs, since); err != nil {
			return fmt.Errorf("make followers of %s: %w", source, err)
		}
	}
	return nil
}

// preload appends entries to the inboxes of users.
func (w *world) preload(ctx context.Context, all []message.UserID, entries []bucket.Entry) error {
	appender := bucket.NewAppender(w.parts.Inbox, w.parts.Users)
	for some := range slices.Chunk(all, together) {
		appends := make([]bucket.Append, len(some))
		for i, user := range some {
			appends[i] = bucket.Append{Owner: user, Entries: entries}
		}
		results, err := appender.Append(ctx, appends)
		if err != nil {
			return fmt.Errorf("fill inboxes: %w", err)
		}
		for _, r := range results {
			if r.Err != nil {
				return fmt.Errorf("fill inboxes: %w", r.Err)
			}
		}
	}
	return nil
}

// entries returns n entries that were sent before the world was opened. A greater first returns later entries.
func (w *world) entries(first, n int) []bucket.Entry {
	sent := w.sentAt(first - 1)
	ids := message.NewGenerator(func() time.Time { return sent }, rand.Reader)
	entries := make([]bucket.Entry, n)
	for i := range entries {
		sent = sent.Add(time.Millisecond)
		id, err := ids.Next()
		if err != nil {
			panic(err) // the system's random source does not fail
		}
		entries[i] = bucket.Entry{ID: id, From: "earlier", Body: w.env.body()}
	}
	return entries
}

// sentAt returns when the nth message of entries was sent.
func (w *world) sentAt(n int) time.Time {
	return w.opened.Truncate(time.Millisecond).Add(-time.Hour + time.Duration(n+1)*time.Millisecond)
}

func (e Env) body() string { return strings.Repeat("x", e.Body) }

// toFollowers returns a message by an author to all followers.
func (w *world) toFollowers(author message.UserID) message.Draft {
	return message.Draft{From: author, Audience: message.AudienceFollowers, Body: w.env.body()}
}

// publish publishes messages and returns their ids.
func (w *world) publish(ctx context.Context, drafts ...message.Draft) ([]message.ID, error) {
	answers, err := w.client.PublishBatch(ctx, drafts, "")
	if err != nil {
		return nil, err
	}
	ids := make([]message.ID, len(answers))
	for i, a := range answers {
		if a.Err != nil {
			return nil, a.Err
		}
		ids[i] = a.ID
	}
	return ids, nil
}

// await waits until the fan-out of messages is done, and returns the sums of their deliveries.
func (w *world) await(ctx context.Context, ids []message.ID) (total client.Fanout, err error) {
	for _, id := range ids {
		status, err := w.client.WaitDone(ctx, id, 0)
		if err != nil {
			return total, err
		}
		total.Delivered += status.Fanout.Delivered
		total.Skipped += status.Fanout.Skipped
	}
	return total, nil
}

// rawBatches measures the raw limit of the store: the deliveries a second if each owner gets the given number of pushes with the given
// number of entries.
func (w *world) rawBatches(ctx context.Context, owners, pushes, entries int) (rate float64, err error) {
	if w.onMongoDB() {
		f, m := w.cfg.Fanout, w.cfg.MongoDB
		opts := mongoraw.Options{
			URI: string(m.URI), Database: w.cfg.MongoDB.Database + "_raw", Operations: m.BulkOperations,
			Commands: f.MediumWorkers * min(m.Concurrency, max(1, f.BatchOwners/m.BulkOperations)),
		}
		raw := w.cfg
		raw.MongoDB.Database = opts.Database
		if err := app.Init(ctx, raw, false, w.env.Logger); err != nil {
			return 0, err
		}
		all := slices.Collect(slices.Chunk(w.entries(0, pushes*entries), entries))
		rate, err := mongoraw.Upserts(ctx, opts, users("user", 0, owners), all)
		return rate, errors.Join(err, app.Drop(context.WithoutCancel(ctx), raw, w.env.Logger))
	}
	return w.rawEmbedded(func(opts pebbleraw.Options) (float64, error) { return pebbleraw.Batches(opts, owners*pushes*entries) })
}

func (w *world) rawEmbedded(measure func(pebbleraw.Options) (float64, error)) (rate float64, err error) {
	dir, err := os.MkdirTemp(filepath.Dir(w.cfg.Data), "fanmail-bench-raw-")
	if err != nil {
		return 0, fmt.Errorf("make a folder: %w", err)
	}
	rate, err = measure(w.rawOptions(dir))
	return rate, errors.Join(err, os.RemoveAll(dir))
}

// rawOptions returns the options of a database with the memory of the embedded store.
func (w *world) rawOptions(dir string) pebbleraw.Options {
	return pebbleraw.Options{
		Dir: dir, CacheBytes: int64(w.cfg.Embedded.Cache), MemTableBytes: int64(w.cfg.Embedded.Memtable), Body: w.env.Body,
	}
}
