//go:build long

package e2e_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/test/testenv"
)

// untilTold is a drain_delay that is longer than the test.
const untilTold = "1h"

// TestDraining sends a server SIGTERM. The server must report that it is stopping, and continue to serve on connections that end
// with the answer. A second signal must end it at once. The next server must deliver the messages that it accepted meanwhile.
func TestDraining(t *testing.T) {
	t.Parallel()
	ctx := bounded(t, 2*time.Minute)
	w := newWorld(ctx, t, embedded, impatient(map[string]string{"drain_delay": untilTold}))
	server := w.site.Start(ctx, t, programs.Fanmail)
	status, _, closing := w.request(ctx, http.MethodGet, "/readyz", "")
	require.Equal(t, http.StatusOK, status)
	require.False(t, closing)

	server.Terminate()
	var problem client.Problem
	testenv.Eventually(ctx, t, "the server says that it is stopping", func() bool {
		var text []byte
		status, text, closing = w.request(ctx, http.MethodGet, "/readyz", "")
		return status != http.StatusOK && json.Unmarshal(text, &problem) == nil
	})
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.True(t, closing)
	require.Equal(t, []client.Reason{{Name: client.ReasonStopping, Detail: "it is stopping"}}, problem.Reasons)
	status, _, _ = w.request(ctx, http.MethodGet, "/healthz", "")
	require.Equal(t, http.StatusOK, status, "nobody should restart it for that")
	status, text, closing := w.request(ctx, http.MethodPost, "/v1/messages", `{"from":"ann","to":["ben"],"body":"in time"}`)
	require.Equal(t, http.StatusAccepted, status)
	require.True(t, closing)
	var sent struct{ ID string }
	require.NoError(t, json.Unmarshal(text, &sent))

	server.Terminate()
	require.Equal(t, syscall.SIGTERM, server.EndedBy())
	next := w.site.Start(ctx, t, programs.Fanmail)
	require.Contains(t, w.fanmail(ctx, "status", sent.ID, "--wait"), "done")
	next.Interrupt()
	require.Zero(t, next.Code(ctx), "who interrupts it does not wait for anybody to notice")
	next.RequireSound()
}

// request sends a request, and reports whether the server closes the connection with its answer.
func (w *world) request(ctx context.Context, method, path, body string) (status int, text []byte, closing bool) {
	w.Helper()
	r, err := http.NewRequestWithContext(ctx, method, w.site.URL()+path, strings.NewReader(body))
	require.NoError(w, err)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	require.NoError(w, err)
	defer func() { require.NoError(w, answer.Body.Close()) }()
	text, err = io.ReadAll(answer.Body)
	require.NoError(w, err)
	return answer.StatusCode, text, answer.Close
}
