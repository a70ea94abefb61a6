package viewers

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// keep is how long a user stays a viewer after the last view: about as long as a reader stays at an inbox.
	keep = 5 * time.Minute
	// tellEvery is the least time between two announcements of a user. It is a fraction of keep. So most views are not announced, and a
	// user who continues to view stays a viewer everywhere although some announcements are lost.
	tellEvery = time.Minute
	// usersPerEvent is how many users one event announces. Even if all bytes of their ids have to be escaped, it is below the megabyte
	// that NATS accepts by default.
	usersPerEvent = 256
)

// recent is the users who have viewed their inbox last, at most Max of them.
type recent struct {
	mu sync.Mutex
	// users has the user who has not viewed for longest first. An addition beyond Max drops that user.
	users *simplelru.LRU[message.UserID, view]
	// untold are the users to announce, at most Max; more are dropped.
	untold []message.UserID
	// changed says that users has others than the last list.
	changed bool
}

// view is when a user has viewed, and when any process has announced that.
type view struct{ seen, told time.Time }

func newRecent() *recent {
	users, err := simplelru.NewLRU[message.UserID, view](Max, nil)
	if err != nil { // Max is not positive
		panic(err)
	}
	return &recent{users: users}
}

// seen adds a user who has viewed in this process.
func (r *recent) seen(user message.UserID, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, _ := r.users.Peek(user)
	if past(known.told, now, tellEvery) && len(r.untold) < Max {
		r.untold = append(r.untold, user)
		known.told = now
	}
	r.add(user, view{seen: now, told: known.told})
}

// heard adds a user whom a process has announced.
func (r *recent) heard(user message.UserID, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(user, view{seen: now, told: now})
}

func (r *recent) add(user message.UserID, w view) {
	r.changed = r.changed || !r.users.Contains(user)
	r.users.Add(user, w)
}

// takeUntold returns the users to announce. They count as announced.
func (r *recent) takeUntold() []message.UserID {
	r.mu.Lock()
	defer r.mu.Unlock()
	untold := r.untold
	r.untold = nil
	return untold
}

// list drops the users who have not viewed for long. If the users have changed since the last list, it returns a copy.
func (r *recent) list(now time.Time) (users []message.UserID, changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		_, oldest, ok := r.users.GetOldest()
		if !ok || !past(oldest.seen, now, keep) {
			break
		}
		r.users.RemoveOldest()
		r.changed = true
	}
	if changed, r.changed = r.changed, false; !changed {
		return nil, false
	}
	return r.users.Keys(), true
}

// past reports whether a time is longer ago than d. A time far in the future is past, too: the clock was set back, and the user would
// otherwise stay until it is there again.
func past(t, now time.Time, d time.Duration) bool { return now.Sub(t).Abs() > d }
