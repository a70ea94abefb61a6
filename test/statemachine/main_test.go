package statemachine_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs fewer and shorter checks than rapid's defaults, unless its flags say otherwise: each check is hundreds
// of round trips through a real store and a real bus.
func TestMain(m *testing.M) {
	flag.Parse()
	checks := "45"
	if testing.Short() {
		checks = "100" // of which rapid carries out a fifth
	}
	given := make(map[string]bool)
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range map[string]string{"rapid.checks": checks, "rapid.steps": "60"} {
		if given[name] {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}
