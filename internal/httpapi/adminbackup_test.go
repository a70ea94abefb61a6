package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/internal/backup"
	"github.com/fanmail/fanmail/internal/httpapi"
	"github.com/fanmail/fanmail/pkg/client"
)

// folder is a store that saves itself as an empty folder, and a bus that saves nothing.
type folder struct {
	// meanwhile is called while the store is saved; it may be nil.
	meanwhile func()
}

func (f folder) Checkpoint(_ context.Context, dir string) (time.Duration, error) {
	if f.meanwhile != nil {
		f.meanwhile()
	}
	return 1500 * time.Microsecond, os.Mkdir(dir, 0o700)
}

func (f folder) Save(_ context.Context, _ string, store func() error) error { return store() }

func TestBackup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	services := w.services
	services.Audit = new(audit.Service) // never called
	dir := filepath.Join(t.TempDir(), "backup")
	post := func(status int, dir string) string {
		return w.must(t, status, http.MethodPost, "/v1/admin/backup", `{"dir":"`+dir+`"}`)
	}
	problem := func(status int, dir string) (p client.Problem) {
		require.NoError(t, json.Unmarshal([]byte(post(status, dir)), &p))
		return p
	}
	w.handler = httpapi.New(services, w.options) // on MongoDB
	require.Contains(t, problem(http.StatusConflict, dir).Detail, "only 'fanmail serve' on the embedded store")
	require.NoDirExists(t, dir)

	var meanwhile client.Problem
	f := folder{meanwhile: func() { meanwhile = problem(http.StatusConflict, dir+"-2") }}
	services.Backup = backup.New(f, f, t.TempDir(), "", w.clock)
	w.handler = httpapi.New(services, w.options)
	require.Contains(t, problem(http.StatusConflict, dir).Detail, "backup.dir is not set")
	services.Backup = backup.New(f, f, t.TempDir(), filepath.Dir(dir), w.clock)
	w.handler = httpapi.New(services, w.options)
	require.Equal(t, "dir", problem(http.StatusUnprocessableEntity, "backup").Field)
	require.JSONEq(t, `{"longest_pause":"1.5ms"}`, post(http.StatusOK, dir))
	require.Equal(t, "another backup is under way: wait until it has ended", meanwhile.Detail)
	require.FileExists(t, filepath.Join(dir, "backup.json"))
	require.Contains(t, problem(http.StatusUnprocessableEntity, dir).Detail, "is not empty")
}
