//go:build long && mongodb

package faults_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/fanmail/fanmail/test/leaktest"
	"github.com/fanmail/fanmail/test/testenv"
)

// programs are built once for all tests.
var programs testenv.Binaries

func TestMain(m *testing.M) {
	zerolog.SetGlobalLevel(zerolog.Disabled) // for toxiproxy, which logs to standard error in places
	dir, err := os.MkdirTemp("", "fanmail-faults-")
	if err == nil {
		programs, err = testenv.Build(context.Background(), dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// A link of toxiproxy that is closed while it is full stays behind.
	left := goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run")
	code := leaktest.Run(m, left)
	_ = os.RemoveAll(dir) // a folder that stays harms no later run
	os.Exit(code)
}
