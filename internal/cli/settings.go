package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/config"
)

// shownKeys are the keys whose flags the help lists. Every other key is a flag, too, but a help text of dozens of
// flags helps nobody.
var shownKeys = []string{
	"addr", "insecure", "store", "data", "partitions", "dormant_after", "drain_delay", "drain_timeout",
	"fanout.express_workers", "fanout.medium_workers", "fanout.bulk_workers",
	"mongodb.uri", "mongodb.database", "nats.url", "nats.listen",
	"auth.tokens_file", "auth.jwt_keys_file", "auth.jwt_audience", "tls.cert_file", "tls.key_file", "tls.client_ca_file", "log.level", "log.format",
}

// settings reads the configuration for a command.
type settings struct {
	process Process
	cmd     *cobra.Command
	file    string
}

// newSettings gives a command --config and the flags of all keys.
func newSettings(p Process, cmd *cobra.Command) *settings {
	s := &settings{process: p, cmd: cmd}
	cmd.Flags().StringVar(&s.file, "config", "", "configuration file (default $"+config.FileEnv+", or none)")
	for _, key := range config.Keys() {
		key.AddFlag(cmd.Flags())
		cmd.Flags().Lookup(key.Flag).Hidden = !slices.Contains(shownKeys, key.Name)
	}
	return s
}

// load returns the configuration. What is wrong with it is a usage error.
func (s *settings) load() (config.Config, error) {
	return load(config.Options{File: s.file, Env: s.process.Env, Flags: s.cmd.Flags()})
}

func load(opts config.Options) (config.Config, error) {
	opts.ForeignEnv = append([]string{serverEnv, publisherEnv, rehydratorEnv, testClockEnv}, credentialEnvs()...)
	cfg, err := config.Load(opts)
	if err != nil {
		return config.Config{}, &usageError{err}
	}
	return cfg, nil
}

// origin returns what set a key, a flag or an environment variable, or nothing where it was neither.
func (s *settings) origin(key config.Key) string {
	switch {
	case s.cmd.Flags().Changed(key.Flag):
		return "--" + key.Flag
	case s.process.getenv(key.Env) != "":
		return key.Env
	}
	return ""
}

// path returns the configuration file that is read, or nothing.
func (s *settings) path() string {
	if s.file != "" {
		return s.file
	}
	return s.process.getenv(config.FileEnv)
}
