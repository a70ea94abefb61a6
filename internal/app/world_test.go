package app_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/app/embedded"
	"github.com/fanmail/fanmail/internal/telemetry/telemetrytest"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// marker is a part of messages' bodies. No line of the log and no span may contain it.
const marker = "the-body-of-a-message"

// unrecorded is the header of a request that must not be recorded.
var unrecorded = http.Header{"Traceparent": {"00-44444444444444444444444444444444-aaaaaaaaaaaaaaaa-00"}}

// world is a server with all roles.
type world struct {
	app   *app.App
	spans *tracetest.InMemoryExporter
	log   *telemetrytest.Buffer
	web   *http.Client
}

func newWorld(t *testing.T, change ...func(*app.Options)) *world {
	t.Helper()
	w, _ := newWorldIn(t, t.TempDir(), change...)
	return w
}

// newWorldIn returns a server with its data in a folder, and a function that stops it before the test ends.
func newWorldIn(t *testing.T, dir string, change ...func(*app.Options)) (*world, func()) {
	t.Helper()
	return newWorldOf(t, dir, func(*config.Config) {}, change...)
}

// newWorldOf is newWorldIn with a change of the configuration.
func newWorldOf(t *testing.T, dir string, configure func(*config.Config), change ...func(*app.Options)) (*world, func()) {
	t.Helper()
	w := &world{log: new(telemetrytest.Buffer), spans: tracetest.NewInMemoryExporter(), web: &http.Client{Transport: &http.Transport{}}}
	cfg, opts := defaults(dir)
	configure(&cfg)
	opts.Logger = zerolog.New(w.log).Level(zerolog.DebugLevel)
	for _, to := range change {
		to(&opts)
	}
	if opts.Traces != nil {
		opts.Traces.(*sdktrace.TracerProvider).RegisterSpanProcessor(sdktrace.NewSimpleSpanProcessor(w.spans))
	}
	w.app = app.New(cfg, opts)
	require.NoError(t, w.app.Start(t.Context()))
	ctx := context.WithoutCancel(t.Context())
	stop := sync.OnceFunc(func() {
		w.web.CloseIdleConnections()
		require.NoError(t, w.app.Stop(ctx))
	})
	t.Cleanup(stop)
	return w, stop
}

// defaults returns a configuration with small engines, and the options for it.
func defaults(dir string) (config.Config, app.Options) {
	cfg := config.Default()
	cfg.Addr, cfg.Data = "127.0.0.1:0", dir
	cfg.NATS.MaxPublished, cfg.NATS.MaxFanout = 16*config.MiB, 16*config.MiB
	cfg.NATS.MaxLogin, cfg.NATS.MaxDLQ = 16*config.MiB, 16*config.MiB
	cfg.Embedded.Cache, cfg.Embedded.Memtable = 8*config.MiB, 4*config.MiB
	return cfg, app.Options{Embedded: embedded.Engines{}, Logger: zerolog.Nop()}
}

// ask sends a request, requires a status, and decodes the answer into answer unless that is nil.
func (w *world) ask(t *testing.T, method, path, body string, status int, answer any, headers ...http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, w.app.URL()+path, strings.NewReader(body))
	require.NoError(t, err)
	if body != "" {
		r.Header.Set("Content-Type", client.ContentJSON)
	}
	for _, h := range headers {
		maps.Copy(r.Header, h)
	}
	got, err := w.web.Do(r)
	require.NoError(t, err)
	defer func() { require.NoError(t, got.Body.Close()) }()
	text, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	require.Equal(t, status, got.StatusCode, string(text))
	if answer != nil {
		require.NoError(t, json.Unmarshal(text, answer), string(text))
	}
}

// see makes users active.
func (w *world) see(t *testing.T, users ...string) {
	t.Helper()
	for _, user := range users {
		w.ask(t, http.MethodPost, "/v1/users/"+user+"/login", "", http.StatusOK, nil)
	}
}

// done waits until the fan-out of a message is done.
func (w *world) done(t *testing.T, id message.ID) {
	t.Helper()
	require.Eventually(t, func() bool {
		var status client.Status
		w.ask(t, http.MethodGet, "/v1/messages/"+id.String(), "", http.StatusOK, &status, unrecorded)
		return status.Fanout.State == message.StateDone
	}, time.Minute, 10*time.Millisecond)
}

// await waits until the ended spans satisfy wanted, and returns them.
func (w *world) await(t *testing.T, wanted func(spans) bool) spans {
	t.Helper()
	require.Eventually(t, func() bool { return wanted(spans(w.spans.GetSpans())) }, time.Minute, 10*time.Millisecond)
	return spans(w.spans.GetSpans())
}
