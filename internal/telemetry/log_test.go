package telemetry_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/telemetry"
)

func noon() time.Time {
	return time.Date(2026, 3, 1, 13, 0, 0, 7_654_321, time.FixedZone("CET", 3600))
}

func TestNewLogger(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		level, format, want string
	}{
		"json":                       {"info", "json", `{"level":"info","user":"ada","time":"2026-03-01T12:00:00.007Z","message":"viewed"}` + "\n"},
		"auto, not on a terminal":    {"debug", "auto", `{"level":"info","user":"ada","time":"2026-03-01T12:00:00.007Z","message":"viewed"}` + "\n"},
		"console, without colours":   {"info", "console", "12:00:00.007 INF viewed user=ada\n"},
		"below the level":            {"warn", "json", ""},
		"below the level, formatted": {"error", "console", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			log, err := telemetry.NewLogger(telemetry.LogOptions{Level: test.level, Format: test.format, Writer: &out, Now: noon})
			require.NoError(t, err)
			log.Info().Str("user", "ada").Msg("viewed")
			require.Equal(t, test.want, out.String())
		})
	}
}

func TestNewLoggerToAFileIsJSON(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer file.Close() //nolint:errcheck // the test reads the file below
	log, err := telemetry.NewLogger(telemetry.LogOptions{Level: "info", Format: telemetry.FormatAuto, Writer: file, Now: noon})
	require.NoError(t, err)
	log.Info().Msg("started")
	content, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	require.JSONEq(t, `{"level":"info","time":"2026-03-01T12:00:00.007Z","message":"started"}`, string(content))
}

func TestNewLoggerRefuses(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string]telemetry.LogOptions{
		`log level "loud" is unknown`: {Level: "loud", Format: "json"},
		`log level "" is unknown`:     {Format: "json"},
		`log format "xml" is unknown`: {Level: "info", Format: "xml"},
	} {
		_, err := telemetry.NewLogger(opts)
		require.EqualError(t, err, want)
	}
}
