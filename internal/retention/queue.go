package retention

import (
	"context"
	"slices"
	"sync"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// together is how many records are read together for the queue, at most.
const together = 64

// queue holds users who wait in memory, each once. A user who does not fit, or who waits when the process ends, is left to the walk. It is safe
// for concurrent use.
type queue struct {
	users chan message.UserID

	mu     sync.Mutex
	purged map[message.UserID]bool // those who wait, and whether their purge point has risen
}

// Grown lets a user's inbox be trimmed soon, because it has grown. It does not block.
func (w *Walker) Grown(user message.UserID) { w.enqueue(user, false) }

// Purged lets the buckets of a user be emptied soon, whose purge point has risen. It does not block.
func (w *Walker) Purged(user message.UserID) { w.enqueue(user, true) }

func (w *Walker) enqueue(user message.UserID, purged bool) {
	q := &w.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if already, waits := q.purged[user]; waits {
		q.purged[user] = already || purged
		return
	}
	select {
	case q.users <- user:
		q.purged[user] = purged
	default:
		w.metrics.full.Inc()
	}
}

// Serve trims and empties the inboxes of users who wait, until intake ends.
func (w *Walker) Serve(intake, _ context.Context) {
	var workers sync.WaitGroup
	for range w.opts.Servers {
		workers.Go(func() {
			for {
				select {
				case <-intake.Done():
					return
				case user := <-w.queue.users:
					w.serve(intake, w.queue.take(user, w.opts.Servers))
				}
			}
		})
	}
	workers.Wait()
}

// take takes a worker's share of the users who wait, beside one who was taken and counts among them. It leaves the others their shares. A
// user who is added afterwards waits again.
func (q *queue) take(user message.UserID, workers int) map[message.UserID]bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	users := map[message.UserID]bool{user: q.purged[user]}
	delete(q.purged, user)
	for most := min(together, (1+len(q.users))/workers); len(users) < most; {
		select {
		case user := <-q.users:
			users[user] = q.purged[user]
			delete(q.purged, user)
		default:
			return users
		}
	}
	return users
}

// serve trims inboxes, and then empties those whose purge point has risen. It reads the records together, because most inboxes may keep
// everything.
func (w *Walker) serve(ctx context.Context, purged map[message.UserID]bool) {
	users := make([]message.UserID, 0, len(purged))
	for user := range purged {
		users = append(users, user)
	}
	slices.Sort(users)
	found, err := w.stores.Users.Lookup(ctx, users)
	if err != nil {
		found = make([]userstate.Looked, len(users))
		for i := range found {
			found[i].Err = err
		}
	}
	var expired []userstate.State
	for i, user := range users {
		w.report(ctx, user, panics.Do(func() error {
			if found[i].Err != nil {
				return found[i].Err
			}
			state, _, err := w.Trim(ctx, found[i].State)
			if purged[user] || found[i].State.Purged.Less(state.Purged) {
				expired = append(expired, state)
			}
			return err
		}))
	}
	for _, state := range expired {
		w.report(ctx, state.User, panics.Do(func() error { return w.Empty(ctx, state) }))
	}
}

// report records how the work for a user in the queue ended.
func (w *Walker) report(ctx context.Context, user message.UserID, err error) {
	w.panics.Record(err, func(line *zerolog.Event) *zerolog.Event { return line.Str("user", string(user)) })
	if err != nil && ctx.Err() == nil {
		w.opts.Logger.Warn().Err(err).Str("user", string(user)).Msg("an inbox cannot be trimmed or emptied: the walk over all users tries it again")
	}
}
