package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"github.com/fanmail/fanmail/bench/mongolayouts"
	"github.com/fanmail/fanmail/bench/pebblelayouts"
	"github.com/fanmail/fanmail/internal/bench"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// LayoutsOptions configure env.Layouts.
type LayoutsOptions struct {
	// Recipients is the number of inboxes, There how many messages each has at the start, and Messages how many are sent to all while the time is
	// measured.
	Recipients, There, Messages int
	// Layouts are the names of the layouts; none means all of the store.
	Layouts []string
	// BucketSize is the number of messages in a full bucket, and Newest how many messages newest-n keeps.
	BucketSize, Newest int
	// ReadsPerSend is the number of reads of the newest 50 messages for each delivery, in the cost.
	ReadsPerSend float64
	// Server are the names of the server's processes on this machine, whose processor time is read. None means that the server is asked.
	Server []string
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
	// killedMessages is the number of messages that a child sends. It is killed while it sends the last one.
	killedMessages = 10
	// leftBehind is for how many times the time of a send the work that it leaves behind is waited for.
	leftBehind = 10
	// leftWindow is how long the process has to be idle after a send.
	leftWindow = 20 * time.Millisecond
	// readInboxes is the number of random inboxes that are read, at most about as many as there are, in readTurns turns.
	readInboxes, readTurns = 1000, 10
)

// layoutOf is what the layouts of both stores share.
type layoutOf interface {
	Send(ctx context.Context, e bucket.Entry, recipients []message.UserID) (documents int, err error)
	Fill(ctx context.Context, entries []bucket.Entry, recipients []message.UserID) error
	Read(ctx context.Context, recipient message.UserID, n int) (ids []message.ID, documents int, err error)
	Close(ctx context.Context) error
}

// compared is a layout with what was measured.
type compared struct {
	layoutOf // nil while another process has it
	// name is the name in the report, and order says how another process opens the layout.
	name  string
	order order
	// written returns the bytes that were written since the layout was opened.
	written func() []Figure
	// apart calls do while another process may open the layout.
	apart func(ctx context.Context, do func() error) error
	// cool restarts the layout with nothing of it in the memory, and reports whether that is possible.
	cool func(ctx context.Context) (bool, error)
	// sizes returns the sizes of the layout, which may close it. remove closes and removes it.
	sizes  func(ctx context.Context) ([]Figure, error)
	remove func(ctx context.Context) error

	answered, readable bench.Times
	documents          int
	before, after      []Figure
	reads              []reads
	sending, reading   spent // by sends, and by reads of 50
	killed, right      []Figure
}

// reads are the reads of so many of the newest messages.
type reads struct {
	n, documents int
	took         bench.Times
	cold         bench.Times // none if the files cannot be dropped from the memory
}

type comparing struct {
	env        env
	o          LayoutsOptions
	layouts    []*compared
	recipients []message.UserID
	// entries are those that are there, those that are sent, and those that a child sends.
	entries   []bucket.Entry
	random    *mathrand.Rand
	processor processor
}

func (x *comparing) there() []bucket.Entry { return x.entries[:x.o.There] }
func (x *comparing) sent() []bucket.Entry {
	return x.entries[x.o.There : x.o.There+x.o.Messages]
}
func (x *comparing) byChild() []bucket.Entry { return x.entries[x.o.There+x.o.Messages:] }

// layoutAuthor sends all messages.
const layoutAuthor = message.UserID("author")

// ofServer is the name of the row of the whole server.
const ofServer = "fanmail"

// Layouts measures inboxes in different layouts: those of the store, and those of recipes. The layouts get the same messages, and take turns. Then it
// measures the whole server.
func (e env) Layouts(ctx context.Context, o LayoutsOptions) (report Report, err error) {
	report = Report{Benchmark: "layouts", Store: e.Config.Store}
	if report.Facts, err = e.layoutFacts(ctx, o); err != nil {
		return report, err
	}
	if len(o.Layouts) == 0 {
		o.Layouts = append(pebblelayouts.Names(), ofServer)
		if e.OnMongoDB() {
			o.Layouts = append(mongolayouts.Names(), ofServer)
		}
	}
	x := &comparing{env: e, o: o, recipients: bench.Users("user", 0, o.Recipients), processor: e.processor(o.Server)}
	x.draw()
	if report.Rows, err = x.compare(ctx); err != nil {
		return report, err
	}
	if slices.Contains(o.Layouts, ofServer) {
		rows, err := x.wholeServer(ctx)
		if err != nil {
			return report, fmt.Errorf("%s: %w", ofServer, err)
		}
		report.Rows = append(report.Rows, rows...)
	}
	report.Facts = append(report.Facts, Fact{Name: "load average after", Value: loadAverage()})
	return report, nil
}

// compare measures the layouts.
func (x *comparing) compare(ctx context.Context) (rows []Row, err error) {
	defer func() {
		for _, l := range x.layouts { // those that an error has left
			err = errors.Join(err, l.remove(context.WithoutCancel(ctx)))
		}
	}()
	for _, step := range []func(context.Context) error{x.open, x.fill, x.send, x.read, x.readCold, x.kill, x.redeliver} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	x.env.Tell("reading the sizes")
	for len(x.layouts) > 0 {
		l := x.layouts[0]
		sizes, err := l.sizes(ctx)
		if err != nil {
			return nil, err
		}
		x.layouts = x.layouts[1:]
		if err := l.remove(ctx); err != nil {
			return nil, err
		}
		rows = append(rows, l.rows(x.o, sizes)...)
	}
	return rows, nil
}

// draw draws the messages.
func (x *comparing) draw() {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	var seed [32]byte
	binary.BigEndian.PutUint64(seed[:], x.o.Seed)
	source := mathrand.NewChaCha8(seed)
	x.random = mathrand.New(source) //nolint:gosec // it is no secret
	n := x.o.There + x.o.Messages + killedMessages
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
		x.entries = append(x.entries, bucket.Entry{ID: id, From: layoutAuthor, Body: string(body)})
	}
}

// open opens the layouts.
func (x *comparing) open(ctx context.Context) error {
	open := x.openEmbedded
	if x.env.OnMongoDB() {
		open = x.openMongoDB
	}
	for _, name := range x.o.Layouts {
		if name == ofServer {
			continue
		}
		l, err := open(ctx, name)
		if err != nil {
			return err
		}
		l.name, l.reads = name, []reads{{n: 50}, {n: 100}} //nolint:mnd // the sizes of pages
		x.layouts = append(x.layouts, l)
	}
	return nil
}

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

// fill fills the inboxes with the messages that are there at the start.
func (x *comparing) fill(ctx context.Context) error {
	for _, l := range x.layouts {
		x.env.Tell(fmt.Sprintf("filling %d inboxes with %d messages: %s", x.o.Recipients, x.o.There, l.name))
		if err := l.Fill(ctx, x.there(), x.recipients); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	return bench.Settle(ctx)
}

// send sends messages, and measures how long that takes.
func (x *comparing) send(ctx context.Context) error {
	x.env.Tell("sending messages")
	for _, l := range x.layouts {
		l.before = l.written()
	}
	for turn, e := range x.sent() {
		if err := x.turns(turn, func(l *compared) error { return x.sendOne(ctx, l, e) }); err != nil {
			return err
		}
	}
	for _, l := range x.layouts {
		l.after = l.written()
	}
	return nil
}

// sendOne sends a message to all, and lets some of them read it. It then waits until the work that the layout has left behind, such as compactions,
// is done, and counts it.
func (x *comparing) sendOne(ctx context.Context, l *compared, e bucket.Entry) error {
	var answered time.Duration
	during, err := x.processor.spend(ctx, func() error {
		began := x.env.Now()
		documents, err := l.Send(ctx, e, x.recipients)
		answered = x.env.Now().Sub(began)
		l.documents += documents
		return err
	})
	if err != nil {
		return err
	}
	l.answered = append(l.answered, answered)
	began := x.env.Now()
	for _, recipient := range x.probes() {
		ids, _, err := l.Read(ctx, recipient, 1)
		if err != nil {
			return err
		}
		if !slices.Equal(ids, []message.ID{e.ID}) {
			return fmt.Errorf("%s cannot read %s after it was sent", recipient, e.ID)
		}
	}
	l.readable = append(l.readable, answered+x.env.Now().Sub(began))
	after, err := x.processor.spend(ctx, func() error { return bench.Idle(ctx, leftWindow, leftBehind*answered) })
	l.sending = l.sending.plus(during, len(x.recipients)).plus(after, 0)
	return err
}

// probes returns the recipients who are asked whether they can read a message: the first, the last, and some that are spread evenly between them.
func (x *comparing) probes() []message.UserID {
	n := min(probed, len(x.recipients))
	probes := make([]message.UserID, n)
	for i := range probes {
		probes[i] = x.recipients[i*(len(x.recipients)-1)/max(1, n-1)]
	}
	return probes
}

// read reads random inboxes twice, and measures the second time.
func (x *comparing) read(ctx context.Context) error {
	x.env.Tell("reading inboxes")
	for turn := range readTurns {
		some := x.randomInboxes()
		if err := x.turns(turn, func(l *compared) error {
			for i := range l.reads {
				r := &l.reads[i]
				if _, _, err := x.readSome(ctx, l, r.n, some); err != nil { // now they are warm
					return err
				}
				var took bench.Times
				used, err := x.processor.spend(ctx, func() (err error) {
					var documents int
					took, documents, err = x.readSome(ctx, l, r.n, some)
					r.documents += documents
					return err
				})
				if err != nil {
					return err
				}
				r.took = append(r.took, took...)
				if i == 0 {
					l.reading = l.reading.plus(used, len(some))
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// readCold restarts the layouts, and reads other random inboxes for the first time.
func (x *comparing) readCold(ctx context.Context) error {
	x.env.Tell("reading inboxes from the disk")
	for turn := range readTurns {
		some := x.randomInboxes()
		if err := x.turns(turn, func(l *compared) error {
			for i := range l.reads {
				cold, err := l.cool(ctx)
				if err != nil || !cold {
					return err
				}
				took, _, err := x.readSome(ctx, l, l.reads[i].n, some)
				if err != nil {
					return err
				}
				l.reads[i].cold = append(l.reads[i].cold, took...)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// randomInboxes draws the inboxes that are read in a turn.
func (x *comparing) randomInboxes() []message.UserID {
	some := make([]message.UserID, max(1, min(readInboxes, len(x.recipients))/readTurns))
	for i := range some {
		some[i] = x.recipients[x.random.IntN(len(x.recipients))]
	}
	return some
}

// readSome reads the newest messages of some inboxes, and requires that they are the right ones.
func (x *comparing) readSome(ctx context.Context, l *compared, newest int, some []message.UserID) (took bench.Times, documents int, err error) {
	n := min(newest, x.o.There+x.o.Messages)
	if l.name == "newest-n" {
		n = min(n, x.o.Newest)
	}
	var want []message.ID
	for _, e := range slices.Backward(x.entries[x.o.There+x.o.Messages-n : x.o.There+x.o.Messages]) {
		want = append(want, e.ID)
	}
	for _, recipient := range some {
		began := x.env.Now()
		ids, read, err := l.Read(ctx, recipient, newest)
		took = append(took, x.env.Now().Sub(began))
		if err != nil {
			return nil, 0, err
		}
		if !slices.Equal(ids, want) {
			return nil, 0, fmt.Errorf("%s does not read the newest %d messages", recipient, n)
		}
		documents += read
	}
	return took, documents, nil
}

// rows returns the figures of a layout.
func (l *compared) rows(o LayoutsOptions, sizes []Figure) []Row {
	send := []Figure{
		figure("answered p50", l.answered.Percentile(50), "ms"),
		figure("readable p50", l.readable.Percentile(50), "ms"),
		figure("documents", float64(l.documents)/float64(o.Messages), "per message"),
	}
	for i, f := range l.after {
		send = append(send, figure(f.Name, (f.Value-l.before[i].Value)/float64(o.Messages), "MiB per message"))
	}
	rows := []Row{{Case: l.name + " send", Figures: send}}
	for _, r := range l.reads {
		rows = append(rows, r.row(l.name))
	}
	rows = append(rows, Row{Case: l.name + " size", Figures: sizes}, Row{Case: l.name + " cost", Figures: cost(l.sending, l.reading, o.ReadsPerSend)},
		Row{Case: l.name + " killed", Figures: l.killed})
	if l.right != nil {
		rows = append(rows, Row{Case: l.name + " right", Figures: l.right})
	}
	return rows
}

// row returns the figures of reads. Those of cold reads are left out if there were none.
func (r reads) row(name string) Row {
	figures := bench.Latency("took", r.took)
	if len(r.cold) > 0 {
		figures = append(figures, bench.Latency("cold", r.cold)...)
	}
	figures = append(figures, figure("documents", float64(r.documents)/float64(len(r.took)), ""))
	return Row{Case: fmt.Sprintf("%s read %d", name, r.n), Figures: figures}
}
