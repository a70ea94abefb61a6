package candidates

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fanmail/fanmail/internal/popular"
	"github.com/fanmail/fanmail/internal/startstop"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// fillPause is the time between two parts of the sample. With at most ten thousand edges in a part, the sample takes a small share of
	// what a store can read.
	fillPause = time.Second
	// fillParts is the most parts that are read, whatever the store says: a quarter of an hour.
	fillParts = 1_000
	// fillLease is how long a process keeps the others from filling the record. It renews that at half the time.
	fillLease = 5 * time.Minute
	// fillUsers bounds the users that are counted in memory at a time.
	fillUsers = 10 * popular.Max
)

// Fill fills a record that was never filled: it reads a sample of all edges, part by part, and adds the users with the most followers.
// Only one process at a time does so. If it dies, or the store fails, another one or the next try begins again. Fill returns when the
// record is filled, or when intake ends.
func (s *Set) Fill(intake, work context.Context) {
	for intake.Err() == nil {
		filled, err := s.fill(intake, work)
		if filled {
			return
		}
		if err != nil && intake.Err() == nil {
			s.opts.Logger.Warn().Err(err).Stringer("again_in", fillLease).Msg("the largest users cannot be recorded or read: those of before stay candidates")
		}
		startstop.Pause(intake, fillLease)
	}
}

// fill reports whether the record is filled. It returns false and no error if another process fills it, or if intake has ended.
func (s *Set) fill(intake, work context.Context) (filled bool, err error) {
	l, err := s.lease(work, lease{})
	found := make(map[message.UserID]int64)
	part := ""
	for read := 1; err == nil && l.held; read++ {
		var users []popular.User
		if users, part, err = s.opts.Popular.Sample(work, part); err != nil {
			return false, fmt.Errorf("sample the edges: %w", err)
		}
		for _, u := range users {
			found[u.ID] += u.Followers
		}
		if len(found) > fillUsers {
			found = most(found)
		}
		if part == "" || read == fillParts {
			return s.finish(work, found)
		}
		startstop.Pause(intake, fillPause)
		if intake.Err() != nil {
			return false, nil //nolint:nilerr // the process stops, so another one begins again
		}
		if l.until.Sub(s.opts.Now()) < fillLease/2 {
			l, err = s.lease(work, l)
		}
	}
	return l.filled, err
}

// lease says whether a process may fill the record, and until when it keeps others from that.
type lease struct {
	held, filled bool
	until        time.Time
}

// lease takes the lease, or extends the one that this process has.
func (s *Set) lease(ctx context.Context, had lease) (l lease, err error) {
	err = s.modify(ctx, func(r popular.Record) (popular.Record, bool) {
		now := s.opts.Now().Truncate(time.Millisecond)
		ours := had.held && r.Filling.Equal(had.until)
		left := r.Filling.Sub(now) // more than a lease if the clock of the holder was ahead
		l = lease{filled: r.Filled, until: now.Add(fillLease)}
		l.held = !r.Filled && (ours || left <= 0 || left > fillLease)
		if l.held {
			r.Filling = l.until
		}
		return r, l.held
	})
	return l, err
}

// finish adds users to the record, which is filled then.
func (s *Set) finish(ctx context.Context, found map[message.UserID]int64) (filled bool, err error) {
	err = s.modify(ctx, func(r popular.Record) (popular.Record, bool) {
		numbers := maps.Clone(found)
		for _, u := range r.Users { // the sample has most of what was counted meanwhile
			numbers[u.ID] = max(numbers[u.ID], u.Followers)
		}
		r.Users = nil
		r = r.With(most(numbers))
		r.Filled, r.Filling = true, time.Time{}
		return r, true
	})
	if err == nil {
		s.opts.Logger.Info().Int("users", len(found)).Msg("the followers of the largest users are counted")
	}
	return err == nil, err
}

// most returns the users with the most followers, at most popular.Max.
func most(numbers map[message.UserID]int64) map[message.UserID]int64 {
	if len(numbers) <= popular.Max {
		return numbers
	}
	ids := slices.SortedFunc(maps.Keys(numbers), func(a, b message.UserID) int {
		return cmp.Or(-cmp.Compare(numbers[a], numbers[b]), cmp.Compare(a, b))
	})
	for _, id := range ids[popular.Max:] {
		delete(numbers, id)
	}
	return numbers
}
