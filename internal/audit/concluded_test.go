package audit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/verdict"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// concludedWorld is an audit on a rig in which ben lacks a message although its fan-out is over.
type concludedWorld struct {
	*rig.Rig
	*audit.Service
	missing message.Message
}

func newConcludedWorld(t *testing.T, scan progress.Scan) *concludedWorld {
	t.Helper()
	r, err := rig.Open(t.Context(), rig.NewClock(), rig.NewBus(t, rig.Partitions), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	service := audit.New(audit.Stores{
		Messages: r.Messages, Progress: r.Progress, Users: r.Users, Edges: r.Edges, Flags: r.Flags, Buckets: r.Inbox, Appender: r.Appender,
	}, audit.Options{
		Partitions: rig.Partitions, Rules: rig.Rules, CatchUp: time.Millisecond, Now: r.Clock.Now,
		Recount: r.Rehydrator(0, 0).Recount,
	})
	_, err = r.Edges.Follow(t.Context(), []follow.Pair{{Follower: "ben", Followee: "ann"}}, r.Clock.Now().Add(-day))
	require.NoError(t, err)
	w := &concludedWorld{Rig: r, Service: service}
	w.missing = message.Message{ID: message.MinID(r.Clock.Now()), From: "ann", Audience: message.AudienceFollowers, Body: "hi"}
	w.missing.ID[6], w.missing.ID[8] = 0x70, 0x80
	_, err = r.Messages.Insert(t.Context(), []message.Message{w.missing}, rig.Rules().Timing())
	require.NoError(t, err)
	var partitions []int
	var steps []progress.Move
	for p := range rig.Partitions {
		partitions = append(partitions, p)
		steps = append(steps, progress.Move{ID: w.missing.ID, Partition: p, To: scan})
	}
	_, err = r.Progress.Plan(t.Context(), w.missing.ID, "medium", partitions, r.Clock.Now())
	require.NoError(t, err)
	_, err = r.Progress.Step(t.Context(), steps, r.Clock.Now())
	require.NoError(t, err)
	w.Clock.Advance(retention.PlanStays + time.Second)
	require.NoError(t, storetest.See(t.Context(), r.Users, r.Clock.Now(), rig.DormantAfter, "ben"))
	return w
}

func (w *concludedWorld) conclude(t *testing.T) {
	t.Helper()
	n, err := w.Walker(0).Conclude(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

// A message whose fan-out has passed the user is missing, whenever its plan ends.
func TestExplainWhileThePlanEnds(t *testing.T) {
	t.Parallel()
	for _, fault := range []rig.Fault{rig.StallBefore, rig.StallAfter} {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			t.Parallel()
			for after, hurt := 0, true; hurt; after++ {
				w := newConcludedWorld(t, progress.Scan{Joined: true, Done: true})
				var got audit.Explanation
				actor := rig.Start(t.Context(), fault, after, func(ctx context.Context) (err error) {
					got, err = w.Explain(ctx, "ben", w.missing.ID)
					return err
				})
				hurt = !actor.Unhurt()
				w.conclude(t)
				actor.Resume(rig.None, 0)
				require.NoError(t, actor.Err())
				require.Equal(t, verdict.Missing, got.Verdict, "after %d operations: %s", after, got.Sentence)
				require.True(t, got.Passed())
			}
		})
	}
}

// The audit finds, and repairs, what is missing after the plan has ended. What may have been given up is not missing.
func TestAuditAfterThePlanEnded(t *testing.T) {
	t.Parallel()
	dead := progress.Scan{Dead: true}
	for name, test := range map[string]struct {
		scan    progress.Scan
		verdict verdict.Verdict
		before  string
		after   string
		missing int
		dead    int64
	}{
		"done":     {progress.Scan{Joined: true, Done: true}, verdict.Missing, "has passed them", "has passed them", 1, 0},
		"given up": {dead.GiveUp(), verdict.DeadLettered, "an operator gave up", "given up in 2 of its partitions", 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newConcludedWorld(t, test.scan)
			look := func() (verdict.Summary, audit.Explanation) {
				t.Helper()
				summary, err := w.Audit(t.Context(), audit.Request{User: "ben"}, func(audit.Event) error { return nil })
				require.NoError(t, err)
				explained, err := w.Explain(t.Context(), "ben", w.missing.ID)
				require.NoError(t, err)
				return summary, explained
			}
			before, explained := look()
			require.Contains(t, explained.Sentence, test.before)
			w.conclude(t)
			after, explained := look()
			require.Equal(t, before, after)
			require.Equal(t, test.verdict, explained.Verdict)
			require.Contains(t, explained.Sentence, test.after)
			require.Len(t, after.Found, test.missing)
			require.Equal(t, test.dead, after.DeadLettered)
			_, err := w.Audit(t.Context(), audit.Request{User: "ben", Repair: true}, func(audit.Event) error { return nil })
			require.NoError(t, err)
			repaired, explained := look()
			require.Empty(t, repaired.Found)
			if test.missing > 0 {
				require.Equal(t, verdict.Delivered, explained.Verdict)
			}
		})
	}
}
