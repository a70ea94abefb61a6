package main

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// quiet keeps time between an author's messages to followers and the moments when a user unfollows that author, and between messages to a
// topic and the ends of its subscriptions. Otherwise the check could not decide whether a message was for that user.
type quiet struct {
	apart time.Duration

	mu      sync.Mutex
	sources map[source]*sync.RWMutex
}

// source is an author or a topic.
type source struct{ author, topic string }

func compareSources(a, b source) int {
	return cmp.Or(cmp.Compare(a.author, b.author), cmp.Compare(a.topic, b.topic))
}

// locks returns the locks of sources in a fixed order, so that two callers cannot deadlock.
func (q *quiet) locks(sources map[source]bool) (locks []*sync.RWMutex) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range slices.SortedFunc(maps.Keys(sources), compareSources) {
		if q.sources[s] == nil {
			q.sources[s] = new(sync.RWMutex)
		}
		locks = append(locks, q.sources[s])
	}
	return locks
}

// publish calls do. Meanwhile no user unfollows the author, if the message is to followers, and no subscription ends to a topic of the
// message or to one above it.
func (q *quiet) publish(d draft, do func() error) error {
	sources := make(map[source]bool)
	if d.Audience == toFollowers {
		sources[source{author: d.From}] = true
	}
	for _, topic := range d.Topics {
		for i, c := range topic + "/" {
			if c == '/' {
				sources[source{topic: topic[:i]}] = true
			}
		}
	}
	for _, lock := range q.locks(sources) {
		lock.RLock()
		defer lock.RUnlock()
	}
	return do()
}

// end calls do. If the change ends edges or subscriptions, no message is published to them meanwhile, and end keeps the distance before and
// after it.
func (q *quiet) end(ctx context.Context, c change, do func() error) error {
	sources := make(map[source]bool)
	for _, p := range c.Unfollow {
		sources[source{author: p.Followee}] = true
	}
	for _, p := range c.Unsubscribe {
		sources[source{topic: p.Topic}] = true
	}
	if len(sources) == 0 {
		return do()
	}
	for _, lock := range q.locks(sources) {
		lock.Lock()
		defer lock.Unlock()
	}
	if err := rest(ctx, q.apart); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return rest(ctx, q.apart)
}
