package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fanmail/fanmail/bench/mongolayouts"
	"github.com/fanmail/fanmail/internal/bench"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// wholeServer sends as many messages through a server, and reads pages from it. Everything goes over HTTP. The author of the messages has the
// recipients as followers.
func (x *comparing) wholeServer(ctx context.Context) (rows []Row, err error) {
	const entriesTogether = 100_000
	x.env.Tell("filling the inboxes of a server")
	w, err := x.env.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close(ctx)) }()
	if err := errors.Join(w.See(ctx, x.env.Now(), x.recipients), w.Follow(ctx, message.Source(layoutAuthor), x.recipients)); err != nil {
		return nil, err
	}
	for some := range slices.Chunk(x.recipients, max(1, entriesTogether/x.o.There)) {
		if err := w.Preload(ctx, some, x.there()); err != nil {
			return nil, err
		}
	}
	if err := bench.Settle(ctx); err != nil {
		return nil, err
	}
	s := serving{comparing: x, world: w, l: &compared{name: ofServer, reads: []reads{{n: 50}, {n: 100}}}} //nolint:mnd // the sizes of pages
	for _, e := range slices.Backward(x.there()) {
		s.newest = append(s.newest, e.ID)
	}
	x.env.Tell("sending messages through the server")
	for _, e := range x.sent() {
		if err := s.send(ctx, e.Body); err != nil {
			return nil, err
		}
	}
	x.env.Tell("reading inboxes from the server")
	for range readTurns {
		if err := s.read(ctx); err != nil {
			return nil, err
		}
	}
	size, err := s.size(ctx)
	if err != nil {
		return nil, err
	}
	rows = []Row{{Case: ofServer + " send", Figures: []Figure{
		figure("answered p50", s.l.answered.Percentile(50), "ms"), figure("readable p50", s.l.readable.Percentile(50), "ms"),
	}}}
	for _, r := range s.l.reads {
		rows = append(rows, Row{Case: fmt.Sprintf("%s read %d", ofServer, r.n), Figures: bench.Latency("took", r.took)})
	}
	return append(rows, Row{Case: ofServer + " size", Figures: size},
		Row{Case: ofServer + " cost", Figures: cost(s.l.sending, s.l.reading, x.o.ReadsPerSend)}), nil
}

// serving is the whole server beside the layouts.
type serving struct {
	*comparing
	world *world
	l     *compared
	// newest are the ids of all messages, the newest first.
	newest []message.ID
}

// send publishes a message, and waits until its fan-out is done and some recipients have read it.
func (s *serving) send(ctx context.Context, body string) error {
	draft := s.world.ToFollowers(layoutAuthor)
	draft.Body = body
	var done time.Duration
	used, err := s.processor.spend(ctx, func() error {
		began := s.env.Now()
		receipt, err := s.world.Client.Publish(ctx, draft, "")
		if err != nil {
			return err
		}
		s.l.answered = append(s.l.answered, s.env.Now().Sub(began))
		s.newest = slices.Insert(s.newest, 0, receipt.ID)
		total, err := s.world.Await(ctx, []message.ID{receipt.ID})
		if err == nil && (total.Delivered != int64(len(s.recipients)) || total.Skipped != 0) {
			err = fmt.Errorf("delivered %d and skipped %d, want %d and 0", total.Delivered, total.Skipped, len(s.recipients))
		}
		done = s.env.Now().Sub(began)
		return err
	})
	if err != nil {
		return err
	}
	began := s.env.Now()
	for _, recipient := range s.probes() {
		if err := s.page(ctx, recipient, 1); err != nil {
			return err
		}
	}
	s.l.readable = append(s.l.readable, done+s.env.Now().Sub(began))
	after, err := s.processor.spend(ctx, func() error { return bench.Idle(ctx, leftWindow, leftBehind*done) })
	s.l.sending = s.l.sending.plus(used, len(s.recipients)).plus(after, 0)
	return err
}

// page reads the newest messages of a recipient, and requires that they are the right ones.
func (s *serving) page(ctx context.Context, recipient message.UserID, n int) error {
	page, err := s.world.Client.Inbox(ctx, recipient, client.InboxOptions{Limit: n, Peek: true})
	if err != nil {
		return err
	}
	var ids []message.ID
	for _, m := range page.Messages {
		ids = append(ids, m.ID)
	}
	if !slices.Equal(ids, s.newest[:min(n, len(s.newest))]) {
		return fmt.Errorf("%s does not read the newest %d messages", recipient, n)
	}
	return nil
}

// read reads some inboxes twice, and measures the second time.
func (s *serving) read(ctx context.Context) error {
	some := s.randomInboxes()
	for i := range s.l.reads {
		r := &s.l.reads[i]
		var took bench.Times
		pages := func() error {
			took = nil
			for _, recipient := range some {
				began := s.env.Now()
				if err := s.page(ctx, recipient, r.n); err != nil {
					return err
				}
				took = append(took, s.env.Now().Sub(began))
			}
			return nil
		}
		if err := pages(); err != nil {
			return err
		}
		used, err := s.processor.spend(ctx, pages)
		if err != nil {
			return err
		}
		r.took = append(r.took, took...)
		if i == 0 {
			s.l.reading = s.l.reading.plus(used, len(some))
		}
	}
	return nil
}

// size returns the size of the inboxes on MongoDB, and that of all files of the embedded store.
func (s *serving) size(ctx context.Context) ([]Figure, error) {
	if s.env.OnMongoDB() {
		sizes, err := mongolayouts.InboxSizes(ctx, string(s.world.Config.MongoDB.URI), s.world.Config.MongoDB.Database)
		figures := figuresOf(sizes, true)
		return append(figures, figure("in all", figures[1].Value+figures[2].Value, "MiB")), err // on disk, and all indexes
	}
	if err := bench.Settle(ctx); err != nil {
		return nil, err
	}
	files, err := s.world.size()
	return []Figure{figure("in all", files, "MiB")}, err
}
