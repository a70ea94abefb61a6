package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/pkg/event"
)

// brokenBus is a bus that cannot be reached.
type brokenBus struct {
	bus.DeadLetterQueue
	bus.Monitor
}

func (brokenBus) Backlog(context.Context) (bus.Backlog, error) {
	return bus.Backlog{}, bus.ErrUnavailable
}

func (brokenBus) Letters(context.Context) (bus.Letters, error) {
	return bus.Letters{}, bus.ErrUnavailable
}

func (brokenBus) DeadLetters(context.Context, uint64, int) ([]event.Filed, error) {
	return nil, errors.New("no answer from 10.0.0.1")
}

// TestDeadLettersAreRefused requests dead letters that do not exist. The tests of the command line request existing ones.
func TestDeadLettersAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	admin := audited(t, w, w.db.Inbox())
	for name, test := range map[string]struct {
		method, target string
		status         int
		detail         string
	}{
		"after no id":         {http.MethodGet, "/v1/admin/dlq?after=x", 422, "after is not the id of a dead letter: take the next of a page as it is"},
		"after a negative id": {http.MethodGet, "/v1/admin/dlq?after=-1", 422, "after is not the id of a dead letter"},
		"too large a page":    {http.MethodGet, "/v1/admin/dlq?limit=201", 422, "give a whole number from 1 to 200"},
		"nothing to do":       {http.MethodPost, "/v1/admin/dlq/7", 404, "a dead letter is redriven at /v1/admin/dlq/{id}:redrive"},
		"redrive no id":       {http.MethodPost, "/v1/admin/dlq/x:redrive", 422, "id is not the id of a dead letter: give a number that the list shows"},
		"drop no id":          {http.MethodDelete, "/v1/admin/dlq/7:redrive", 422, "id is not the id of a dead letter"},
		"another method":      {http.MethodPut, "/v1/admin/dlq/7", 405, "PUT is not among the methods of this path: use DELETE, POST"},
		"the bus is away":     {http.MethodGet, "/v1/admin/dlq", 503, "this could not be finished at the moment: try again after Retry-After"},
		"redrive without bus": {http.MethodPost, "/v1/admin/dlq/7:redrive", 503, "this could not be finished at the moment"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := admin.ask(t, test.method, test.target, "")
			require.Equal(t, test.status, answer.Code, answer.Body)
			require.Contains(t, answer.Body.String(), test.detail)
			require.NotContains(t, answer.Body.String(), "10.0.0.1")
		})
	}
}
