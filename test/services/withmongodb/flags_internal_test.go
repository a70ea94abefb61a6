package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTagsAreAddedToFlags(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]string{
		"":                             "-tags=mongodb,mongod",
		"-buildvcs=false":              "-buildvcs=false -tags=mongodb,mongod",
		"-tags=long,hosttools -v":      "-v -tags=long,hosttools,mongodb,mongod",
		"--tags=long -buildvcs=false ": "-buildvcs=false -tags=long,mongodb,mongod",
	} {
		require.Equal(t, want, withTags(flags, []string{tagServer, tagProgram}), flags)
	}
}
