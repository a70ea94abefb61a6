package main

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// countReaders is how many inboxes are read at the same time to count what they show.
const countReaders = 8

// kill lets a child send messages and kills it half way through the last one, which is then sent again to all. It counts what the recipients see.
func (x *comparing) kill(ctx context.Context) error {
	x.env.Tell("killing the sender half way through a message")
	sent := x.byChild()
	return x.turns(0, func(l *compared) error {
		if err := l.apart(ctx, func() error { return x.sendAndKill(ctx, l) }); err != nil {
			return err
		}
		if _, err := l.Send(ctx, sent[len(sent)-1], x.recipients); err != nil {
			return err
		}
		var err error
		l.killed, err = x.count(ctx, l, sent)
		return err
	})
}

// redeliver makes some deliveries of the measured messages again, and counts what the recipients see.
func (x *comparing) redeliver(ctx context.Context) error {
	if x.o.Redeliver == 0 {
		return nil
	}
	x.env.Tell("making deliveries again")
	sent, again := x.sent(), 0
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
		counted, err := x.count(ctx, l, sent)
		l.right = append([]Figure{figure("made again", float64(again), "")}, counted...)
		return err
	})
}

// count counts the deliveries of messages that are shown twice, and those that are not shown. The layout buckets must have none of both.
func (x *comparing) count(ctx context.Context, l *compared, sent []bucket.Entry) ([]Figure, error) {
	if l.name == "newest-n" { // the others are not lost, they are not kept
		kept := x.entries[max(0, len(x.entries)-x.o.Newest):]
		sent = slices.DeleteFunc(slices.Clone(sent), func(e bucket.Entry) bool { return e.ID.Less(kept[0].ID) })
	}
	var doubles, losses atomic.Int64
	group, one := errgroup.WithContext(ctx)
	group.SetLimit(countReaders)
	for _, recipient := range x.recipients {
		group.Go(func() (err error) {
			defer panics.Catch(&err)
			if one.Err() != nil {
				return one.Err()
			}
			ids, _, err := l.Read(one, recipient, 2*(x.o.Messages+killedMessages)) //nolint:mnd // all, if each is there twice
			if err != nil {
				return err
			}
			shown := make(map[message.ID]int)
			for _, id := range ids {
				shown[id]++
			}
			for _, e := range sent {
				doubles.Add(int64(max(0, shown[e.ID]-1)))
				losses.Add(int64(max(0, 1-shown[e.ID])))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	double, lost := doubles.Load(), losses.Load()
	if l.name == "buckets" && double+lost > 0 {
		return nil, fmt.Errorf("%d deliveries are shown twice, and %d are lost", double, lost)
	}
	return []Figure{figure("double", float64(double), ""), figure("lost", float64(lost), "")}, nil
}
