// Package popular has the record of the users with the most followers, as estimates.
//
// The record is a hint: a wrong or lost one changes only which recipients get a head start. So it is sampled, changed without a
// sync, and no format level depends on it.
package popular

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

// Max is the most users in a Record.
const Max = 10_000

// ErrChanged says that the record is another one than the caller has read.
var ErrChanged = errors.New("the record of the largest users has changed")

// Record is the users with the most followers.
type Record struct {
	// Revision counts the changes of the record; 0 means that there is none. A store sets it.
	Revision int64
	// Filled says that the users of before the record are in it: it was filled by a sample of all edges.
	Filled bool
	// Filling is until when a process fills it, in milliseconds; zero if none has begun. After that time another process begins again.
	Filling time.Time
	// Users are ascending by id, at most Max.
	Users []User
}

// User is a user with an estimate of the number of followers, at least 1.
type User struct {
	ID        message.UserID
	Followers int64
}

// With returns the record after changes of numbers of followers. A user whose number falls to zero is dropped.
//
// The record stays at Max users by the algorithm Space-Saving (Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent and Top-k
// Elements in Data Streams, 2005): a new user in a full record counts on from the least number in it, and a user with the least is dropped.
// So users who gain no followers are forgotten. A user who has more than a Max-th of all followers is always in the record.
func (r Record) With(changes map[message.UserID]int64) Record {
	numbers := make(map[message.UserID]int64, len(r.Users)+len(changes))
	for _, u := range r.Users {
		numbers[u.ID] = u.Followers
	}
	least := r.least()
	for id, change := range changes {
		n, known := numbers[id]
		if !known && change > 0 {
			n = least
		}
		numbers[id] = n + change
	}
	users := make([]User, 0, len(numbers))
	for id, n := range numbers {
		if n > 0 {
			users = append(users, User{ID: id, Followers: n})
		}
	}
	slices.SortFunc(users, func(a, b User) int {
		return cmp.Or(-cmp.Compare(a.Followers, b.Followers), cmp.Compare(a.ID, b.ID))
	})
	users = slices.Clip(users[:min(len(users), Max)])
	slices.SortFunc(users, func(a, b User) int { return cmp.Compare(a.ID, b.ID) })
	r.Users = users
	return r
}

// least returns the least number in a full record, and 0 for one with room.
func (r Record) least() int64 {
	if len(r.Users) < Max {
		return 0
	}
	return slices.MinFunc(r.Users, func(a, b User) int { return cmp.Compare(a.Followers, b.Followers) }).Followers
}

// Store holds the record. It is safe for concurrent use.
type Store interface {
	// Load returns the record. It sees every change that had returned before the call.
	Load(ctx context.Context) (Record, error)

	// Replace replaces the record that the caller has loaded, of which the revision is enough, by another one. It returns ErrChanged
	// if the stored record has another revision. Then it has changed nothing, or a reply was lost and the change is the caller's own.
	// After another error the change may have happened. A crash may lose it.
	Replace(ctx context.Context, from, to Record) error

	// Sample reads a part of a sample of all edges: the first part if part is empty, else the one that an earlier call named as next. The
	// last part names none. It returns followees with estimates of their followers, ended ones included. A user may be in several parts,
	// whose numbers add up. A call reads about ten thousand records at most, so that the caller can pause between parts.
	Sample(ctx context.Context, part string) (found []User, next string, err error)
}
