package mutation_test

import "slices"

// edit replaces a text that stands in a file exactly once.
type edit struct{ file, old, new string }

// mutation is a reasonable shortcut as a change of the code, and the test that has to fail with it.
type mutation struct {
	name string
	// trap is what goes wrong with it.
	trap  string
	edits []edit
	// pkg and run are the test that catches it.
	pkg, run string
}

const (
	counted        = "^TestModel$/^Pages$/^and_counts_at_random$"
	retains        = "./internal/retention"
	pushGo         = "internal/pebblestore/push.go"
	fanoutAppendGo = "internal/fanout/append.go"
	suite          = "./internal/storetest/buckettest"
	pebble         = "./internal/pebblestore"
	fanout         = "./internal/fanout"
	pipeline       = "./test/statemachine"
	rebuildGo      = "internal/rehydrate/rebuild.go"
	rehydration    = "./internal/rehydrate"
	inbox          = "./internal/inbox"
)

// mutations are the shortcuts that this code could take.
func mutations() []mutation {
	return slices.Concat(appending(), fanningOut(), rehydrating(), retaining(), publishing(), followingOthers(), claiming(), flagging(), streaming(), tabling())
}
