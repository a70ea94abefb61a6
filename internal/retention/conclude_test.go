package retention_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// planWorld is a rig with messages and plans.
type planWorld struct{ *rig.Rig }

func newPlanWorld(t *testing.T) planWorld {
	t.Helper()
	r, err := rig.Open(t.Context(), rig.NewClock(), rig.NewBus(t, rig.Partitions), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return planWorld{r}
}

// plan stores the nth message, and plans it with a scan for each of the given ones.
func (w planWorld) plan(t *testing.T, n int, scans ...progress.Scan) message.Ref {
	t.Helper()
	m := message.Message{ID: message.MinID(w.Clock.Now()), From: "author", Audience: message.AudienceFollowers, Body: "body"}
	m.ID[6], m.ID[8], m.ID[15] = 0x70, 0x80, byte(n)
	_, err := w.Messages.Insert(t.Context(), []message.Message{m}, rig.Rules().Timing())
	require.NoError(t, err)
	w.planAgain(t, m.Ref(), scans...)
	return m.Ref()
}

func (w planWorld) planAgain(t *testing.T, ref message.Ref, scans ...progress.Scan) {
	t.Helper()
	partitions := make([]int, len(scans))
	var steps []progress.Move
	for p, scan := range scans {
		partitions[p] = p
		steps = append(steps, progress.Move{ID: ref.ID, Partition: p, To: scan})
	}
	_, err := w.Progress.Plan(t.Context(), ref.ID, "medium", partitions, w.Clock.Now())
	require.NoError(t, err)
	_, err = w.Progress.Step(t.Context(), steps, w.Clock.Now())
	require.NoError(t, err)
}

// conclude ends plans in a round, after they have not moved for long enough.
func (w planWorld) conclude(t *testing.T, round int64) int {
	t.Helper()
	w.Clock.Advance(retention.PlanStays + time.Second)
	w.begin(t, round)
	n, err := w.Walker(0).Conclude(t.Context())
	require.NoError(t, err)
	return n
}

// begin begins a round.
func (w planWorld) begin(t *testing.T, number int64) {
	t.Helper()
	r, err := w.DB.Walk.Load(t.Context())
	require.NoError(t, err)
	require.NoError(t, w.DB.Walk.Replace(t.Context(), r, retention.Round{Number: number, Began: w.Clock.Now(), Until: w.Clock.Now()}))
}

func (w planWorld) ending(t *testing.T, ref message.Ref) message.Ending {
	t.Helper()
	endings, err := w.Messages.Endings(t.Context(), []message.Ref{ref})
	require.NoError(t, err)
	require.NoError(t, endings[0].Err)
	return endings[0]
}

func (w planWorld) planned(t *testing.T) []message.ID {
	t.Helper()
	found, err := w.Progress.List(t.Context(), message.ID{}, message.MaxID, 1000)
	require.NoError(t, err)
	var ids []message.ID
	for _, f := range found {
		ids = append(ids, f.Fanout.ID)
	}
	return ids
}

var (
	doneScan    = progress.Scan{Joined: true, Done: true, Delivered: 5, Skipped: 2}
	openScan    = progress.Scan{}.Join("m").Advance("x", false, progress.Counts{Delivered: 3})
	deadScan    = progress.Scan{Delivered: 1, Dead: true}
	givenUpScan = deadScan.GiveUp()
)

// The counts of plans whose scans are all done or given up move into their messages. Other plans stay.
func TestConcludeEndsWhatIsOver(t *testing.T) {
	t.Parallel()
	w := newPlanWorld(t)
	done, part := w.plan(t, 1, doneScan, doneScan), w.plan(t, 2, givenUpScan, doneScan, givenUpScan)
	nobody := w.plan(t, 3)
	open, dead := w.plan(t, 4, doneScan, openScan), w.plan(t, 5, doneScan, deadScan)
	require.Equal(t, 3, w.conclude(t, 7))
	require.Equal(t, []message.ID{open.ID, dead.ID}, w.planned(t))
	require.Equal(t, message.Ending{Ref: done, Concluded: true, Lane: "medium", Delivered: 10, Skipped: 4, Closed: 7}, w.ending(t, done))
	require.Equal(t, message.Ending{Ref: part, Concluded: true, Lane: "medium", Delivered: 7, Skipped: 2, GivenUp: 2, Closed: 7}, w.ending(t, part))
	require.Equal(t, message.Ending{Ref: nobody, Concluded: true, Lane: "medium", Closed: 7}, w.ending(t, nobody))
	require.Equal(t, message.Ending{Ref: open}, w.ending(t, open))
	require.Equal(t, message.Ending{Ref: dead}, w.ending(t, dead))
	require.Zero(t, w.conclude(t, 8))
}

// A late repetition of an event has planned a message again that is concluded or removed. Its counts do not matter.
func TestConcludeRemovesLatePlans(t *testing.T) {
	t.Parallel()
	w := newPlanWorld(t)
	concluded, removed := w.plan(t, 1, doneScan), w.plan(t, 2, doneScan)
	require.Equal(t, 2, w.conclude(t, 7))
	before := w.ending(t, concluded)
	require.NoError(t, w.Messages.Remove(t.Context(), []message.Ref{removed}))
	w.planAgain(t, concluded, doneScan, openScan)
	w.planAgain(t, removed, openScan)
	require.Equal(t, 2, w.conclude(t, 8))
	w.planAgain(t, concluded, doneScan, doneScan)
	require.Equal(t, 1, w.conclude(t, 9))
	require.Empty(t, w.planned(t))
	require.Equal(t, before, w.ending(t, concluded))
	require.Equal(t, message.Ending{}, w.ending(t, removed))
}

// A plan stays for a while after its last move.
func TestConcludeLeavesRecentPlans(t *testing.T) {
	t.Parallel()
	w := newPlanWorld(t)
	old := w.plan(t, 1, doneScan)
	w.Clock.Advance(time.Minute)
	other := w.plan(t, 2, doneScan)
	w.Clock.Advance(retention.PlanStays - 30*time.Second)
	recent := w.plan(t, 3, doneScan)
	conclude := func() int {
		t.Helper()
		n, err := w.Walker(0).Conclude(t.Context())
		require.NoError(t, err)
		return n
	}
	require.Equal(t, 1, conclude())
	require.True(t, w.ending(t, old).Concluded)
	require.Equal(t, []message.ID{other.ID, recent.ID}, w.planned(t))
	w.Clock.Advance(retention.PlanStays + time.Minute)
	require.Equal(t, 2, conclude())
}

// roundBegins is a progress.Store in which a scan ends, and then a round begins, while the plans are listed.
type roundBegins struct {
	progress.Store
	begin func()
}

func (s roundBegins) List(ctx context.Context, after, upTo message.ID, limit int) ([]progress.Found, error) {
	s.begin()
	return s.Store.List(ctx, after, upTo, limit)
}

// The ending has a round that had begun when the last scan ended, or a later one. Otherwise the message could go although a delivery came after
// the round that proves the low-water mark had passed the user.
func TestConcludeReadsTheRoundAfterThePlan(t *testing.T) {
	t.Parallel()
	w := newPlanWorld(t)
	ref := w.plan(t, 1, doneScan)
	w.begin(t, 7)
	w.Clock.Advance(time.Hour)
	stores := w.RetentionStores()
	stores.Progress = roundBegins{w.Progress, func() { w.begin(t, 8) }}
	n, err := retention.New(stores, nil, w.RetentionOptions(0)).Conclude(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.EqualValues(t, 8, w.ending(t, ref).Closed)
}

// A crash at any point leaves the counts in the plan, in the message, or in both. The next process ends the plan.
func TestConcludeSurvivesACrash(t *testing.T) {
	t.Parallel()
	for _, fault := range []rig.Fault{rig.DieBefore, rig.DieAfter, rig.FailBefore, rig.FailAfter, rig.PanicBefore, rig.PanicAfter} {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			t.Parallel()
			for after, hurt := 0, true; hurt; after++ {
				w := newPlanWorld(t)
				ref := w.plan(t, 1, doneScan, givenUpScan)
				want := message.Ending{Lane: "medium", Delivered: 6, Skipped: 2, GivenUp: 1}
				w.begin(t, 7)
				w.Clock.Advance(time.Hour)
				actor := rig.Start(t.Context(), fault, after, func(ctx context.Context) error {
					_, err := w.Walker(0).Conclude(ctx)
					return err
				})
				hurt = !actor.Unhurt()
				if ending := w.ending(t, ref); !ending.Concluded {
					f, err := w.Progress.Get(t.Context(), ref.ID)
					require.NoError(t, err, "neither the plan nor the message has the counts")
					require.Equal(t, want, f.Outcome())
				}
				w.conclude(t, 8)
				require.Empty(t, w.planned(t))
				ending := w.ending(t, ref)
				require.True(t, ending.Concluded)
				require.Contains(t, []int64{7, 8}, ending.Closed)
				ending.Ref, ending.Concluded, ending.Closed = message.Ref{}, false, 0
				require.Equal(t, want, ending)
			}
		})
	}
}

// A collector stalls at any point while another one ends the plan, and a repeated event plans the message again. The first counts stay.
func TestConcludeTwiceAtTheSameTime(t *testing.T) {
	t.Parallel()
	for _, fault := range []rig.Fault{rig.StallBefore, rig.StallAfter} {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			t.Parallel()
			for after, hurt := 0, true; hurt; after++ {
				w := newPlanWorld(t)
				ref := w.plan(t, 1, doneScan)
				w.Clock.Advance(time.Hour)
				actor := rig.Start(t.Context(), fault, after, func(ctx context.Context) error {
					_, err := w.Walker(0).Conclude(ctx)
					return err
				})
				hurt = !actor.Unhurt()
				w.conclude(t, 8)
				first := w.ending(t, ref)
				require.True(t, first.Concluded)
				w.planAgain(t, ref, openScan)
				actor.Resume(rig.None, 0)
				require.NoError(t, actor.Err())
				w.conclude(t, 9)
				require.Empty(t, w.planned(t))
				require.Equal(t, first, w.ending(t, ref))
			}
		})
	}
}

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

func (s damagedMessage) Endings(ctx context.Context, refs []message.Ref) ([]message.Ending, error) {
	endings, err := s.Store.Endings(ctx, refs)
	for i, ref := range refs {
		if ref.ID == s.id {
			endings[i] = message.Ending{Err: fmt.Errorf("message: %w", message.ErrCorrupt)}
		}
	}
	return endings, err
}

// Damage keeps one plan, which is logged once. The others end.
func TestConcludePassesDamage(t *testing.T) {
	t.Parallel()
	w := newPlanWorld(t)
	plan, broken, sound := w.plan(t, 1, doneScan), w.plan(t, 2, doneScan), w.plan(t, 3, doneScan)
	w.Clock.Advance(time.Hour)
	var log bytes.Buffer
	registry := prometheus.NewRegistry()
	stores, opts := w.RetentionStores(), w.RetentionOptions(0)
	stores.Progress, stores.Messages = damagedPlan{w.Progress, plan.ID}, damagedMessage{w.Messages, broken.ID}
	opts.Logger, opts.WalkMetrics = zerolog.New(&log), registry
	c := retention.New(stores, nil, opts)
	for removed := 1; removed >= 0; removed-- {
		n, err := c.Conclude(t.Context())
		require.NoError(t, err)
		require.Equal(t, removed, n)
	}
	require.True(t, w.ending(t, sound).Concluded)
	require.Equal(t, []message.ID{plan.ID, broken.ID}, w.planned(t))
	for _, ref := range []message.Ref{plan, broken} {
		require.Equal(t, 1, strings.Count(log.String(), ref.ID.String()), log.String())
	}
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP fanmail_retention_plans_damaged_total Looks at plans that stay because they, or their messages, are damaged.
# TYPE fanmail_retention_plans_damaged_total counter
fanmail_retention_plans_damaged_total 4
`), "fanmail_retention_plans_damaged_total"))
}
