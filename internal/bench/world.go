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

// Env is what benchmarks run in.
type Env struct {
	// Config is that of the server which is measured. The database of a store on MongoDB gets a name of its own.
	Config config.Config
	// Dir is the folder, on the disk that is measured, in which temporary folders are made.
	Dir    string
	Logger zerolog.Logger
	Now    func() time.Time
	// Tell is told what is being done.
	Tell func(what string)
	// Body is how many bytes the body of a message has.
	Body int
}

// together is how many records are written at a time when a world is filled.
const together = 5000

// world is a Fanmail of its own.
type world struct {
	env    Env
	cfg    config.Config
	app    *app.App
	parts  app.Parts
	pushes *pushes
	client *client.Client
	opened time.Time
}

// open makes a world. Close it.
func (e Env) open(ctx context.Context) (*world, error) { return e.openStamped(ctx, nil) }

// openStamped makes a world whose messages are stored when the stamp says. Close it.
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

// start starts the server. Messages are stored when the stamp says; nil means when they are.
func (w *world) start(ctx context.Context, stamp func() time.Time) error {
	w.cfg.Addr = "127.0.0.1:0"
	w.app = app.New(w.cfg, app.Options{Embedded: embedded.Engines{}, Logger: w.env.Logger, Now: w.env.Now, Stamp: stamp, Wrap: func(p app.Parts) app.Parts {
		w.pushes = &pushes{Store: p.Inbox}
		p.Inbox = w.pushes
		w.parts = p
		return p
	}})
	if err := w.app.Start(ctx); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	var err error
	w.client, err = client.New(w.app.URL(), client.Options{})
	return err
}

// stop stops the server, which may be started again.
func (w *world) stop(ctx context.Context) error {
	if w.client != nil {
		w.client.Close()
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.DrainTimeout)
	defer cancel()
	return w.app.Stop(bounded)
}

// close stops the server and removes what it has stored.
func (w *world) close(ctx context.Context) error { return errors.Join(w.stop(ctx), w.remove(ctx)) }

func (w *world) remove(ctx context.Context) error {
	var err error
	if w.onMongoDB() {
		err = app.Drop(context.WithoutCancel(ctx), w.cfg, w.env.Logger)
	}
	return errors.Join(err, os.RemoveAll(w.cfg.Data))
}

// user returns the nth user with a name that begins like this.
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

// see records that users were seen at a time.
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

// follow makes users follow an author, from an hour ago on.
func (w *world) follow(ctx context.Context, author message.UserID, all []message.UserID) error {
	since := w.opened.Add(-time.Hour)
	for some := range slices.Chunk(all, together) {
		pairs := make([]follow.Pair, len(some))
		for i, user := range some {
			pairs[i] = follow.Pair{Follower: user, Followee: author}
		}
		if _, err := w.parts.Edges.Follow(ctx, pairs, since); err != nil {
			return fmt.Errorf("make followers of %s: %w", author, err)
		}
	}
	return nil
}

// preload gives users so many entries, from before anything is measured.
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

// entries returns n entries by an author, from before anything is measured. Those with a greater first are later.
func (w *world) entries(first, n int) []bucket.Entry {
	sent := w.opened.Add(-time.Hour + time.Duration(first)*time.Millisecond)
	ids := message.NewGenerator(func() time.Time { return sent }, rand.Reader)
	entries := make([]bucket.Entry, n)
	for i := range entries {
		sent = sent.Add(time.Millisecond)
		id, err := ids.Next()
		if err != nil {
			panic(err) // the system's source of random bytes does not fail
		}
		entries[i] = bucket.Entry{ID: id, From: "earlier", Body: w.env.body()}
	}
	return entries
}

func (e Env) body() string { return strings.Repeat("x", e.Body) }

// toFollowers returns a message by an author to all followers.
func (w *world) toFollowers(author message.UserID) message.Draft {
	return message.Draft{From: author, Audience: message.AudienceFollowers, Body: w.env.body()}
}

// publish publishes messages, and returns their ids.
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

// await waits until messages are done, and returns what became of them together.
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

// rawBatches returns how many deliveries a second the store below does at most, where each owner gets so many pushes of so many entries.
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
	rate, err = measure(pebbleraw.Options{
		Dir: dir, CacheBytes: int64(w.cfg.Embedded.Cache), MemTableBytes: int64(w.cfg.Embedded.Memtable), Body: w.env.Body,
	})
	return rate, errors.Join(err, os.RemoveAll(dir))
}
