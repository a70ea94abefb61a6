package publish_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// The status has the same counts while the plan of a message ends at any point of a look at it. A message that is done stays done.
func TestStatusWhileThePlanEnds(t *testing.T) {
	t.Parallel()
	for _, fault := range []rig.Fault{rig.StallBefore, rig.StallAfter} {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			t.Parallel()
			for after, hurt := 0, true; hurt; after++ {
				d := newDesk(t)
				reporter := publish.NewReporter(d.Messages, d.Progress, d.Edges, d.Users, publish.ReporterOptions{Partitions: rig.Partitions, Waits: progress.Waits{ResumeAfter: rig.ResumeAfter}, Now: d.Clock.Now})
				m := one(t, d.Publish(t.Context(), []publish.Request{request("", "body")}))
				dead := progress.Scan{Delivered: 1, Dead: true}
				d.record(t, m.ID, progress.Scan{Joined: true, Done: true, Delivered: 5, Skipped: 2}, dead.GiveUp())
				want := publish.Status{Message: m, State: message.StateRunning, Lane: "medium", Delivered: 6, Skipped: 2, GivenUp: 1}
				d.requireStatus(t, reporter, want)
				var got publish.Status
				actor := rig.Start(t.Context(), fault, after, func(ctx context.Context) (err error) {
					got, err = reporter.Status(ctx, m.ID)
					return err
				})
				hurt = !actor.Unhurt()
				d.Clock.Advance(retention.PlanStays + time.Second)
				n, err := d.Walker(0).Conclude(t.Context())
				require.NoError(t, err)
				require.Equal(t, 1, n)
				actor.Resume(rig.None, 0)
				require.NoError(t, actor.Err())
				require.NotEqual(t, message.StatePending, got.State)
				want.State, got.State = message.StateDone, message.StateDone // it may have been read before
				got.Scans, got.Moved = nil, time.Time{}
				require.Equal(t, want, got, "after %d operations", after)
				d.requireStatus(t, reporter, want)
				d.record(t, m.ID, progress.Scan{}.Join("m"), progress.Scan{}) // a late repetition of the event
				d.requireStatus(t, reporter, want)
			}
		})
	}
}

// record plans a message, and records its scans.
func (d *desk) record(t *testing.T, id message.ID, scans ...progress.Scan) {
	t.Helper()
	_, err := d.Progress.Plan(t.Context(), id, "medium", []int{0, 1}, d.Clock.Now())
	require.NoError(t, err)
	var steps []progress.Move
	for p, scan := range scans {
		steps = append(steps, progress.Move{ID: id, Partition: p, To: scan})
	}
	_, err = d.Progress.Step(t.Context(), steps, d.Clock.Now())
	require.NoError(t, err)
}

func (d *desk) requireStatus(t *testing.T, reporter *publish.Reporter, want publish.Status) {
	t.Helper()
	got, err := reporter.Status(t.Context(), want.Message.ID)
	require.NoError(t, err)
	got.Scans, got.Moved = nil, time.Time{}
	require.Equal(t, want, got)
}
