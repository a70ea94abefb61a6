package bench

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/mongostore/mongolayouts"
	"github.com/fanmail/fanmail/internal/pebblestore/pebblelayouts"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// LayoutsOptions configure Env.Layouts.
type LayoutsOptions struct {
	// Recipients is the number of inboxes, There how many messages each has at the start, and Messages how many are sent to all while the time is
	// measured.
	Recipients, There, Messages int
	// Layouts are the names of the layouts; none means all of the store.
	Layouts []string
	// BucketSize is the number of messages in a full bucket, and Newest how many messages newest-n keeps.
	BucketSize, Newest int
	// Redeliver is the share of the deliveries that are made again at the end.
	Redeliver float64
	// Seed decides the random part of the ids, the bodies, the inboxes that are read, and the deliveries that are made again.
	Seed uint64
}

const (
	// apart is the time between two messages: dated gets 48 a day.
	apart = 30 * time.Minute
	// probed is the number of recipients who are asked whether they can read a message.
	probed = 100
	// readInboxes is the number of random inboxes that are read, at most about as many as there are, in readTurns turns.
	readInboxes, readTurns = 1000, 10
)

// layoutOf is what the layouts of both stores share.
type layoutOf interface {
	Send(ctx context.Context, e bucket.Entry, recipients []message.UserID) (documents int, err error)
	Read(ctx context.Context, recipient message.UserID, n int) (ids []message.ID, documents int, err error)
	Close(ctx context.Context) error
}

// compared is a layout with what was measured.
type compared struct {
	layoutOf
	name string
	// written returns the bytes that were written since the layout was opened.
	written func() []Figure
	// finish closes the layout, returns its sizes, and removes it.
	finish func(ctx context.Context) ([]Figure, error)

	answered, readable times
	documents          int
	before, after      []Figure
	reads              []reads
	right              []Figure
}

// reads are the reads of so many of the newest messages.
type reads struct {
	n, documents int
	took         times
}

type comparing struct {
	env        Env
	o          LayoutsOptions
	layouts    []*compared
	recipients []message.UserID
	entries    []bucket.Entry
	random     *mathrand.Rand
}

// Layouts measures inboxes in different layouts: those of the store, and those of recipes. The layouts get the same messages, and take turns.
func (e Env) Layouts(ctx context.Context, o LayoutsOptions) (report Report, err error) {
	report = Report{Benchmark: "layouts", Store: e.Config.Store, Charts: []Chart{
		{"send", "send", "answered p50"}, {"read", "read 50", "took p50"}, {"size", "size", "in all"},
	}}
	if report.Facts, err = e.facts(ctx); err != nil {
		return report, err
	}
	x := &comparing{env: e, o: o, recipients: users("user", 0, o.Recipients)}
	x.draw()
	defer func() {
		for _, l := range x.layouts { // those that an error has left
			_, finishErr := l.finish(context.WithoutCancel(ctx))
			err = errors.Join(err, finishErr)
		}
	}()
	if err := x.open(ctx); err != nil {
		return report, err
	}
	for _, step := range []func(context.Context) error{x.fill, x.send, x.read, x.redeliver} {
		if err := step(ctx); err != nil {
			return report, err
		}
	}
	e.Tell("reading the sizes")
	for len(x.layouts) > 0 {
		l := x.layouts[0]
		x.layouts = x.layouts[1:]
		sizes, err := l.finish(ctx)
		if err != nil {
			return report, err
		}
		report.Rows = append(report.Rows, l.rows(o.Messages, sizes)...)
	}
	report.Facts = append(report.Facts, Fact{"load average after", loadAverage()})
	return report, nil
}

// draw draws the messages.
func (x *comparing) draw() {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	var seed [32]byte
	binary.BigEndian.PutUint64(seed[:], x.o.Seed)
	source := mathrand.NewChaCha8(seed)
	x.random = mathrand.New(source) //nolint:gosec // it is no secret
	n := x.o.There + x.o.Messages
	sent := x.env.Now().Add(-time.Duration(n) * apart)
	ids := message.NewGenerator(func() time.Time { return sent }, source)
	for range n {
		sent = sent.Add(apart)
		id, err := ids.Next()
		if err != nil {
			panic(err) // the source does not fail
		}
		body := make([]byte, x.env.Body)
		for i := range body {
			body[i] = letters[x.random.IntN(len(letters))]
		}
		x.entries = append(x.entries, bucket.Entry{ID: id, From: "author", Body: string(body)})
	}
}

// open opens the layouts.
func (x *comparing) open(ctx context.Context) error {
	names, open := pebblelayouts.Names(), x.openEmbedded
	if x.env.onMongoDB() {
		names, open = mongolayouts.Names(), x.openMongoDB
	}
	if len(x.o.Layouts) > 0 {
		names = x.o.Layouts
	}
	for _, name := range names {
		l, err := open(ctx, name)
		if err != nil {
			return err
		}
		l.name, l.reads = name, []reads{{n: 50}, {n: 100}} //nolint:mnd // the sizes of pages
		x.layouts = append(x.layouts, l)
	}
	return nil
}

func (x *comparing) openEmbedded(ctx context.Context, name string) (*compared, error) {
	dir, err := os.MkdirTemp(x.env.Dir, "fanmail-bench-layout-")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	c := x.env.Config.Embedded
	l, err := pebblelayouts.Open(ctx, name, pebblelayouts.Options{
		Dir: dir, CacheBytes: int64(c.Cache), MemTableBytes: int64(c.Memtable), BucketSize: x.o.BucketSize, Newest: x.o.Newest,
		Now: x.env.Now, Logger: x.env.Logger,
	})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	written := func() []Figure {
		log, flushed, compacted := l.Written()
		return []Figure{{"log", mib(float64(log)), "MiB"}, {"flushed", mib(float64(flushed)), "MiB"}, {"compacted", mib(float64(compacted)), "MiB"}}
	}
	finish := func(ctx context.Context) (figures []Figure, err error) {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		if err := l.Close(ctx); err != nil {
			return nil, err
		}
		records, index, err := pebblelayouts.Sizes(ctx, name, dir)
		return []Figure{{"records", mib(records), "MiB"}, {"all indexes", mib(index), "MiB"}, {"in all", mib(records + index), "MiB"}}, err
	}
	return &compared{layoutOf: l, written: written, finish: finish}, nil
}

func (x *comparing) openMongoDB(ctx context.Context, name string) (*compared, error) {
	f, m := x.env.Config.Fanout, x.env.Config.MongoDB
	l, err := mongolayouts.Open(ctx, name, mongolayouts.Options{
		URI: string(m.URI), Database: fmt.Sprintf("%s_bench_%s", m.Database, strings.ToLower(rand.Text()[:8])), Timeout: m.Timeout,
		Operations: m.BulkOperations, Commands: min(m.Concurrency, max(1, f.BatchOwners/m.BulkOperations)),
		BucketSize: x.o.BucketSize, Newest: x.o.Newest, Now: x.env.Now, Logger: x.env.Logger,
	})
	if err != nil {
		return nil, err
	}
	written := func() []Figure { return []Figure{{"requests", mib(float64(l.Written())), "MiB"}} }
	finish := func(ctx context.Context) ([]Figure, error) {
		s, err := l.Sizes(ctx)
		figures := figuresOf(s, true)
		all := Figure{"in all", figures[1].Value + figures[2].Value, "MiB"} // on disk, and all indexes
		return append(figures, all), errors.Join(err, l.Close(ctx))
	}
	return &compared{layoutOf: l, written: written, finish: finish}, nil
}

func mib(bytes float64) float64 { return bytes / (1 << 20) }

// turns calls do with each layout. Another layout is the first in each turn.
func (x *comparing) turns(turn int, do func(*compared) error) error {
	for i := range x.layouts {
		l := x.layouts[(turn+i)%len(x.layouts)]
		if err := do(l); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	return nil
}

// fill sends the messages that are there at the start.
func (x *comparing) fill(ctx context.Context) error {
	x.env.Tell(fmt.Sprintf("filling %d inboxes with %d messages in each layout", x.o.Recipients, x.o.There))
	for turn, e := range x.entries[:x.o.There] {
		if err := x.turns(turn, func(l *compared) error {
			_, err := l.Send(ctx, e, x.recipients)
			return err
		}); err != nil {
			return err
		}
	}
	return settle(ctx)
}

// send sends messages, and measures how long that takes.
func (x *comparing) send(ctx context.Context) error {
	x.env.Tell("sending messages")
	for _, l := range x.layouts {
		l.before = l.written()
	}
	for turn, e := range x.entries[x.o.There:] {
		if err := x.turns(turn, func(l *compared) error {
			began := x.env.Now()
			documents, err := l.Send(ctx, e, x.recipients)
			if err != nil {
				return err
			}
			l.answered = append(l.answered, x.env.Now().Sub(began))
			l.documents += documents
			for i := range min(probed, len(x.recipients)) {
				at := 0
				if i > 0 {
					at = i * (len(x.recipients) - 1) / (min(probed, len(x.recipients)) - 1)
				}
				ids, _, err := l.Read(ctx, x.recipients[at], 1)
				if err != nil {
					return err
				}
				if !slices.Equal(ids, []message.ID{e.ID}) {
					return fmt.Errorf("%s cannot read %s after it was sent", x.recipients[at], e.ID)
				}
			}
			l.readable = append(l.readable, x.env.Now().Sub(began))
			return nil
		}); err != nil {
			return err
		}
	}
	for _, l := range x.layouts {
		l.after = l.written()
	}
	return nil
}

// read reads random inboxes twice, and measures the second time.
func (x *comparing) read(ctx context.Context) error {
	x.env.Tell("reading inboxes")
	var want []message.ID
	for _, e := range slices.Backward(x.entries) {
		want = append(want, e.ID)
	}
	for turn := range readTurns {
		some := make([]message.UserID, max(1, min(readInboxes, len(x.recipients))/readTurns))
		for i := range some {
			some[i] = x.recipients[x.random.IntN(len(x.recipients))]
		}
		if err := x.turns(turn, func(l *compared) error {
			for i := range l.reads {
				if err := l.readSome(ctx, x, &l.reads[i], some, want); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func (l *compared) readSome(ctx context.Context, x *comparing, r *reads, some []message.UserID, want []message.ID) error {
	n := min(r.n, len(want))
	if l.name == "newest-n" {
		n = min(n, x.o.Newest)
	}
	for _, measured := range []bool{false, true} {
		for _, recipient := range some {
			began := x.env.Now()
			ids, documents, err := l.Read(ctx, recipient, r.n)
			took := x.env.Now().Sub(began)
			if err != nil {
				return err
			}
			if !slices.Equal(ids, want[:n]) {
				return fmt.Errorf("%s does not read the newest %d messages", recipient, n)
			}
			if measured {
				r.took = append(r.took, took)
				r.documents += documents
			}
		}
	}
	return nil
}

// redeliver makes some deliveries of the measured messages again, and counts what the recipients see. The layout buckets must show each message once.
func (x *comparing) redeliver(ctx context.Context) error {
	if x.o.Redeliver == 0 {
		return nil
	}
	x.env.Tell("making deliveries again")
	sent, again := x.entries[x.o.There:], 0
	pairs := make([][]message.UserID, len(sent))
	for i := range sent {
		for _, recipient := range x.recipients {
			if x.random.Float64() < x.o.Redeliver {
				pairs[i] = append(pairs[i], recipient)
				again++
			}
		}
	}
	return x.turns(0, func(l *compared) error {
		for i, e := range sent {
			if len(pairs[i]) > 0 {
				if _, err := l.Send(ctx, e, pairs[i]); err != nil {
					return err
				}
			}
		}
		double, lost := 0, 0
		for _, recipient := range x.recipients {
			ids, _, err := l.Read(ctx, recipient, 2*len(sent)) //nolint:mnd // all, if each is there twice
			if err != nil {
				return err
			}
			shown := make(map[message.ID]int)
			for _, id := range ids {
				shown[id]++
			}
			for _, e := range sent {
				double += max(0, shown[e.ID]-1)
				lost += max(0, 1-shown[e.ID])
			}
		}
		l.right = []Figure{{"made again", float64(again), ""}, {"double", float64(double), ""}, {"lost", float64(lost), ""}}
		if l.name == "buckets" && double+lost > 0 {
			return fmt.Errorf("%d deliveries are shown twice, and %d are lost", double, lost)
		}
		return nil
	})
}

// rows returns the figures of a layout.
func (l *compared) rows(messages int, sizes []Figure) []Row {
	send := []Figure{
		{"answered p50", l.answered.percentile(50), "ms"},
		{"readable p50", l.readable.percentile(50), "ms"},
		{"documents", float64(l.documents) / float64(messages), "per message"},
	}
	for i, f := range l.after {
		send = append(send, Figure{f.Name, (f.Value - l.before[i].Value) / float64(messages), "MiB per message"})
	}
	rows := []Row{{Case: l.name + " send", Figures: send}}
	for _, r := range l.reads {
		rows = append(rows, Row{Case: fmt.Sprintf("%s read %d", l.name, r.n), Figures: append(latency("took", r.took),
			Figure{"documents", float64(r.documents) / float64(len(r.took)), ""})})
	}
	rows = append(rows, Row{Case: l.name + " size", Figures: sizes})
	if l.right != nil {
		rows = append(rows, Row{Case: l.name + " right", Figures: l.right})
	}
	return rows
}

func (e Env) onMongoDB() bool { return e.Config.Store == config.StoreMongoDB }
