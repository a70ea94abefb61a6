package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/httpapi"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/message"
)

// A client that asks for a status gets the same counts before and after the plan has ended, and so does an operator who asks why a user has no
// copy.
func TestStatusAfterThePlanEnded(t *testing.T) {
	t.Parallel()
	w := adminWorld(t)
	dead := progress.Scan{Dead: true}
	for n, scan := range map[int]progress.Scan{4: {Joined: true, Done: true, Delivered: 3, Skipped: 2}, 5: dead.GiveUp()} {
		id := messagetest.ID(n)
		_, err := w.db.Messages().Insert(t.Context(), []message.Message{messagetest.Message(n, "ann")}, messagetest.AnyTime)
		require.NoError(t, err)
		_, err = w.db.Progress().Plan(t.Context(), id, "medium", []int{0, 1, 2, 3}, w.clock())
		require.NoError(t, err)
		for p := range partitions {
			_, err = w.db.Progress().Step(t.Context(), []progress.Move{{ID: id, Partition: p, To: scan}}, w.clock())
			require.NoError(t, err)
		}
	}
	addAudit(t, w, &w.services, w.db.Inbox())
	w.handler = httpapi.New(w.services, w.options)
	answers := func() (all []string) {
		for n := 1; n <= 5; n++ {
			all = append(all, w.must(t, http.StatusOK, http.MethodGet, "/v1/messages/"+messagetest.ID(n).String(), ""))
		}
		return append(all, w.must(t, http.StatusOK, http.MethodGet, "/v1/admin/explain?user=bob&message="+messagetest.ID(4).String(), ""))
	}
	before := answers()
	require.Contains(t, before[3], `"fanout":{"state":"running","lane":"medium","recipients":20,"delivered":12,"skipped":8}`)
	require.Contains(t, before[4], `"fanout":{"state":"running","lane":"medium","recipients":0,"delivered":0,"skipped":0,"given_up":4}`)
	w.pass(time.Hour)
	n, err := retention.New(retention.Stores{Rounds: w.db.Retention(), Progress: w.db.Progress(), Messages: w.db.Messages()}, nil, retention.Options{
		Canonical: func() time.Duration { return 24 * time.Hour }, Now: w.clock, Logger: zerolog.Nop(),
	}).Conclude(t.Context())
	require.NoError(t, err)
	require.Equal(t, 5, n)
	for i := range before {
		before[i] = strings.Replace(before[i], `"state":"running"`, `"state":"done"`, 1)
	}
	require.Equal(t, before, answers())
}
