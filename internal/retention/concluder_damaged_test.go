package retention_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/pkg/message"
)

// damagedPlan is a progress.Store in which a plan is damaged, and damagedMessage a message.Store in which a message is.
type (
	damagedPlan struct {
		progress.Store
		id message.ID
	}
	damagedMessage struct {
		message.Store
		id message.ID
	}
)

func (s damagedPlan) List(ctx context.Context, after, upTo message.ID, limit int) ([]progress.Found, error) {
	found, err := s.Store.List(ctx, after, upTo, limit)
	for i, f := range found {
		if f.Fanout.ID == s.id {
			found[i] = progress.Found{Fanout: progress.Fanout{ID: s.id}, Err: fmt.Errorf("plan: %w", message.ErrCorrupt)}
		}
	}
	return found, err
}

func (s damagedMessage) Endings(ctx context.Context, refs []message.Ref) ([]message.Fate, error) {
	fates, err := s.Store.Endings(ctx, refs)
	for i, ref := range refs {
		if ref.ID == s.id {
			fates[i] = message.Fate{Err: fmt.Errorf("message: %w", message.ErrCorrupt)}
		}
	}
	return fates, err
}

// Damage keeps one plan, which is logged once. The others end.
func TestConcludePassesDamage(t *testing.T) {
	t.Parallel()
	w := newPlanWorld(t)
	plan, broken, sound := w.plan(t, 1, doneScan), w.plan(t, 2, doneScan), w.plan(t, 3, doneScan)
	w.Clock.Advance(time.Hour)
	var log bytes.Buffer
	registry := prometheus.NewRegistry()
	c := retention.NewConcluder(w.DB.Walk, damagedPlan{w.Progress, plan.ID}, damagedMessage{w.Messages, broken.ID}, retention.ConcluderOptions{
		Now: w.Clock.Now, Logger: zerolog.New(&log), Metrics: registry,
	})
	for removed := 1; removed >= 0; removed-- {
		n, err := c.Conclude(t.Context())
		require.NoError(t, err)
		require.Equal(t, removed, n)
	}
	require.True(t, w.fate(t, sound).Concluded)
	require.Equal(t, []message.ID{plan.ID, broken.ID}, w.planned(t))
	for _, ref := range []message.Ref{plan, broken} {
		require.Equal(t, 1, strings.Count(log.String(), ref.ID.String()), log.String())
	}
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, 1)
	require.Equal(t, "fanmail_retention_plans_damaged_total", families[0].GetName())
	require.InDelta(t, 4, families[0].GetMetric()[0].GetCounter().GetValue(), 0)
}
