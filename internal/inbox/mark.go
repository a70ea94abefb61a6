package inbox

import (
	"context"
	"fmt"
	"slices"

	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Marked is the result of Mark.
type Marked struct {
	// Changed counts the messages that are read or archived now and were not, or the reverse.
	Changed int
	// Missing are the ids that are not in the inbox, in the order of the request: they never were, have expired, or were deleted.
	Missing []message.ID
}

// Mark changes whether single messages are read and archived. It is idempotent. It returns userstate.ErrNotFound for a user never seen, and
// flag.ErrTooMany, with nothing changed, if too much of the inbox is marked message by message.
//
// The place of a message in a bucket never changes, so Mark does not wait for a rehydration to find it there. A message that is in neither a
// bucket nor a gap gets its place by the rehydration that is due or runs. Mark then waits, and returns rehydrate.ErrUnfinished if that takes too
// long.
func (s *Service) Mark(ctx context.Context, user message.UserID, ids []message.ID, change flag.Change) (Marked, error) {
	state, err := known(s.state(ctx, user))
	for err == nil {
		var found located
		if found, err = s.locate(ctx, state, ids); err != nil {
			break
		}
		if found.waits && state.Rehydrating() {
			state, err = known(s.rehydrator.Complete(ctx, user))
			continue
		}
		result := Marked{}
		for _, id := range ids {
			if _, there := found.at[id]; !there {
				result.Missing = append(result.Missing, id)
			}
		}
		if len(found.at) > 0 {
			result.Changed, err = s.flag(ctx, state, func(c *changes) error {
				for _, f := range found.at {
					c.set(f, change)
				}
				return nil
			})
		}
		return result, err
	}
	return Marked{}, err
}

// located says where messages are that can be marked.
type located struct {
	at map[message.ID]bucket.Found
	// waits says that a message may be in neither a bucket nor a gap yet.
	waits bool
}

// locate finds messages: in buckets, and then in gaps. The state was read before the buckets. Otherwise a message that a rehydration appends in
// between would seem to be missing. It counts a gap that holds one of them, as Delete does.
func (s *Service) locate(ctx context.Context, state userstate.State, ids []message.ID) (located, error) {
	alive := slices.DeleteFunc(slices.Clone(ids), func(id message.ID) bool { return !state.Purged.Less(id) })
	at, err := bucket.Locate(ctx, s.stores.Buckets, state.User, state.Head, alive)
	if err != nil {
		return located{}, err
	}
	found, rules := located{at: at}, s.opts.Rules()
	feed := s.rehydrator.Feed(state.User, rules)
	for _, id := range alive {
		if f, there := at[id]; there {
			if f.Deleted || f.Expired {
				delete(at, id)
			}
			continue
		}
		if !state.InGap(id.Time()) {
			found.waits = found.waits || s.absent(state, rules, id)
			continue
		}
		there, err := s.onRead(ctx, feed, id)
		if err == nil && there {
			at[id] = bucket.Found{Entry: bucket.Entry{ID: id}, Absent: true}
			err = s.countGapOf(ctx, state.User, feed, id)
		}
		if err != nil {
			return located{}, err
		}
	}
	return found, nil
}

// StateOf returns the state of a message of an inbox, and whether it is there. It writes nothing and waits for nothing.
func (s *Service) StateOf(ctx context.Context, user message.UserID, id message.ID) (result State, there bool, err error) {
	s = s.current()
	state, err := s.state(ctx, user)
	if err != nil || !state.Purged.Less(id) {
		return result, false, err
	}
	v, err := s.view(ctx, state)
	if err != nil {
		return result, false, err
	}
	at, err := bucket.Locate(ctx, s.stores.Buckets, user, state.Head, []message.ID{id})
	if err != nil {
		return result, false, err
	}
	found, there := at[id]
	if !there && state.InGap(id.Time()) {
		found = bucket.Found{Entry: bucket.Entry{ID: id}, Absent: true}
		if there, err = s.onRead(ctx, s.rehydrator.Feed(user, s.opts.Rules()), id); err != nil {
			return result, false, err
		}
	}
	m := v.message(found)
	return State{ID: id, Read: m.Read, Archived: m.Archived}, there && !found.Deleted && !found.Expired, nil
}

// onRead reports whether fan out on read finds a message.
func (s *Service) onRead(ctx context.Context, feed *rehydrate.Feed, id message.ID) (bool, error) {
	entries, err := feed.Newest(ctx, bucket.Stretch{After: message.LastBefore(id.Time()), Before: id.Next()}, 1)
	return len(entries) > 0 && entries[0].ID == id, err
}

// changes are changes of the flags of an inbox.
type changes struct {
	record   flag.Record
	state    userstate.State
	size     bucket.Size
	places   map[flag.Place]flag.Flags
	messages map[message.ID]flag.Flags
	changed  int // how many messages look different
}

// set changes the flags of a message.
func (c *changes) set(f bucket.Found, change flag.Change) {
	was := flagsOf(c.record, c.size, f)
	now := change.Of(was)
	c.put(f, now)
	if covered := c.state.ReadMark.Says(f, c.state.Gaps); was.Read(covered) != now.Read(covered) || was.Archived() != now.Archived() {
		c.changed++
	}
}

func (c *changes) put(f bucket.Found, flags flag.Flags) {
	if f.Absent {
		c.messages[f.ID] = flags
	} else {
		c.places[placeOf(c.size, f)] = flags
	}
}

func placeOf(size bucket.Size, f bucket.Found) flag.Place {
	return flag.Place{Sequence: f.Sequence, Slot: int(f.Position - size.Position(f.Sequence, 0))}
}

// flagsOf returns the flags of a message.
func flagsOf(r flag.Record, size bucket.Size, f bucket.Found) flag.Flags {
	if f.Absent {
		return r.Of(f.ID)
	}
	p := placeOf(size, f)
	return r.In(p.Sequence).Of(p.Slot)
}

// flag changes the flags of a user, from the record as it is on, and returns how many messages look different. First it records that there are
// flags, because readers look for them only then.
func (s *Service) flag(ctx context.Context, state userstate.State, change func(*changes) error) (int, error) {
	for {
		record, err := flag.Get(ctx, s.stores.Flags, state.User) // perhaps not durable yet: also if nothing is new, it is stored
		if err != nil {
			return 0, err
		}
		c := changes{
			record: record, state: state, size: s.stores.Buckets.Size(),
			places: make(map[flag.Place]flag.Flags), messages: make(map[message.ID]flag.Flags),
		}
		if err := change(&c); err != nil {
			return 0, err
		}
		next, changed, err := record.With(c.places, c.messages, state.Oldest, state.Purged)
		if err != nil || record.Revision == 0 && !changed {
			return 0, err
		}
		for !state.Flagged {
			to := state
			to.Flagged = true
			// A crash that loses the step also loses the flags, which are written later.
			if state, _, err = s.step(ctx, userstate.Step{From: state, To: to, Lazy: true}); err != nil {
				return 0, err
			}
		}
		if stored, err := s.stores.Flags.Replace(ctx, next); err != nil || stored {
			return c.changed, err
		}
	}
}

// step replaces a state, and returns the stored one and whether it is the new one.
func (s *Service) step(ctx context.Context, step userstate.Step) (userstate.State, bool, error) {
	stepped, err := s.stores.Users.Step(ctx, []userstate.Step{step})
	if err != nil {
		return step.From, false, fmt.Errorf("state of %s: %w", step.From.User, err)
	}
	return stepped[0].State, stepped[0].Applied, nil
}
