package main

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

// riverConnections is the number of connections, and riverWorkers that of jobs at a time.
const riverConnections, riverWorkers = 64, 200

// riverQueue has one job for each message, which adds jobs for its followers. Each of these inserts rows. A job's rows, or the jobs
// that it adds, are committed together with the end of the job.
type riverQueue struct {
	perJob int
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
}

// riverTrigger and riverDeliver are the arguments of jobs.
type (
	riverTrigger struct {
		Post post `json:"post"`
	}
	riverDeliver struct {
		Post   post     `json:"post"`
		Owners []string `json:"owners"`
	}
)

// Kind implements river.JobArgs.
func (riverTrigger) Kind() string { return "trigger" }

// Kind implements river.JobArgs.
func (riverDeliver) Kind() string { return "deliver" }

func startRiver(ctx context.Context, o options) (*riverQueue, error) {
	pool, err := o.openPostgres(ctx, riverConnections)
	if err != nil {
		return nil, err
	}
	q := &riverQueue{perJob: o.perJob, pool: pool}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(q.trigger))
	river.AddWorker(workers, river.WorkFunc(q.deliver))
	q.client, err = river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: riverWorkers}},
		Workers: workers,
		// The values of River's own benchmark. The defaults, 100 ms and 1 s, would be most of a run.
		FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond,
	})
	if err == nil {
		err = q.client.Start(ctx)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return q, nil
}

func (q *riverQueue) accept(ctx context.Context, p post) error {
	_, err := q.client.Insert(ctx, riverTrigger{p}, nil)
	return err
}

// trigger adds the jobs of a message.
func (q *riverQueue) trigger(ctx context.Context, job *river.Job[riverTrigger]) error {
	return pgx.BeginFunc(ctx, q.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, "select follower from followers where author = $1 order by follower", job.Args.Post.From)
		if err != nil {
			return err
		}
		followers, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		var jobs []river.InsertManyParams
		for owners := range slices.Chunk(followers, q.perJob) {
			jobs = append(jobs, river.InsertManyParams{Args: riverDeliver{job.Args.Post, owners}})
		}
		if _, err := q.client.InsertManyFastTx(ctx, tx, jobs); err != nil {
			return err
		}
		_, err = river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
}

// deliver inserts a message into the inboxes of some followers.
func (q *riverQueue) deliver(ctx context.Context, job *river.Job[riverDeliver]) error {
	return pgx.BeginFunc(ctx, q.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "insert into inbox select unnest($1::text[]), $2::text, $3::jsonb on conflict do nothing",
			job.Args.Owners, job.Args.Post.ID, job.Args.Post)
		if err != nil {
			return err
		}
		_, err = river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
}

func (q *riverQueue) stop(ctx context.Context) error {
	defer q.pool.Close()
	return q.client.Stop(ctx)
}
