package deploy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fanmail/fanmail/config"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// pending are the keys that are deployed and not yet configuration. Remove what the configuration has, and this with the last.
var pending = []string{
	"auth.tokens_file", "auth.jwt_keys_file", "auth.jwt_audience", "tls.cert_file", "tls.key_file",
	"nats.credentials_file", "nats.ca_file", "nats.cert_file", "nats.key_file",
	"mongodb.uri_file", "mongodb.ca_file", "mongodb.cert_file",
}

func TestPending(t *testing.T) {
	t.Parallel()
	for _, key := range config.Keys() {
		require.NotContains(t, pending, key.Name, "the configuration has this key: remove it from what is pending")
	}
}

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
		switch key := keyOf(name); {
		case key == "mongodb.uri_file":
			opts.Env = append(opts.Env, "FANMAIL_MONGODB_URI=mongodb://from.the.file") // which makes up for it
		case key == "" && name != config.FileEnv:
			opts.Env = append(opts.Env, name+"="+value)
		}
	}
	cfg, err := config.Load(opts)
	require.NoError(t, err)
	return cfg
}

// keyOf returns which of the pending keys an environment variable is, or nothing.
func keyOf(env string) string {
	for _, key := range pending {
		if env == "FANMAIL_"+strings.ToUpper(strings.ReplaceAll(key, ".", "_")) {
			return key
		}
	}
	return ""
}

// requireOutlasts checks that a process is not killed before it has drained: what is added to drain_timeout is for requests that are
// still sent when it is told to stop, and for closing what is open.
func requireOutlasts(t *testing.T, grace time.Duration, cfg config.Config) {
	t.Helper()
	require.GreaterOrEqual(t, grace, cfg.DrainTimeout+15*time.Second)
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
