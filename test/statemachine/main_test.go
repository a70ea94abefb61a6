package statemachine_test

import (
	"flag"
	"testing"

	"github.com/fanmail/fanmail/test/leaktest"
)

// given are the flags that were given.
var given = make(map[string]bool)

// TestMain lets checks be longer than by rapid's defaults, unless its flags say otherwise.
func TestMain(m *testing.M) {
	flag.Parse()
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if !given["rapid.steps"] {
		if err := flag.Set("rapid.steps", "60"); err != nil {
			panic(err)
		}
	}
	leaktest.Main(m)
}
