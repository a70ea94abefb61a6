package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/fanmail/fanmail/bench/mongolayouts"
	"github.com/fanmail/fanmail/bench/pebblelayouts"
)

func (x *comparing) openEmbedded(ctx context.Context, name string) (*compared, error) {
	dir, err := os.MkdirTemp(x.env.Dir, "fanmail-bench-layout-")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	c := x.env.Config.Embedded
	opts := pebblelayouts.Options{
		Dir: dir, CacheBytes: int64(c.Cache), MemTableBytes: int64(c.Memtable), BucketSize: x.o.BucketSize, Newest: x.o.Newest,
		Now: x.env.Now, Logger: x.env.Logger,
	}
	l := &compared{order: order{Layout: name, Embedded: &opts}}
	open := func(ctx context.Context) error {
		opened, err := pebblelayouts.Open(ctx, name, opts)
		if err != nil {
			return err
		}
		l.layoutOf = opened
		l.written = func() []Figure {
			log, flushed, compacted := opened.Written()
			return []Figure{figure("log", mib(float64(log)), "MiB"), figure("flushed", mib(float64(flushed)), "MiB"), figure("compacted", mib(float64(compacted)), "MiB")}
		}
		return nil
	}
	closeIt := func(ctx context.Context) error {
		if l.layoutOf == nil {
			return nil
		}
		err := l.Close(ctx)
		l.layoutOf = nil
		return err
	}
	l.apart = func(ctx context.Context, do func() error) error {
		if err := closeIt(ctx); err != nil {
			return err
		}
		if err := do(); err != nil {
			return err
		}
		return open(ctx)
	}
	l.cool = func(ctx context.Context) (cold bool, err error) {
		err = l.apart(ctx, func() (err error) {
			cold, err = dropCached(dir)
			return err
		})
		return cold, err
	}
	l.remove = func(ctx context.Context) error { return errors.Join(closeIt(ctx), os.RemoveAll(dir)) }
	l.sizes = func(ctx context.Context) ([]Figure, error) {
		if err := closeIt(ctx); err != nil {
			return nil, err
		}
		records, index, err := pebblelayouts.Sizes(ctx, name, dir)
		return []Figure{figure("records", mib(records), "MiB"), figure("all indexes", mib(index), "MiB"), figure("in all", mib(records+index), "MiB")}, err
	}
	if err := open(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return l, nil
}

func (x *comparing) openMongoDB(ctx context.Context, name string) (*compared, error) {
	f, m := x.env.Config.Fanout, x.env.Config.MongoDB
	opts := mongolayouts.Options{
		URI: string(m.URI), Database: fmt.Sprintf("%s_bench_%s", m.Database, strings.ToLower(rand.Text()[:8])), Timeout: m.Timeout,
		Operations: m.BulkOperations, Commands: min(m.Concurrency, max(1, f.BatchOwners/m.BulkOperations)),
		BucketSize: x.o.BucketSize, Newest: x.o.Newest, Now: x.env.Now, Logger: x.env.Logger,
	}
	l, err := mongolayouts.Open(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	written := func() []Figure { return []Figure{figure("requests", mib(float64(l.Written())), "MiB")} }
	sizes := func(ctx context.Context) ([]Figure, error) {
		s, err := l.Sizes(ctx)
		figures := figuresOf(s, true)
		all := figure("in all", figures[1].Value+figures[2].Value, "MiB") // on disk, and all indexes
		return append(figures, all), err
	}
	return &compared{
		layoutOf: l, order: order{Layout: name, MongoDB: &opts}, written: written, sizes: sizes, remove: l.Close,
		apart: func(_ context.Context, do func() error) error { return do() },
		cool:  func(context.Context) (bool, error) { return false, nil }, // the server is not restarted
	}, nil
}

func mib(bytes float64) float64 { return bytes / (1 << 20) }
