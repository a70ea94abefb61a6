package config_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
)

var update = flag.Bool("update", false, "write what is generated")

// generated is the line of the document from which on it is generated.
const generated = "<!-- From here on this is generated from config/fanmail.yaml: make generate -->\n"

// TestDocument holds the list of keys in the documentation and the program together.
func TestDocument(t *testing.T) {
	t.Parallel()
	const path = "../docs/configuration.md"
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	written, list, found := strings.Cut(string(text), generated)
	require.True(t, found, "the line that says so is missing in %s", path)
	want := keyTables(t)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(written+generated+want), 0o600))
		return
	}
	require.Equal(t, want, list, "%s is stale: make generate", path)
}

// keyTables returns a table of keys for each section, and one of the keys that are rarely changed.
func keyTables(t *testing.T) string {
	t.Helper()
	var b, rare strings.Builder
	section := "-"
	for _, key := range config.Keys() {
		if key.Rare {
			rare.WriteString(keyRow(t, key))
			continue
		}
		in, _, nested := strings.Cut(key.Name, ".")
		if !nested {
			in = ""
		}
		if in != section {
			section = in
			title := "General"
			if in != "" {
				title = "`" + in + "`"
			}
			fmt.Fprintf(&b, "\n### %s\n\n%s", title, keyHead)
		}
		b.WriteString(keyRow(t, key))
	}
	fmt.Fprintf(&b, "\n### Rarely changed\n\nTheir defaults fit every deployment in `deploy/`.\n\n%s%s", keyHead, rare.String())
	return b.String()
}

const keyHead = "| key and variable | default | meaning and unit | why this default |\n| --- | --- | --- | --- |\n"

// keyRow returns the row of a key in its table.
func keyRow(t *testing.T, key config.Key) string {
	t.Helper()
	meaning, reason, found := strings.Cut(key.Doc, " Default: ")
	require.True(t, found, "%s has no reason for its default", key.Name)
	return fmt.Sprintf("| `%s`<br>`%s` | %s | %s | %s |\n", key.Name, key.Env, value(key.Default), cell(meaning), cell(withoutValue(reason, key.Default)))
}

// withoutValue returns the reason of a default without the default, which has a column of its own.
func withoutValue(reason, value string) string {
	if value == "" {
		value = `""`
	}
	return strings.TrimPrefix(strings.TrimPrefix(reason, value), ", ")
}

func value(text string) string {
	if text == "" {
		return "none"
	}
	return "`" + text + "`"
}

// cell returns a text as it is written into a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
