package identities_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/identities"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// schedules is how many random schedules are tried, and steps the calls of the store in each.
	schedules = 150
	steps     = 120
)

// fate is what becomes of a call of the store.
type fate int

const (
	goes fate = iota
	diesBefore
	diesAfter
)

// process carries out requests. It waits at each call of the store until the schedule lets it go on or die.
type process struct {
	identity.Store
	fates chan fate
	idle  chan string // what it waits for, or the end of its request

	deletes message.UserID // whose identity the request deletes
}

const ended = "the end"

// call waits for the fate of a call.
func (p *process) call(name string, do func() error) error {
	p.idle <- name
	switch <-p.fates {
	case diesBefore:
		return errDied
	case diesAfter:
		return errors.Join(do(), errDied)
	default:
		return do()
	}
}

func (p *process) Lookup(ctx context.Context, ids []identity.Identity) (looked []identity.Looked, err error) {
	return looked, p.call("lookup", func() error { looked, err = p.Store.Lookup(ctx, ids); return err })
}

func (p *process) Insert(ctx context.Context, records []identity.Record) (looked []identity.Looked, err error) {
	return looked, p.call("insert", func() error { looked, err = p.Store.Insert(ctx, records); return err })
}

func (p *process) Confirm(ctx context.Context, records []identity.Record) (looked []identity.Looked, err error) {
	return looked, p.call("confirm", func() error { looked, err = p.Store.Confirm(ctx, records); return err })
}

func (p *process) Withdraw(ctx context.Context, r identity.Record) (done bool, err error) {
	return done, p.call("withdraw", func() error { done, err = p.Store.Withdraw(ctx, r); return err })
}

func (p *process) Remove(ctx context.Context, r identity.Record) error {
	return p.call("remove", func() error { return p.Store.Remove(ctx, r) })
}

func (p *process) Lists(ctx context.Context, users []message.UserID) (lists []identity.LookedList, err error) {
	return lists, p.call("lists", func() error { lists, err = p.Store.Lists(ctx, users); return err })
}

func (p *process) ReplaceLists(ctx context.Context, changes []identity.Change) (results []error, err error) {
	return results, p.call("replace lists", func() error { results, err = p.Store.ReplaceLists(ctx, changes); return err })
}

// Processes claim and delete two identities for two users, whose lists have room for one more, in random schedules in which they stall and
// die at any call of the store. In every state, a record in force has its item, an answer is true when it is given, and a user loses an
// identity by a deletion only.
func TestSchedules(t *testing.T) {
	t.Parallel()
	w := world{store: embedded(t), names: new(atomic.Int64)}
	for seed := range uint64(schedules) {
		w.schedule(t, rand.New(rand.NewPCG(seed, 0)), fmt.Sprintf("schedule %d", seed))
	}
}

func (w world) schedule(t *testing.T, random *rand.Rand, name string) {
	t.Helper()
	users := []message.UserID{w.user("ann"), w.user("ben")}
	ids := []identity.Identity{w.value(), w.value()}
	known := append(w.fill(t, users[0], identity.MaxPerUser-1), w.fill(t, users[1], identity.MaxPerUser-1)...)
	known = append(known, ids...)
	processes := make([]*process, 3)
	var history []string
	// next begins a request of a process, whose answer is checked at the moment at which it is given: no other process takes a step.
	next := func(p *process) {
		id, user, remove := ids[random.IntN(len(ids))], users[random.IntN(len(users))], random.IntN(3) == 0
		if p.deletes = ""; remove {
			p.deletes = user
		}
		history = append(history, fmt.Sprintf("begins: %v of %s, deletion %v", id == ids[0], user, remove))
		ctx := t.Context()
		go func() {
			s := service(p)
			var result error
			if remove {
				result = s.Delete(ctx, id, user)
			} else if results, err := s.Claim(ctx, []identities.Claim{{Identity: id, User: user}}); err != nil {
				result = err
			} else {
				result = w.untrue(ctx, id, user, results[0])
			}
			if result != nil && !errors.Is(result, errDied) {
				p.idle <- result.Error()
				return
			}
			p.idle <- ended
		}()
	}
	waiting := make([]string, len(processes))
	for i := range processes {
		processes[i] = &process{Store: w.store, fates: make(chan fate), idle: make(chan string)}
		next(processes[i])
		waiting[i] = <-processes[i].idle
	}
	advance := func(i int, f fate) {
		history = append(history, fmt.Sprintf("process %d at %s: %d", i, waiting[i], f))
		before := []message.UserID{w.owner(t, ids[0]), w.owner(t, ids[1])}
		may := processes[i].deletes // whose identity may go
		processes[i].fates <- f
		waiting[i] = <-processes[i].idle
		for k, owner := range before {
			require.True(t, owner == "" || owner == may || owner == w.owner(t, ids[k]), "%s: %s has lost an identity: %v", name, owner, history)
		}
	}
	for range steps {
		i := random.IntN(len(processes))
		if waiting[i] == ended {
			next(processes[i])
			waiting[i] = <-processes[i].idle
			continue
		}
		f := goes
		if random.IntN(12) == 0 {
			f = diesBefore + fate(random.IntN(2))
		}
		advance(i, f)
		w.requireSafe(t, known, users)
		require.Contains(t, []string{ended, "lookup", "insert", "confirm", "withdraw", "remove", "lists", "replace lists"}, waiting[i], "%s: %v", name, history)
	}
	for i := range processes {
		for waiting[i] != ended {
			advance(i, goes)
		}
	}
	w.requireAgreed(t, known, users)
}

// untrue returns an error if the answer of a claim does not hold now.
func (w world) untrue(ctx context.Context, id identity.Identity, user message.UserID, answer error) error {
	owner, err := service(w.store).Get(ctx, id)
	switch {
	case err != nil && !errors.Is(err, identity.ErrNotFound):
		return err
	case answer == nil && owner != user, errors.Is(answer, identity.ErrTaken) && (owner == "" || owner == user):
		return fmt.Errorf("the answer is %w, and the owner is %q", answer, owner)
	case answer != nil && !errors.Is(answer, identity.ErrTaken) && !errors.Is(answer, identity.ErrFull):
		return answer
	}
	return nil
}
