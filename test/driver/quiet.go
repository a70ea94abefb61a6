package main

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// quiet keeps time between an author's messages to followers and the moments when a user unfollows that author. Otherwise the check could not decide whether a message was for that user.
type quiet struct {
	apart time.Duration

	mu      sync.Mutex
	authors map[string]*sync.RWMutex
}

// locks returns the locks of authors in a fixed order, so that two callers cannot deadlock.
func (q *quiet) locks(authors map[string]bool) (locks []*sync.RWMutex) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, author := range slices.Sorted(maps.Keys(authors)) {
		if q.authors[author] == nil {
			q.authors[author] = new(sync.RWMutex)
		}
		locks = append(locks, q.authors[author])
	}
	return locks
}

// publish calls do. Meanwhile no user unfollows the author, if the message is to followers.
func (q *quiet) publish(d draft, do func() error) error {
	if d.Audience != toFollowers {
		return do()
	}
	for _, lock := range q.locks(map[string]bool{d.From: true}) {
		lock.RLock()
		defer lock.RUnlock()
	}
	return do()
}

// end calls do. If the change ends edges, no message is published to them meanwhile, and end keeps the distance before and after it.
func (q *quiet) end(ctx context.Context, c change, do func() error) error {
	authors := make(map[string]bool)
	for _, p := range c.Unfollow {
		authors[p.Followee] = true
	}
	if len(authors) == 0 {
		return do()
	}
	for _, lock := range q.locks(authors) {
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
