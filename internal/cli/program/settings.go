package program

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/config"
)

// shownKeys are the keys whose flags the help lists. The other keys are hidden flags, because a list of all keys would be too long.
var shownKeys = []string{
	"addr", "insecure", "store", "data", "partitions", "dormant_after", "drain_delay", "drain_timeout",
	"fanout.medium_workers", "fanout.bulk_workers",
	"mongodb.uri", "mongodb.database", "nats.url", "nats.listen",
	"auth.tokens_file", "auth.jwt_keys_file", "auth.jwt_audience", "tls.cert_file", "tls.key_file", "tls.client_ca_file", "log.level", "log.format",
}

// Settings reads the configuration for a command.
type Settings struct {
	process Process
	cmd     *cobra.Command
	file    string
}

// NoKey as the only shown key hides the flags of all keys.
const NoKey = ""

// NewSettings adds --config and the flags of all keys to a command. The help lists the flags of the given keys, or without any of those that
// most servers need; --help-all lists the others, too.
func NewSettings(p Process, cmd *cobra.Command, shown ...string) *Settings {
	if len(shown) == 0 {
		shown = shownKeys
	}
	s := &Settings{process: p, cmd: cmd}
	cmd.Flags().StringVar(&s.file, "config", "", "configuration file (default $"+config.FileEnv+", or none)")
	for _, key := range config.Keys() {
		key.AddFlag(cmd.Flags())
		cmd.Flags().Lookup(key.Flag).Hidden = !slices.Contains(shown, key.Name)
	}
	addHelpAll(cmd)
	return s
}

// Load returns the configuration. A fault in it is a usage error.
func (s *Settings) Load() (config.Config, error) {
	return Load(config.Options{File: s.file, Env: s.process.Env, Flags: s.cmd.Flags()})
}

// Load returns the configuration that the options name. A fault in it is a usage error.
func Load(opts config.Options) (config.Config, error) {
	opts.ForeignEnv = clientEnv
	cfg, err := config.Load(opts)
	if err != nil {
		return config.Config{}, Usage(err)
	}
	return cfg, nil
}

// Origin returns the flag or the environment variable that set a key, or "" if neither did.
func (s *Settings) Origin(key config.Key) string {
	switch {
	case s.cmd.Flags().Changed(key.Flag):
		return "--" + key.Flag
	case s.process.Getenv(key.Env) != "":
		return key.Env
	}
	return ""
}

// Path returns the path of the configuration file, or "" if there is none.
func (s *Settings) Path() string {
	if s.file != "" {
		return s.file
	}
	return s.process.Getenv(config.FileEnv)
}
