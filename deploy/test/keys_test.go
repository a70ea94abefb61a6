package deploy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/fanmail/fanmail/config"
)

// loads returns the configuration that a process of a deployment has, of a file, which may be empty, and of its environment.
// Every key has to be one, with a value that is allowed.
func loads(t *testing.T, file string, env map[string]string) config.Config {
	t.Helper()
	opts := config.Options{}
	if file != "" {
		opts.File = filepath.Join(t.TempDir(), "fanmail.yaml")
		require.NoError(t, os.WriteFile(opts.File, []byte(file), 0o600))
	}
	for name, value := range env {
		if name != config.FileEnv {
			opts.Env = append(opts.Env, name+"="+value)
		}
	}
	cfg, err := config.Load(opts)
	require.NoError(t, err)
	return cfg
}

// requireOutlasts checks that a process is not killed before it has drained: what is added to drain_delay and drain_timeout is for
// closing what is open.
func requireOutlasts(t *testing.T, grace time.Duration, cfg config.Config) {
	t.Helper()
	require.GreaterOrEqual(t, grace, cfg.DrainDelay+cfg.DrainTimeout+10*time.Second)
}

// documents returns the documents of a YAML stream that are not empty.
func documents(t *testing.T, stream string) []string {
	t.Helper()
	var found []string
	decoder := yaml.NewDecoder(strings.NewReader(stream))
	for {
		var document yaml.Node
		if err := decoder.Decode(&document); err != nil {
			require.ErrorContains(t, err, "EOF")
			return found
		}
		text, err := yaml.Marshal(&document)
		require.NoError(t, err)
		if strings.TrimSpace(string(text)) != "null" {
			found = append(found, string(text))
		}
	}
}
