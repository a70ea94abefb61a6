package main

import (
	"context"
	"errors"
	"fmt"
)

// queue accepts messages and, except for Fanmail, delivers them.
type queue interface {
	// accept returns when the message is accepted.
	accept(ctx context.Context, p post) error
	// stop finishes the jobs in progress.
	stop(ctx context.Context) error
}

// work is the worker's process: it accepts the messages that its parent sends, and delivers them until the parent has no more.
func work(ctx context.Context, kind string, o options) error {
	up := newParent()
	var q queue
	var err error
	switch kind {
	case "asynq":
		q, err = startAsynq(ctx, o)
	case "river":
		q, err = startRiver(ctx, o)
	case "fanmail":
		q, err = startFanmail(o)
	default:
		err = fmt.Errorf("there is no queue %q", kind)
	}
	if err != nil {
		return err
	}
	if err := up.send(ready{true}); err != nil {
		return err
	}
	for {
		var p post
		if more, err := up.receive(&p); err != nil || !more {
			return errors.Join(err, q.stop(ctx))
		}
		if err := q.accept(ctx, p); err != nil {
			return errors.Join(err, q.stop(ctx))
		}
		if err := up.send(ready{true}); err != nil {
			return errors.Join(err, q.stop(ctx))
		}
	}
}
