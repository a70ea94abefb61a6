package httpapi_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/internal/httpapi"
	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// walker returns the walk over the users of a world, whose messages expire when they are a day old.
func walker(w *world) *retention.Walker {
	return retention.New(retention.Stores{Rounds: w.db.Retention()}, nil, retention.Options{
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
	require.JSONEq(t, `{"oldest_overdue":null,"as_of":null,"low_water":null}`, get())
	lowWater := message.LastBefore(w.clock().Add(-24 * time.Hour))
	require.NoError(t, w.db.Retention().Replace(t.Context(), retention.Round{}, retention.Round{
		Began: w.clock(), Ended: true, Number: 1, LowWater: lowWater,
	}))
	w.pass(time.Minute - time.Millisecond)
	var status client.RetentionStatus
	require.NoError(t, json.Unmarshal([]byte(get()), &status))
	require.Equal(t, "1m0s", *status.OldestOverdue)
	require.Nil(t, status.AsOf)
	require.Equal(t, "7fff-bfff-ffffffffffff", status.LowWater.String()[14:])
	require.Equal(t, lowWater.Time(), status.LowWater.Time())
}
