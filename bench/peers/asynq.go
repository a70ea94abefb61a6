package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

const (
	asynqTrigger = "trigger"
	asynqDeliver = "deliver"
	// asynqWorkers is the number of jobs at a time. A job waits for Redis most of its time.
	asynqWorkers = 64
	// asynqAdders is the number of connections that add jobs; asynq adds each job in a request of its own.
	asynqAdders = 16
)

// asynqQueue has one job for each message, which adds jobs for its followers. Each of these writes to the followers' sorted sets.
type asynqQueue struct {
	perJob int
	redis  *redis.Client
	client *asynq.Client
	server *asynq.Server
}

// delivery is the payload of a job.
type delivery struct {
	Post   post     `json:"post"`
	Owners []string `json:"owners"`
}

func startAsynq(ctx context.Context, o options) (*asynqQueue, error) {
	connection := asynq.RedisClientOpt{Addr: o.redisAddr(), PoolSize: asynqWorkers + asynqAdders}
	q := &asynqQueue{perJob: o.perJob, redis: o.openRedis(), client: asynq.NewClient(connection)}
	q.server = asynq.NewServer(connection, asynq.Config{
		Concurrency: asynqWorkers,
		LogLevel:    asynq.WarnLevel,
		BaseContext: func() context.Context { return ctx },
		// The pause of a worker that has found no job. The default is a second, which would be most of a run.
		TaskCheckInterval: 10 * time.Millisecond,
	})
	handlers := asynq.NewServeMux()
	handlers.HandleFunc(asynqTrigger, q.trigger)
	handlers.HandleFunc(asynqDeliver, q.deliver)
	return q, q.server.Start(handlers)
}

func (q *asynqQueue) accept(ctx context.Context, p post) error {
	payload, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = q.client.EnqueueContext(ctx, asynq.NewTask(asynqTrigger, payload))
	return err
}

// trigger adds the jobs of a message.
func (q *asynqQueue) trigger(ctx context.Context, task *asynq.Task) error {
	var p post
	if err := json.Unmarshal(task.Payload(), &p); err != nil {
		return err
	}
	followers, err := q.redis.LRange(ctx, redisFollowers, 0, -1).Result()
	if err != nil {
		return err
	}
	adders, ctx := errgroup.WithContext(ctx)
	adders.SetLimit(asynqAdders)
	for owners := range slices.Chunk(followers, q.perJob) {
		adders.Go(func() error {
			payload, err := json.Marshal(delivery{p, owners})
			if err != nil {
				return err
			}
			_, err = q.client.EnqueueContext(ctx, asynq.NewTask(asynqDeliver, payload))
			return err
		})
	}
	return adders.Wait()
}

// deliver writes a message to the inboxes of some followers. Repeated, it changes nothing.
func (q *asynqQueue) deliver(ctx context.Context, task *asynq.Task) error {
	var d delivery
	if err := json.Unmarshal(task.Payload(), &d); err != nil {
		return err
	}
	element, err := json.Marshal(d.Post)
	if err != nil {
		return err
	}
	_, err = q.redis.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, owner := range d.Owners {
			pipe.ZAdd(ctx, redisInbox(owner), redis.Z{Score: float64(d.Post.Number), Member: element})
		}
		return nil
	})
	return err
}

func (q *asynqQueue) stop(context.Context) error {
	q.server.Shutdown()
	return errors.Join(q.client.Close(), q.redis.Close())
}
