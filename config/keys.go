package config

import (
	_ "embed"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// reference is fanmail.yaml: every key with its default, its unit and the reason for it.
//
//go:embed fanmail.yaml
var reference []byte

// Key is one key of the configuration.
type Key struct {
	// Name is the key as it is spelt in the file, such as "limits.body".
	Name string
	// Env is its environment variable, such as "FANMAIL_LIMITS_BODY".
	Env string
	// Flag is its flag without the dashes, such as "limits-body".
	Flag string
	// Default is its default, as it is spelt in the file.
	Default string
	// Doc is its comment in the reference, as one line.
	Doc string
	// Rare reports whether the reference marks it as rarely changed.
	Rare bool

	boolean bool
}

// Keys returns all keys in the order of the reference. The caller may change the slice.
func Keys() []Key { return append([]Key(nil), keys()...) }

// Default returns the configuration that holds where nothing else is said: that of fanmail.yaml.
func Default() Config { return defaults() }

var defaults = sync.OnceValue(func() (c Config) {
	for _, f := range fields(&c) {
		if err := f.parse(described()[f.key].value); err != nil {
			panic(fmt.Sprintf("config: the embedded fanmail.yaml: %s %v", f.key, err)) // a test reads it, so no build that passed gets here
		}
	}
	return c
})

var keys = sync.OnceValue(func() []Key {
	defaults := Default()
	var all []Key
	for _, f := range fields(&defaults) {
		flat := strings.ReplaceAll(f.key, ".", "_")
		doc, rare := strings.CutSuffix(described()[f.key].doc, " Rarely changed.")
		all = append(all, Key{
			Name:    f.key,
			Env:     envPrefix + strings.ToUpper(flat),
			Flag:    strings.ReplaceAll(flat, "_", "-"),
			Default: f.text(),
			Doc:     doc,
			Rare:    rare,
			boolean: f.value.Kind() == reflect.Bool,
		})
	}
	return all
})

// AddFlag defines the key's flag. Load reads it, checks it, and leaves aside flags that were not given.
func (k Key) AddFlag(flags *pflag.FlagSet) {
	usage, _, _ := strings.Cut(k.Doc, ". ")
	if k.boolean {
		flags.Bool(k.Flag, k.Default == "true", usage)
		return
	}
	flags.String(k.Flag, k.Default, usage)
}

// description is what the reference says of a key: its comment, and its value.
type description struct{ doc, value string }

// described returns what the reference says, by key.
var described = sync.OnceValue(func() map[string]description {
	var root yaml.Node
	if err := yaml.Unmarshal(reference, &root); err != nil {
		panic(fmt.Sprintf("config: the embedded fanmail.yaml: %v", err)) // see defaults
	}
	found := make(map[string]description)
	for _, top := range root.Content {
		collect(found, "", top)
	}
	return found
})

func collect(found map[string]description, prefix string, mapping *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		name, value := mapping.Content[i], mapping.Content[i+1]
		if value.Kind == yaml.MappingNode {
			collect(found, prefix+name.Value+".", value)
			continue
		}
		lines := strings.Split(name.HeadComment, "\n")
		for j, line := range lines {
			lines[j] = strings.TrimSpace(strings.TrimPrefix(line, "#"))
		}
		found[prefix+name.Value] = description{doc: strings.TrimSpace(strings.Join(lines, " ")), value: value.Value}
	}
}
