package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/internal/telemetry/telemetrytest"
	"github.com/fanmail/fanmail/test/testenv"
)

// programs are the roles that have a program each.
var programs = []app.Role{app.Publisher, app.FanoutWorker, app.Rehydrator}

// runRole runs the program of a role.
func runRole(ctx context.Context, role app.Role, stderr io.Writer, env []string, args ...string) (code int, stdout string) {
	var out bytes.Buffer
	code = program.RoleMain(ctx, program.Process{
		Args: args, Env: env, Stdin: strings.NewReader(""), Stdout: &out, Stderr: stderr,
		Now: time.Now, Width: func(io.Writer) int { return 0 },
	}, role)
	return code, out.String()
}

// TestReference has the text of the others, which differs in the role only.
func TestRoleHelp(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	code, got := runRole(t.Context(), app.Rehydrator, &stderr, nil, "--help")
	require.Equal(t, program.ExitDone, code, stderr.String())
	golden := filepath.Join("testdata", "help", "rehydrator.golden")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "if this is intended: go test ./internal/cli -run Help -update")
}

// The program of a single role has no embedded store and no embedded bus. The error says what to configure.
func TestRolesShareStoreAndBus(t *testing.T) {
	t.Parallel()
	for _, role := range programs {
		for name, test := range map[string]struct {
			args []string
			want string
		}{
			"the embedded store": {nil, `store is "embedded", which belongs to one process: run all roles in one process by 'fanmail serve', or set store to "mongodb"`},
			"the embedded bus":   {[]string{"--store", "mongodb", "--mongodb-uri", "mongodb://127.0.0.1:1"}, `nats.url is empty, and the embedded NATS server belongs to one process: set nats.url`},
			"no URI":             {[]string{"--store", "mongodb"}, `mongodb.uri is empty: store is mongodb, so it must name the deployment, such as mongodb://127.0.0.1:27017`},
		} {
			var stderr bytes.Buffer
			code, _ := runRole(t.Context(), role, &stderr, nil, test.args...)
			require.Equal(t, program.ExitUsage, code, name)
			require.Contains(t, stderr.String(), string(role)+": ")
			require.Contains(t, stderr.String(), test.want)
			require.Contains(t, stderr.String(), "(see '"+string(role)+" --help')")
		}
	}
}

func TestAdminInitIsForMongoDB(t *testing.T) {
	t.Parallel()
	embedded := run{args: []string{"admin", "init"}}.do(t.Context(), t)
	require.Equal(t, program.ExitFailed, embedded.code)
	require.Contains(t, embedded.stderr, "the embedded store needs no initialization")
}

// A server whose database does not answer waits for it. Meanwhile it is healthy but not ready, and names the database. It stops on
// request.
func TestServeWaitsForItsDatabase(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	logs, ended := &telemetrytest.Buffer{}, make(chan int, 1)
	addr := "127.0.0.1:" + testenv.FreePort(t)
	go func() {
		code, _ := runRole(ctx, app.Publisher, logs, nil, "--addr", addr, "--store", "mongodb", "--mongodb-timeout", "200ms",
			"--mongodb-uri", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=50", "--nats-url", "nats://127.0.0.1:1", "--log-format", "json")
		ended <- code
	}()
	require.Eventually(t, func() bool {
		return strings.Contains(logs.String(), "the database server does not answer: waiting for it")
	},
		time.Minute, 10*time.Millisecond)
	require.Equal(t, http.StatusOK, get(t, "http://"+addr+"/healthz", nil))
	var problem struct{ Detail string }
	require.Equal(t, http.StatusServiceUnavailable, get(t, "http://"+addr+"/readyz", &problem))
	require.Equal(t, "the server is not ready: it is starting, and waits for the store", problem.Detail)
	require.Equal(t, http.StatusServiceUnavailable, get(t, "http://"+addr+"/v1/messages/x", nil))
	require.Eventually(t, func() bool { return strings.Contains(logs.String(), `"servers":["127.0.0.1:1"]`) }, time.Minute, 10*time.Millisecond)
	stop()
	require.Equal(t, program.ExitDone, <-ended)
	require.Contains(t, logs.String(), "stopped before it was ready")
}

func get(t *testing.T, url string, into any) (status int) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	once := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := once.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	if into != nil {
		require.NoError(t, json.NewDecoder(answer.Body).Decode(into))
	}
	return answer.StatusCode
}
