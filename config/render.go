package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// YAML returns the configuration as a file that Load reads back, its keys in the order of the reference.
func (c Config) YAML() ([]byte, error) {
	root := &yaml.Node{Kind: yaml.MappingNode}
	sections := map[string]*yaml.Node{"": root}
	for _, f := range fields(&c) {
		section, name := split(f.key)
		parent := sections[section]
		if parent == nil {
			parent = &yaml.Node{Kind: yaml.MappingNode}
			sections[section] = parent
			root.Content = append(root.Content, scalar("!!str", section), parent)
		}
		tag := ""
		if f.value.Kind() == reflect.String {
			tag = "!!str"
		}
		parent.Content = append(parent.Content, scalar("!!str", name), scalar(tag, f.text()))
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		return nil, fmt.Errorf("render configuration: %w", err)
	}
	return out.Bytes(), nil
}

func scalar(tag, value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
}

// JSON returns the configuration as an indented JSON object. Durations and sizes are strings, as in a file.
func (c Config) JSON() ([]byte, error) {
	text, err := c.YAML()
	if err != nil {
		return nil, err
	}
	var root map[string]any
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, fmt.Errorf("render configuration: %w", err)
	}
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("render configuration: %w", err)
	}
	return append(out, '\n'), nil
}

// split returns the section of a key, which may be none, and its name in there.
func split(key string) (section, name string) {
	if section, name, found := strings.Cut(key, "."); found {
		return section, name
	}
	return "", key
}
