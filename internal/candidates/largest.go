package candidates

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fanmail/fanmail/internal/popular"
	"github.com/fanmail/fanmail/internal/startstop"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// sampleOf is how many changes of followers one counted change stands for. The largest users gain thousands of followers, and a
	// sample of 64 tells them from others at a fraction of the cost.
	sampleOf = 64
	// updateEvery is the time between two readings of the record, and the least time between two writes of a process.
	updateEvery = time.Minute
	// tries is how often a process tries to record its changes while other processes record theirs.
	tries = 3
)

// largest is the users with the most followers.
type largest struct {
	mu sync.Mutex
	// changes are the sampled changes of numbers of followers that are not recorded yet, of at most popular.Max users; those of more
	// are dropped.
	changes map[message.UserID]int64
	// users are those of the record, as it was read last. Whoever holds the slice must not change it.
	users   []message.UserID
	changed bool
}

func newLargest() *largest { return &largest{changes: make(map[message.UserID]int64)} }

func (l *largest) change(user message.UserID, by int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.changes[user]; known || len(l.changes) < popular.Max {
		l.changes[user] += by
	}
}

// take returns the changes, and forgets them.
func (l *largest) take() map[message.UserID]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	changes := l.changes
	l.changes = make(map[message.UserID]int64)
	return changes
}

func (l *largest) set(record popular.Record) {
	users := make([]message.UserID, len(record.Users))
	for i, u := range record.Users {
		users[i] = u.ID
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users, l.changed = users, true
}

// list returns the users, and whether they may have changed since the last call.
func (l *largest) list() (users []message.UserID, changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed, l.changed = l.changed, false
	return l.users, changed
}

// Gained counts that a user has gained followers, or lost them if the number is negative. It counts a sample: most calls do nothing.
// It does not block.
func (s *Set) Gained(user message.UserID, followers int64) {
	if s.opts.Random(sampleOf) == 0 {
		s.largest.change(user, followers*sampleOf)
	}
}

// Update reads the record of the largest users at once and then every minute, and records what Gained has counted, until intake ends.
// What was not recorded by then is lost.
func (s *Set) Update(intake, work context.Context) {
	for {
		if err := s.update(work); err != nil && work.Err() == nil {
			s.opts.Logger.Warn().Err(err).Stringer("again_in", updateEvery).Msg("the largest users cannot be recorded or read: those of before stay candidates")
		}
		startstop.Pause(intake, updateEvery)
		if intake.Err() != nil {
			return
		}
	}
}

// update records the changes and adopts the record. After an error, the changes are lost.
func (s *Set) update(ctx context.Context) error {
	changes := s.largest.take()
	var record popular.Record
	err := s.modify(ctx, func(r popular.Record) (popular.Record, bool) {
		record = r.With(changes)
		return record, len(changes) > 0
	})
	if err == nil || errors.Is(err, popular.ErrChanged) {
		s.largest.set(record)
	}
	return err
}

// modify changes the record by compare-and-swap, if the change says so. It returns popular.ErrChanged if other processes were first at
// every try.
func (s *Set) modify(ctx context.Context, change func(popular.Record) (popular.Record, bool)) error {
	for try := 1; ; try++ {
		from, err := s.opts.Popular.Load(ctx)
		if err != nil {
			return err
		}
		to, changed := change(from)
		if !changed {
			return nil
		}
		if err := s.opts.Popular.Replace(ctx, from, to); !errors.Is(err, popular.ErrChanged) || try == tries {
			return err
		}
	}
}
