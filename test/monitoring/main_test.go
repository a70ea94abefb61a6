package monitoring_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/app/embedded"
	"github.com/fanmail/fanmail/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const (
	metricsPage    = "../../docs/metrics.md"
	operationsPage = "../../docs/operations.md"
	rulesFile      = "../../deploy/prometheus/fanmail.rules.yaml"
	configFile     = "../../deploy/prometheus/prometheus.yml"
	dashboardFile  = "../../deploy/grafana/fanmail.json"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(path))
	require.NoError(t, err)
	return string(text)
}

// scrape starts a process with some of the roles, or all of them, on the embedded store, and returns what it answers to Prometheus
// right after, when nothing has happened yet.
func scrape(t *testing.T, roles ...app.Role) string {
	t.Helper()
	cfg := config.Default()
	cfg.Addr, cfg.Data, cfg.Partitions = "127.0.0.1:0", t.TempDir(), 2
	cfg.NATS.MaxPublished, cfg.NATS.MaxFanout = 16*config.MiB, 16*config.MiB
	cfg.NATS.MaxLogin, cfg.NATS.MaxDLQ = 16*config.MiB, 16*config.MiB
	cfg.Embedded.Cache, cfg.Embedded.Memtable = 8*config.MiB, 4*config.MiB
	server := app.New(cfg, app.Options{Embedded: embedded.Engines{}, Roles: roles, Logger: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)})
	require.NoError(t, server.Start(t.Context()))
	defer func() { require.NoError(t, server.Stop(context.WithoutCancel(t.Context()))) }()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL()+"/metrics", http.NoBody)
	require.NoError(t, err)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode, string(text))
	return string(text)
}

// families returns Fanmail's own metrics in an answer, by their names.
func families(t *testing.T, text string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(t, err)
	for name := range all {
		if !strings.HasPrefix(name, "fanmail_") {
			delete(all, name)
		}
	}
	require.NotEmpty(t, all)
	return all
}

func writeFile(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}
