package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/internal/httpapi"
	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// walker returns the walk over the users of a world, of whom everything has expired that is a day old.
func walker(w *world) *retention.Walker {
	return retention.NewWalker(w.db.Retention(), w.db.Users(), retention.Options{
		Keep: func(_ context.Context, _ userstate.State, target message.ID) (retention.Kept, error) {
			return retention.Kept{Clear: target, Expired: 3}, nil
		},
		Freed: func() int64 { return 4096 }, Every: time.Hour, Partitions: partitions, Token: "token", Rules: userstate.DefaultRules,
		Retention: func() userstate.Retention { return userstate.Retention{MaxAge: 24 * time.Hour} }, Now: w.clock, Logger: zerolog.Nop(),
	})
}

func TestRetentionStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	services := w.services
	services.Audit, services.Retention = new(audit.Service), walker(w) // the audit is never called
	w.handler = httpapi.New(services, w.options)
	get := func() string { return w.must(t, http.StatusOK, http.MethodGet, "/v1/admin/retention", "") }
	require.JSONEq(t, `{"oldest_overdue":null,"low_water":null,"rate":0,"bytes_freed":4096}`, get())
	require.NoError(t, storetest.See(t.Context(), w.db.Users(), w.clock(), "ann"))
	require.NoError(t, services.Retention.Walk(t.Context(), t.Context()))
	lowWater := message.LastBefore(w.clock().Add(-24 * time.Hour))
	w.pass(time.Minute - time.Millisecond)
	var status client.RetentionStatus
	require.NoError(t, json.Unmarshal([]byte(get()), &status))
	require.Equal(t, "1m0s", *status.OldestOverdue)
	require.Equal(t, "7fff-bfff-ffffffffffff", status.LowWater.String()[14:])
	require.Equal(t, lowWater.Time(), status.LowWater.Time())
	require.InDelta(t, 3, status.Rate, 0)
	require.EqualValues(t, 4096, status.BytesFreed)
}
