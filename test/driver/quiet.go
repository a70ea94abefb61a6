package main

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// quiet keeps time between an author's messages to followers and the moments when a user unfollows that author. Otherwise the check
// could not decide whether a message was for that user.
type quiet struct {
	apart time.Duration

	mu      sync.Mutex
	authors map[string]*sync.RWMutex
}

func (q *quiet) author(name string) *sync.RWMutex {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.authors[name] == nil {
		q.authors[name] = new(sync.RWMutex)
	}
	return q.authors[name]
}

// publish calls do. If the message is to followers, no user unfollows the author meanwhile.
func (q *quiet) publish(d draft, do func() error) error {
	if d.Audience == toFollowers {
		lock := q.author(d.From)
		lock.RLock()
		defer lock.RUnlock()
	}
	return do()
}

// unfollow calls do while none of the unfollowed authors publishes, and keeps the distance before and after it.
func (q *quiet) unfollow(ctx context.Context, pairs []pair, do func() error) error {
	followees := make(map[string]bool)
	for _, p := range pairs {
		followees[p.Followee] = true
	}
	for _, name := range slices.Sorted(maps.Keys(followees)) { // in a fixed order, so that two callers cannot deadlock
		lock := q.author(name)
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
