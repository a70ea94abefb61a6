package publish

import (
	"context"
	"errors"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// leastRead and mostRead bound how many messages a page reads at a time, and about how many in all. Unwanted ones cost as much as wanted ones.
	leastRead = 50
	mostRead  = 1000
)

// Selection says which messages List returns.
type Selection struct {
	// State is that of the messages; empty stands for StatePending and StateRunning. StateRunning leaves out what is StateDead.
	State message.State
	// From is the author; empty stands for all.
	From message.UserID
	// After is what List returned as next, or zero.
	After message.ID
	Limit int
}

func (s Selection) wants(status Status) bool {
	if s.From != "" && s.From != status.Message.From {
		return false
	}
	if s.State == "" {
		return status.State == message.StatePending || status.State == message.StateRunning
	}
	return status.State == s.State
}

// List returns a page of messages: those that are done newest first, all others oldest first. Of each message only the id, the author and Blocked are
// set. It looks at about mostRead messages, so a page may be short or empty although there are more. There are none after it if next is zero.
// A message that changes its state meanwhile may be missing.
func (r *Reporter) List(ctx context.Context, s Selection) (page []Status, next message.ID, err error) {
	next = s.After
	size := max(s.Limit, leastRead)
	for looks := 0; looks < mostRead && len(page) < s.Limit; looks += size {
		statuses, rest, err := r.read(ctx, s, next, size)
		if err != nil {
			return nil, message.ID{}, err
		}
		for _, status := range statuses {
			if !s.wants(status) {
				continue
			}
			if len(page) == s.Limit {
				return page, page[s.Limit-1].Message.ID, nil
			}
			page = append(page, status)
		}
		if next = rest; rest.IsZero() {
			break
		}
	}
	return page, next, nil
}

// read returns the next messages, which may be in any state, and where to go on, or zero.
func (r *Reporter) read(ctx context.Context, s Selection, after message.ID, limit int) (statuses []Status, rest message.ID, err error) {
	var refs []message.Ref
	if s.State == message.StateDone {
		if after.IsZero() {
			after = message.MaxID
		}
		refs, rest, err = r.messages.Newest(ctx, s.From, after, limit)
	} else if refs, err = r.messages.Unfinished(ctx, after, message.MaxID, limit); len(refs) == limit {
		rest = refs[limit-1].ID
	}
	if err != nil || len(refs) == 0 {
		return nil, rest, err
	}
	fanouts := make([]progress.Fanout, len(refs))
	if s.State != message.StateDone {
		if err := r.plans(ctx, refs, fanouts); err != nil {
			return nil, message.ID{}, err
		}
	}
	endings, err := r.messages.Endings(ctx, refs) // after the plans: see Status
	if err != nil {
		return nil, message.ID{}, err
	}
	for i, ref := range refs {
		e := endings[i]
		if e.Void || e.Err == nil && e.Ref == (message.Ref{}) {
			continue // it was never sent, or is gone
		}
		status := r.status(message.Message{ID: ref.ID, From: ref.From, Blocked: e.Blocked}, fanouts[i], e)
		if status.State == message.StateRunning && fanouts[i].Dead() {
			status.State = message.StateDead
		}
		statuses = append(statuses, status)
	}
	return statuses, rest, nil
}

// plans reads the plans of messages. A damaged one has only its id, so that it does not keep the others from being listed.
func (r *Reporter) plans(ctx context.Context, refs []message.Ref, fanouts []progress.Fanout) error {
	ids := make([]message.ID, len(refs))
	for i, ref := range refs {
		ids[i] = ref.ID
	}
	found, ok, err := r.progress.GetMany(ctx, ids)
	if !errors.Is(err, message.ErrCorrupt) {
		for i := range found {
			if ok[i] {
				fanouts[i] = found[i]
			}
		}
		return err
	}
	for i, id := range ids {
		f, err := r.progress.Get(ctx, id)
		switch {
		case errors.Is(err, message.ErrCorrupt):
			f = progress.Fanout{ID: id}
		case err != nil && !errors.Is(err, progress.ErrNotFound):
			return err
		}
		fanouts[i] = f
	}
	return nil
}
