package bench_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/test/testenv"
)

// process is "fanmail serve" in a process of its own, with the default configuration but for -settings.
type process struct {
	*exec.Cmd
	url  string
	logs bytes.Buffer
	done chan struct{} // closed when it prints nothing any more
}

// startServer starts a server on a data folder and returns when it is ready. It is stopped when the benchmark ends, and has
// to have met no error by then.
func startServer(b *testing.B, data string) *process {
	b.Helper()
	path := *server
	if path == "" {
		built, err := testenv.Build(b.Context(), b.TempDir())
		require.NoError(b, err)
		path = built.Fanmail
	}
	p := &process{Cmd: exec.Command(path, "serve"), done: make(chan struct{})} //nolint:noctx // it is stopped in order
	p.Env = append(os.Environ(), "FANMAIL_ADDR=127.0.0.1:0", "FANMAIL_DATA="+data, "FANMAIL_LOG_FORMAT=json")
	p.Env = append(p.Env, strings.Fields(*settings)...)
	output, err := p.StderrPipe()
	require.NoError(b, err)
	require.NoError(b, p.Start())
	ready := make(chan string, 1)
	go func() {
		defer close(p.done)
		defer close(ready)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			p.logs.Write(append(lines.Bytes(), '\n'))
			var logged struct{ Message, URL string }
			if json.Unmarshal(lines.Bytes(), &logged) == nil && logged.Message == "fanmail is ready" {
				ready <- logged.URL
			}
		}
	}()
	b.Cleanup(func() {
		require.NoError(b, p.Process.Signal(syscall.SIGTERM))
		<-p.done
		require.NoError(b, p.Wait(), p.logs.String())
		require.NotContains(b, p.logs.String(), `"level":"error"`)
	})
	p.url = <-ready
	require.NotEmpty(b, p.url, "the server has ended")
	return p
}

// gauges returns the server's metrics by their names, with the labels if they have any.
func (p *process) gauges(b *testing.B) map[string]float64 {
	b.Helper()
	answer, err := http.Get(p.url + "/metrics") //nolint:noctx // the server is next door
	require.NoError(b, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(b, err)
	require.NoError(b, answer.Body.Close())
	gauges := make(map[string]float64)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if number, err := strconv.ParseFloat(value, 64); err == nil {
			gauges[name] = number
		}
	}
	return gauges
}

// residentMiB returns how much memory the process has, as Linux tells, or 0 elsewhere.
func (p *process) residentMiB(b *testing.B) float64 {
	b.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(p.Process.Pid) + "/statm")
	if err != nil {
		return 0
	}
	pages, err := strconv.ParseInt(string(bytes.Fields(status)[1]), 10, 64)
	require.NoError(b, err)
	return float64(pages*int64(os.Getpagesize())) / (1 << 20)
}
