//go:build mongodb

package main_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/test/testenv"
)

func TestGivenServer(t *testing.T) {
	t.Parallel()
	uri, _ := testenv.MongoDB(t)
	p := testenv.Exec(within(t), t, map[string]string{"test.mongodb.uri": uri}, binary, show...)
	require.Zero(t, p.Code(within(t)))
	require.Equal(t, "uri="+uri+"\n", p.Stdout())
	require.Contains(t, p.Stderr(), "MongoDB server under test: the one of FANMAIL_TEST_MONGODB_URI, ")
}
