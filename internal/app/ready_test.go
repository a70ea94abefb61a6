package app_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
	"github.com/fanmail/fanmail/pkg/client"
)

// readiness is the answer of /readyz: its status, and the names of what is missing.
type readiness struct {
	Status           int
	Reasons, Limited []client.ReasonName
}

func (w *world) readiness(t *testing.T) (r readiness) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.app.URL()+"/readyz", http.NoBody)
	require.NoError(t, err)
	answer, err := w.web.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	var body struct{ Reasons, Limited []client.Reason }
	require.NoError(t, json.Unmarshal(text, &body), string(text))
	r.Status = answer.StatusCode
	for _, reason := range body.Reasons {
		r.Reasons = append(r.Reasons, reason.Name)
	}
	for _, reason := range body.Limited {
		r.Limited = append(r.Limited, reason.Name)
	}
	return r
}

func (w *world) awaitReadiness(t *testing.T, want readiness) {
	t.Helper()
	require.Eventually(t, func() bool {
		return reflect.DeepEqual(want, w.readiness(t))
	}, time.Minute, 10*time.Millisecond)
}

// status sends a request and returns the status of the answer.
func (w *world) status(t *testing.T, method, path, body string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, w.app.URL()+path, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", client.ContentJSON)
	answer, err := w.web.Do(request)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, answer.Body)
	require.NoError(t, errors.Join(err, answer.Body.Close()))
	return answer.StatusCode
}

// TestReadyWithoutTheBus stops the NATS server of a process, and starts it again. Only a process that does nothing without the bus becomes
// unready.
func TestReadyWithoutTheBus(t *testing.T) {
	t.Parallel()
	whole := readiness{Status: http.StatusOK}
	workerless := readiness{Status: http.StatusOK, Limited: []client.ReasonName{client.ReasonWorker}}
	both := readiness{Status: http.StatusOK, Limited: []client.ReasonName{client.ReasonBus, client.ReasonWorker}}
	limited := readiness{Status: http.StatusOK, Limited: []client.ReasonName{client.ReasonBus}}
	unready := readiness{Status: http.StatusServiceUnavailable, Reasons: []client.ReasonName{client.ReasonBus}}
	for name, test := range map[string]struct {
		roles      []app.Role
		with, want readiness
	}{
		"all roles":                    {nil, whole, limited},
		"publisher":                    {[]app.Role{app.Publisher}, workerless, both},
		"rehydrator":                   {[]app.Role{app.Rehydrator}, whole, limited},
		"fan-out worker":               {[]app.Role{app.FanoutWorker}, whole, unready},
		"fan-out worker and publisher": {[]app.Role{app.FanoutWorker, app.Publisher}, whole, limited},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := t.TempDir()
			var nats *natsserver.Server
			start := func(addr string) {
				var err error
				nats, err = natsserver.Start(t.Context(), natsserver.Options{Dir: in, Addr: addr})
				require.NoError(t, err)
			}
			start("127.0.0.1:0")
			t.Cleanup(func() { nats.Stop() }) // after the process has stopped
			url := nats.ClientURL()
			w, _ := newWorldOf(t, t.TempDir(), func(cfg *config.Config) { cfg.NATS.URL = config.URL(url) },
				func(o *app.Options) { o.Roles = test.roles })
			w.awaitReadiness(t, test.with)
			has := func(role app.Role) bool { return test.roles == nil || slices.Contains(test.roles, role) }
			serves := func() {
				if has(app.Publisher) { // the gate of a bus that refused an event is open again after a second
					require.Eventually(t, func() bool {
						return w.status(t, http.MethodPost, "/v1/messages", `{"from":"ann","to":["bob"],"body":"x"}`) == http.StatusAccepted
					}, time.Minute, 10*time.Millisecond)
				}
				if has(app.Rehydrator) {
					require.Eventually(t, func() bool { // 202 while the inbox is rebuilt
						return w.status(t, http.MethodPost, "/v1/users/bob/login", "") == http.StatusOK
					}, time.Minute, 10*time.Millisecond)
					require.Equal(t, http.StatusOK, w.status(t, http.MethodGet, "/v1/users/bob/inbox", ""))
				}
			}
			serves()
			nats.Stop()
			w.awaitReadiness(t, test.want)
			serves()
			start(strings.TrimPrefix(url, "nats://"))
			w.awaitReadiness(t, test.with)
			serves()
		})
	}
}
