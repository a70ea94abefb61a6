package bench

import (
	"context"
	"crypto/rand"
	_ "embed" // the text of bodies
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
	// Busy says that the process is never idle, as in tests that run at the same time: no benchmark waits for that.
	Busy bool
}

// OnMongoDB reports whether the store is on MongoDB.
func (e Env) OnMongoDB() bool { return e.Config.Store == config.StoreMongoDB }

// Together is the number of records in one write when a world is filled.
const Together = 5000

// World is a running server with its own store.
type World struct {
	Env Env
	// Config is the configuration of the server. On MongoDB it names the world's own database.
	Config config.Config
	App    *app.App
	Parts  app.Parts
	Client *client.Client
	// Opened is when the world was made.
	Opened time.Time
	// Commands counts the commands to MongoDB.
	Commands atomic.Int64
	pushes   *pushes
}

// Open makes a world. The caller must close it.
func (e Env) Open(ctx context.Context) (*World, error) { return e.OpenStamped(ctx, nil) }

// OpenStamped makes a world in which stamp returns the time at which a message is stored. The caller must close it.
func (e Env) OpenStamped(ctx context.Context, stamp func() time.Time) (_ *World, err error) {
	w := &World{Env: e, Config: e.Config, Opened: e.Now()}
	if w.Config.Data, err = os.MkdirTemp(e.Dir, "fanmail-bench-"); err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.remove(ctx))
		}
	}()
	if w.Env.OnMongoDB() {
		w.Config.MongoDB.Database = fmt.Sprintf("%s_bench_%s", w.Config.MongoDB.Database, strings.ToLower(rand.Text()[:8]))
		if err := app.Init(ctx, w.Config, false, e.Logger); err != nil {
			return nil, err
		}
	}
	return w, w.start(ctx, stamp)
}

// start starts the server. stamp returns the time at which a message is stored; nil means the real time.
func (w *World) start(ctx context.Context, stamp func() time.Time) error {
	w.Config.Addr = "127.0.0.1:0"
	w.App = app.New(w.Config, app.Options{Embedded: embedded.Engines{}, Logger: w.Env.Logger, Now: w.Env.Now, Stamp: stamp, Wrap: func(p app.Parts) app.Parts {
		w.pushes = &pushes{Store: p.Inbox}
		p.Inbox = w.pushes
		w.Parts = p
		return p
	}, Command: func() { w.Commands.Add(1) }})
	if err := w.App.Start(ctx); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	var err error
	w.Client, err = client.New(w.App.URL(), client.Options{})
	return err
}

// Restart stops the server and starts it with the real time.
func (w *World) Restart(ctx context.Context) error {
	if err := w.stop(ctx); err != nil {
		return err
	}
	return w.start(ctx, nil)
}

func (w *World) stop(ctx context.Context) error {
	if w.Client != nil {
		w.Client.Close()
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.Config.DrainTimeout)
	defer cancel()
	return w.App.Stop(bounded)
}

// Close stops the server and removes its data.
func (w *World) Close(ctx context.Context) error { return errors.Join(w.stop(ctx), w.remove(ctx)) }

func (w *World) remove(ctx context.Context) error {
	var err error
	if w.Env.OnMongoDB() {
		err = app.Drop(context.WithoutCancel(ctx), w.Config, w.Env.Logger)
	}
	return errors.Join(err, os.RemoveAll(w.Config.Data))
}

// User returns the nth user id with a prefix.
func User(prefix string, n int) message.UserID {
	return message.UserID(fmt.Sprintf("%s-%07d", prefix, n))
}

// Users returns the user ids with a prefix from the nth up to, and without, another.
func Users(prefix string, from, to int) []message.UserID {
	users := make([]message.UserID, 0, to-from)
	for n := from; n < to; n++ {
		users = append(users, User(prefix, n))
	}
	return users
}

// everyNth returns the users that are n apart, beginning with the one at from.
func everyNth(users []message.UserID, from, n int) (some []message.UserID) {
	for ; from < len(users); from += n {
		some = append(some, users[from])
	}
	return some
}

// See records that users opened their inbox at the given time.
func (w *World) See(ctx context.Context, at time.Time, all []message.UserID) error {
	at = at.UTC().Truncate(time.Millisecond)
	for some := range slices.Chunk(all, Together) {
		steps := make([]userstate.Step, len(some))
		for i, user := range some {
			steps[i] = userstate.Step{From: userstate.State{User: user}, To: userstate.State{User: user, LastViewed: at, Horizon: at.Add(w.Config.DormantAfter)}}
		}
		if _, err := w.Parts.Users.Step(ctx, steps); err != nil {
			return fmt.Errorf("see users: %w", err)
		}
	}
	return nil
}

// Follow gives users edges to a source. They begin an hour before the world was opened.
func (w *World) Follow(ctx context.Context, source message.Source, all []message.UserID) error {
	since := w.Opened.Add(-time.Hour)
	for some := range slices.Chunk(all, Together) {
		pairs := make([]follow.Pair, len(some))
		for i, user := range some {
			pairs[i] = follow.Pair{Follower: user, Followee: source}
		}
		if _, err := w.Parts.Edges.Follow(ctx, pairs, since); err != nil {
			return fmt.Errorf("make followers of %s: %w", source, err)
		}
	}
	return nil
}

// Preload appends entries to the inboxes of users.
func (w *World) Preload(ctx context.Context, all []message.UserID, entries []bucket.Entry) error {
	appender := bucket.NewAppender(w.Parts.Inbox, w.Parts.Users)
	for some := range slices.Chunk(all, Together) {
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

// Entries returns n entries that were sent before the world was opened. A greater first returns later entries.
func (w *World) Entries(first, n int) []bucket.Entry {
	sent := w.sentAt(first - 1)
	ids := message.NewGenerator(func() time.Time { return sent }, rand.Reader)
	entries := make([]bucket.Entry, n)
	for i := range entries {
		sent = sent.Add(time.Millisecond)
		id, err := ids.Next()
		if err != nil {
			panic(err) // the system's random source does not fail
		}
		entries[i] = bucket.Entry{ID: id, From: "earlier", Body: w.Env.body()}
	}
	return entries
}

// sentAt returns when the nth message of entries was sent.
func (w *World) sentAt(n int) time.Time {
	return w.Opened.Truncate(time.Millisecond).Add(-time.Hour + time.Duration(n+1)*time.Millisecond)
}

//go:embed text.txt
var text string

// begun is where the last body begins in the text.
var begun atomic.Uint32

// body returns text, because engines compress what repeats: another one each time.
func (e Env) body() string {
	const step = 97
	from := int(begun.Add(step)) % len(text)
	return strings.Repeat(text, (from+e.Body)/len(text)+1)[from : from+e.Body]
}

// ToFollowers returns a message by an author to all followers.
func (w *World) ToFollowers(author message.UserID) message.Draft {
	return message.Draft{From: author, Audience: message.AudienceFollowers, Body: w.Env.body()}
}

// Publish publishes messages and returns their ids.
func (w *World) Publish(ctx context.Context, drafts ...message.Draft) ([]message.ID, error) {
	answers, err := w.Client.PublishBatch(ctx, drafts, "")
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

// Await waits until the fan-out of messages is done, and returns the sums of their deliveries.
func (w *World) Await(ctx context.Context, ids []message.ID) (total client.Fanout, err error) {
	for _, id := range ids {
		status, err := w.Client.WaitDone(ctx, id, 0)
		if err != nil {
			return total, err
		}
		total.Delivered += status.Fanout.Delivered
		total.Skipped += status.Fanout.Skipped
	}
	return total, nil
}

// RawBatches measures the raw limit of the store: the deliveries a second if each owner gets the given number of pushes with the given
// number of entries.
func (w *World) RawBatches(ctx context.Context, owners, pushes, entries int) (rate float64, err error) {
	if w.Env.OnMongoDB() {
		f, m := w.Config.Fanout, w.Config.MongoDB
		opts := mongoraw.Options{
			URI: string(m.URI), Database: w.Config.MongoDB.Database + "_raw", Operations: m.BulkOperations,
			Commands: f.MediumWorkers * min(m.Concurrency, max(1, f.BatchOwners/m.BulkOperations)),
		}
		raw := w.Config
		raw.MongoDB.Database = opts.Database
		if err := app.Init(ctx, raw, false, w.Env.Logger); err != nil {
			return 0, err
		}
		all := slices.Collect(slices.Chunk(w.Entries(0, pushes*entries), entries))
		rate, err := mongoraw.Upserts(ctx, opts, Users("user", 0, owners), all)
		return rate, errors.Join(err, app.Drop(context.WithoutCancel(ctx), raw, w.Env.Logger))
	}
	return w.rawEmbedded(func(opts pebbleraw.Options) (float64, error) { return pebbleraw.Batches(opts, owners*pushes*entries) })
}

func (w *World) rawEmbedded(measure func(pebbleraw.Options) (float64, error)) (rate float64, err error) {
	dir, err := os.MkdirTemp(filepath.Dir(w.Config.Data), "fanmail-bench-raw-")
	if err != nil {
		return 0, fmt.Errorf("make a folder: %w", err)
	}
	rate, err = measure(w.rawOptions(dir))
	return rate, errors.Join(err, os.RemoveAll(dir))
}

// rawOptions returns the options of a database with the memory of the embedded store.
func (w *World) rawOptions(dir string) pebbleraw.Options {
	return pebbleraw.Options{
		Dir: dir, CacheBytes: int64(w.Config.Embedded.Cache), MemTableBytes: int64(w.Config.Embedded.Memtable), Bodies: []string{w.Env.body()},
	}
}
