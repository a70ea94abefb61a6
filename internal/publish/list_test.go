package publish_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// torn has one damaged plan. When its plans are read, ended ends meanwhile.
type torn struct {
	progress.Store
	damaged message.ID
	ended   func()
}

func (s torn) Get(ctx context.Context, id message.ID) (progress.Fanout, error) {
	if id == s.damaged {
		return progress.Fanout{}, message.ErrCorrupt
	}
	return s.Store.Get(ctx, id)
}

func (s torn) GetMany(ctx context.Context, ids []message.ID) ([]progress.Fanout, []bool, error) {
	defer s.ended()
	if slices.Contains(ids, s.damaged) {
		return nil, nil, message.ErrCorrupt
	}
	return s.Store.GetMany(ctx, ids)
}

// A damaged plan keeps no other message from being listed, and a message that ends meanwhile does not look as if no router had taken it.
func TestListBesideDamageAndEndings(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var ids []message.ID
	for range 4 {
		ids = append(ids, one(t, d.Publish(t.Context(), []publish.Request{request("", "body")})).ID)
	}
	slices.SortFunc(ids, message.ID.Compare)
	_, err := d.Progress.Plan(t.Context(), ids[1], "medium", []int{0}, d.Clock.Now())
	require.NoError(t, err)
	refs, err := d.Messages.Unfinished(t.Context(), message.ID{}, message.MaxID, 10)
	require.NoError(t, err)
	plans := torn{Store: d.Progress, damaged: ids[2], ended: func() {
		require.NoError(t, d.Messages.Conclude(t.Context(), []message.Ending{{Ref: refs[3]}}))
	}}
	reporter := publish.NewReporter(d.Messages, plans, d.Edges, d.Users, publish.ReporterOptions{Partitions: rig.Partitions, Now: d.Clock.Now})
	page, next, err := reporter.List(t.Context(), publish.Selection{Limit: 10})
	require.NoError(t, err)
	require.Zero(t, next)
	states := make(map[message.ID]message.State)
	for _, s := range page {
		states[s.Message.ID] = s.State
	}
	require.Equal(t, map[message.ID]message.State{ids[0]: message.StatePending, ids[1]: message.StateRunning, ids[2]: message.StateRunning}, states)
}
