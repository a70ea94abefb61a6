package inbox

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"math"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// position returns where an inbox is with so many slots and deletions. To be as old as what is shown with it, or older, it is made of a state and
// flags that were read before that, as were the deletions.
func (s *Service) position(rules userstate.Rules, state userstate.State, flags, slots, deleted int64) Position {
	return Position{
		Epoch: s.opts.Epoch(), Slots: slots, Deleted: deleted, Flags: flags, Gaps: state.GapsMade, Marks: state.Marks,
		Marked: hash(state.ReadMark, state.Gaps), Rest: hash(state.Purged, s.complete(state, rules)),
	}
}

// hash returns a hash that is the same in all processes.
func hash(of ...any) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, of...)
	return h.Sum64()
}

// tag returns a hash of a position, or nothing if the inbox is not complete: then messages may appear without a change of it.
func tag(at Position, complete bool) string {
	if !complete {
		return ""
	}
	sum := sha256.Sum256(fmt.Append(nil, at))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// Tag returns the Tag that a first page of all messages would have now. It counts as a view, unless peek is set, and reads no contents of messages,
// and the ids of one bucket only. It returns userstate.ErrNotFound as Read does.
func (s *Service) Tag(ctx context.Context, user message.UserID, peek bool) (string, error) {
	rules := s.opts.Rules()
	state, err := s.look(ctx, user, rules, peek)
	if err != nil {
		return "", err
	}
	at, err := s.positions(ctx, rules, []userstate.State{state})
	if err == nil {
		err = at[0].err
	}
	if err != nil {
		return "", err
	}
	return tag(at[0].Position, s.complete(state, rules)), nil
}

// placed is where an inbox is, or the error of a damaged record.
type placed struct {
	Position

	err error
}

// positions returns where inboxes are, in the order of their states, by three calls of the stores.
func (s *Service) positions(ctx context.Context, rules userstate.Rules, states []userstate.State) ([]placed, error) {
	flags, err := s.lookupFlags(ctx, states)
	if err != nil {
		return nil, err
	}
	none, hints := make([]bucket.Head, len(states)), make([]bucket.Head, len(states))
	for i, st := range states {
		none[i] = bucket.Head{Owner: st.User, Hint: bucket.Hint{Sequence: math.MaxUint32}}
		hints[i] = bucket.Head{Owner: st.User, Hint: st.Head}
	}
	deletions, err := s.stores.Shown.Buckets.Deletions(ctx, none)
	if err != nil {
		return nil, err
	}
	heads, err := s.stores.Shown.Buckets.Heads(ctx, hints)
	if err != nil {
		return nil, err
	}
	all := make([]placed, len(states))
	for i, st := range states {
		looked := flags[st.User]
		end := heads[i].End(s.stores.Shown.Buckets.Size())
		all[i] = placed{s.position(rules, st, looked.Record.Revision, end, deletions[i].Ever), looked.Err}
	}
	return all, nil
}

// lookupFlags returns the flags of those users who may have some. They are read after the users' records and before the buckets.
func (s *Service) lookupFlags(ctx context.Context, states []userstate.State) (map[message.UserID]flag.Looked, error) {
	var flagged []message.UserID
	for _, st := range states {
		if s.flagged(st) {
			flagged = append(flagged, st.User)
		}
	}
	flags := make(map[message.UserID]flag.Looked, len(flagged))
	if len(flagged) == 0 {
		return flags, nil
	}
	records, err := s.stores.Shown.Flags.Lookup(ctx, flagged)
	for _, l := range records {
		flags[l.Record.Owner] = l
	}
	return flags, err
}

// Watched is an inbox that somebody watches.
type Watched struct {
	User message.UserID
	// At is where the inbox was when it was last looked at.
	At Position
	// Peek says that watching does not count as a view.
	Peek bool
}

// Behind reports, in the order of all, which inboxes a look is due at: because something has changed, a view is to be recorded, or a record is damaged.
// It reads all inboxes together. An inbox may be named more than once.
func (s *Service) Behind(ctx context.Context, all []Watched) ([]bool, error) {
	s, rules, now := s.current(), s.opts.Rules(), s.opts.Now()
	places := make(map[message.UserID]int, len(all))
	users := make([]message.UserID, 0, len(all))
	for _, w := range all {
		if _, named := places[w.User]; !named {
			places[w.User] = len(users)
			users = append(users, w.User)
		}
	}
	looked, err := s.stores.Shown.Users.Lookup(ctx, users)
	if err != nil {
		return nil, err
	}
	states := make([]userstate.State, len(users))
	for _, l := range looked {
		states[places[l.State.User]] = l.State // without more than the name if it is damaged
	}
	at, err := s.positions(ctx, rules, states)
	if err != nil {
		return nil, err
	}
	behind := make([]bool, len(all))
	for i, w := range all {
		place := places[w.User]
		behind[i] = at[place].err != nil || at[place].Position != w.At || !w.Peek && !rules.Noted(states[place], now, s.opts.ViewedEvery)
	}
	return behind, nil
}
