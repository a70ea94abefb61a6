package main

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// quiet separates in time an author's messages to followers from the moments when a user unfollows that author. Otherwise
// the check could not decide whether such a message was for that user.
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

// publish calls do while no user stops following the author.
func (q *quiet) publish(d draft, do func() error) error {
	if d.Audience == toFollowers {
		lock := q.author(d.From)
		lock.RLock()
		defer lock.RUnlock()
	}
	return do()
}

// unfollow calls do while nothing is published by those who are unfollowed, and not shortly before or after it.
func (q *quiet) unfollow(ctx context.Context, pairs []pair, do func() error) error {
	followees := make(map[string]bool)
	for _, p := range pairs {
		followees[p.Followee] = true
	}
	for _, name := range slices.Sorted(maps.Keys(followees)) { // in one order, so that no two callers wait for each other
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
