package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// pushes counts the applied pushes and their entries, and notes when entries arrive in watched inboxes.
type pushes struct {
	bucket.Store
	applied, entries atomic.Int64

	mu       sync.Mutex
	arrivals map[message.UserID]map[message.ID]time.Time
}

// Push implements bucket.Store.
func (p *pushes) Push(ctx context.Context, all []bucket.Push) ([]bucket.Outcome, error) {
	outcomes, err := p.Store.Push(ctx, all)
	now := time.Now() //nolint:forbidigo // what is measured is time
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, o := range outcomes {
		if !o.Applied {
			continue
		}
		p.applied.Add(1)
		p.entries.Add(int64(len(all[i].Entries)))
		if arrivals := p.arrivals[all[i].Owner]; arrivals != nil {
			for _, e := range all[i].Entries {
				arrivals[e.ID] = now
			}
		}
	}
	return outcomes, err
}

// watch notes from now on when entries arrive in the inboxes of users.
func (p *pushes) watch(users ...message.UserID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.arrivals == nil {
		p.arrivals = make(map[message.UserID]map[message.ID]time.Time)
	}
	for _, user := range users {
		p.arrivals[user] = make(map[message.ID]time.Time)
	}
}

// waits returns how long users waited for a message that was sent at the given time. All of them must have it.
func (p *pushes) waits(users []message.UserID, id message.ID, sent time.Time) (waited Times) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, user := range users {
		waited = append(waited, max(0, p.arrivals[user][id].Sub(sent)))
	}
	return waited
}

// has reports whether a watched user has a message.
func (p *pushes) has(user message.UserID, id message.ID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.arrivals[user][id].IsZero()
}
