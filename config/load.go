package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

const (
	envPrefix = "FANMAIL_"
	// FileEnv is the environment variable that names the configuration file where Options.File does not.
	FileEnv = envPrefix + "CONFIG"
)

// Options says where a configuration is read from. Its zero value reads nothing: Load returns the defaults.
type Options struct {
	// File is the path of a YAML file; empty for the one that FileEnv names, or none.
	File string
	// Env holds NAME=value pairs (os.Environ()). A variable that is empty counts as one that is not set.
	Env []string
	// ForeignEnv names FANMAIL_* variables in Env that belong to others and are no keys.
	ForeignEnv []string
	// Flags holds flags that Key.AddFlag defined. Those that were given count; others in the set are passed over.
	Flags *pflag.FlagSet
}

// Load reads a configuration and validates it. An error lists everything that is wrong with it, a line for each;
// each is an *InvalidError, unless the file itself cannot be read.
func Load(opts Options) (Config, error) {
	env, errs := environment(opts)
	path := opts.File
	if path == "" {
		path = env[FileEnv]
	}
	delete(env, FileEnv)

	layers := viper.New()
	inFile := make(map[string]bool)
	if path != "" {
		if err := readFile(layers, path); err != nil {
			return Config{}, err
		}
		for _, name := range slices.Sorted(slices.Values(layers.AllKeys())) {
			if reason := misplaced(name, layers.Get(name)); reason != "" {
				errs = append(errs, invalid(path, name, "%s", reason))
			}
			inFile[name] = true
		}
	}
	if len(errs) > 0 {
		return Config{}, errors.Join(errs...)
	}
	sources, err := stack(layers, path, inFile, env, opts.Flags)
	if err != nil {
		return Config{}, err
	}
	c, err := decode(layers, sources)
	if err != nil {
		return Config{}, err
	}
	return c, c.validate(sources)
}

// environment returns the FANMAIL_* variables that are keys, or FileEnv, and an error for each that is neither.
func environment(opts Options) (map[string]string, []error) {
	known := []string{FileEnv}
	for _, k := range keys() {
		known = append(known, k.Env)
	}
	env := make(map[string]string)
	var errs []error
	for _, pair := range opts.Env {
		name, value, _ := strings.Cut(pair, "=")
		switch {
		case !strings.HasPrefix(name, envPrefix) || slices.Contains(opts.ForeignEnv, name):
		case !slices.Contains(known, name):
			errs = append(errs, invalid("environment", name, "is unknown; the nearest known variable is %s", nearest(name, known)))
		case value != "":
			env[name] = value
		}
	}
	return env, errs
}

func readFile(layers *viper.Viper, path string) error {
	content, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return fmt.Errorf("configuration file: %w", err)
	}
	layers.SetConfigType("yaml")
	if err := layers.ReadConfig(bytes.NewReader(content)); err != nil {
		return fmt.Errorf("configuration file %s: %w", path, err)
	}
	return nil
}

// misplaced tells why a name in the file cannot stay there, or returns nothing.
func misplaced(name string, value any) string {
	var known []string
	for _, k := range keys() {
		if k.Name == name {
			if kind := reflect.ValueOf(value).Kind(); kind == reflect.Slice || kind == reflect.Map {
				return "is not a single value"
			}
			return ""
		}
		if strings.HasPrefix(k.Name, name+".") {
			if value == nil { // a section with all its keys commented out
				return ""
			}
			return "is a section: it takes keys such as " + k.Name + ", not a value"
		}
		known = append(known, k.Name)
	}
	return "is unknown; the nearest known key is " + nearest(name, known)
}

// stack puts defaults under the file that layers holds, and environment and flags over it. It returns where each
// key that is not at its default gets its value from.
func stack(layers *viper.Viper, path string, inFile map[string]bool, env map[string]string, flags *pflag.FlagSet) (map[string]string, error) {
	sources := make(map[string]string)
	for _, k := range keys() {
		layers.SetDefault(k.Name, k.Default)
		if inFile[k.Name] {
			sources[k.Name] = path
		}
		if value, found := env[k.Env]; found {
			if err := layers.MergeConfigMap(nested(k.Name, value)); err != nil {
				return nil, fmt.Errorf("%s: %w", k.Env, err)
			}
			sources[k.Name] = k.Env
		}
		if flags == nil {
			continue
		}
		if flag := flags.Lookup(k.Flag); flag != nil {
			if err := layers.BindPFlag(k.Name, flag); err != nil {
				return nil, fmt.Errorf("--%s: %w", k.Flag, err)
			}
			if flag.Changed {
				sources[k.Name] = "--" + k.Flag
			}
		}
	}
	return sources, nil
}

// nested returns the map that a file with this one key would give.
func nested(key, value string) map[string]any {
	section, rest, found := strings.Cut(key, ".")
	if !found {
		return map[string]any{key: value}
	}
	return map[string]any{section: nested(rest, value)}
}

func decode(layers *viper.Viper, sources map[string]string) (Config, error) {
	var c Config
	var errs []error
	for _, f := range fields(&c) {
		if err := f.parse(fmt.Sprint(layers.Get(f.key))); err != nil {
			errs = append(errs, invalid(sources[f.key], f.key, "%v", err))
		}
	}
	return c, errors.Join(errs...)
}
