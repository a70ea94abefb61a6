package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

// redisFollowers is the list of the author's followers.
const redisFollowers = "followers:" + author

// redisInbox is the sorted set of an owner's messages, as JSON, by their numbers.
func redisInbox(owner string) string { return "inbox:" + owner }

func (o options) redisAddr() string { return fmt.Sprintf("127.0.0.1:%d", o.redis) }

func (o options) openRedis() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: o.redisAddr()})
}

// fillRedis writes the list of followers.
func fillRedis(ctx context.Context, o options) error {
	client := o.openRedis()
	defer func() { _ = client.Close() }()
	for some := range slices.Chunk(followersOf(o.followers), chunk) {
		if err := client.RPush(ctx, redisFollowers, some).Err(); err != nil {
			return err
		}
	}
	return nil
}

// redisInboxes are sorted sets.
type redisInboxes struct{ client *redis.Client }

func (r redisInboxes) counts(ctx context.Context, owners []string) ([]int, error) {
	pipe := r.client.Pipeline()
	answers := make([]*redis.IntCmd, len(owners))
	for i, owner := range owners {
		answers[i] = pipe.ZCard(ctx, redisInbox(owner))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	counts := make([]int, len(owners))
	for i, answer := range answers {
		counts[i] = int(answer.Val())
	}
	return counts, nil
}

func (r redisInboxes) bodies(ctx context.Context, owner string) ([]string, error) {
	elements, err := r.client.ZRange(ctx, redisInbox(owner), 0, -1).Result()
	if err != nil {
		return nil, err
	}
	var bodies []string
	for _, element := range elements {
		var p post
		if err := json.Unmarshal([]byte(element), &p); err != nil {
			return nil, err
		}
		bodies = append(bodies, p.Body)
	}
	return bodies, nil
}

// settled is true, because Redis answers after it has synced if it syncs every write, and nothing tells when it syncs otherwise.
func (redisInboxes) settled(context.Context) (bool, error) { return true, nil }
