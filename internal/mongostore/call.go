package mongostore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/internal/startstop"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// firstPause is longer than two colliding writers need to finish one after the other.
	firstPause = 10 * time.Millisecond
	// longestPause bounds how late an operation notices that the server is back.
	longestPause = time.Second
)

// collection is a MongoDB collection with the database whose options its calls follow.
type collection struct {
	*mongo.Collection
	db *DB
}

func (db *DB) collection(name string) collection {
	return collection{Collection: db.database.Collection(name), db: db}
}

// older returns the collection of DB.Plain. Use it only where an older answer errs to the safe side.
func (c collection) older() collection { return c.db.plain.collection(c.Name()) }

// olderFirst returns the collections for a read of what never changes: what a plain read misses is read again.
func (c collection) olderFirst() []collection {
	if c.db.plain == c.db {
		return []collection{c}
	}
	return []collection{c.older(), c}
}

func (c collection) call(ctx context.Context, doing string, operation func(context.Context) error) error {
	return c.db.call(ctx, doing+" in "+c.Name(), operation)
}

// call runs an idempotent operation within Options.Timeout, or less time: see Pool. It repeats the operation after an error that may pass. The
// operation must return an error if any part of it failed. If time runs out, the error is the last one that a server has answered.
func (db *DB) call(ctx context.Context, doing string, operation func(context.Context) error) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = firstPause, longestPause
	return db.within(ctx, doing, func(ctx context.Context) error {
		var answer error
		deadline, _ := ctx.Deadline()
		limit := time.Until(deadline).Round(time.Millisecond)
		for {
			err := operation(ctx)
			if err == nil || permanent(err) {
				return err
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				answer = err
			}
			if ctx.Err() != nil {
				return fmt.Errorf("no success within %v: %w", limit, cmp.Or(answer, err))
			}
			next := pauses.NextBackOff()
			db.opts.Logger.Debug().Err(err).Str("work", doing).Stringer("again_in", next.Round(time.Millisecond)).Msg("database operation failed: trying again")
			startstop.Pause(ctx, next)
		}
	})
}

// within runs an operation with a deadline and wraps its error with a sentinel. If the caller's own context ends, within
// returns that error unchanged, because it says nothing about the server. The metrics name the operation as its error does.
func (db *DB) within(ctx context.Context, doing string, operation func(context.Context) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	began := db.opts.Now()
	defer func() {
		failure := err
		if errors.Is(err, mongo.ErrNoDocuments) { // an answer
			failure = nil
		}
		db.metrics.Done(ctx, doing, began, failure)
		if failure == nil {
			db.pool.Answered(db.opts.Now().Sub(began))
		}
	}()
	limited, cancel := context.WithTimeout(ctx, db.pool.Limit(db.opts.Timeout))
	defer cancel()
	err = operation(limited)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, mongo.ErrClientDisconnected):
		return fmt.Errorf("mongostore: %s: %w", doing, ErrClosed)
	case permanent(err):
		return fmt.Errorf("mongostore: %s: %w", doing, err)
	default: // %v hides the error: this deadline must not look like the deadline of the caller
		return fmt.Errorf("mongostore: %s: %w: %v", doing, ErrUnavailable, err) //nolint:errorlint // see above
	}
}

// each calls do for the indexes 0 to n-1, several at the same time. It returns the first error.
func (db *DB) each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	if n == 1 {
		return do(ctx, 0)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(db.opts.Concurrency)
	for i := range n {
		group.Go(func() (err error) {
			defer panics.Catch(&err)
			return do(ctx, i)
		})
	}
	return group.Wait()
}

// partition returns the partition of a user.
func (db *DB) partition(user message.UserID) int { return partition.Of(user, db.opts.Partitions) }
