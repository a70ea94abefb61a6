package mutation_test

const keptUsers = "^TestConformance$/^Users$/"

// keeping are the shortcuts of users with a retention of their own.
func keeping() []mutation {
	return []mutation{
		{
			name: "a step that does not compare the retention", trap: "a login that read no record removes it",
			edits: []edit{{stateGo, " && s.Keep == o.Keep", ""}},
			pkg:   pebble, run: keptUsers + "^Keep$",
		},
		{
			name: "a record of a user who was never seen counts as none", trap: "the retention is lost at the first look",
			edits: []edit{{"internal/pebblestore/rehydrations.go", "	if !was.Same(step.From) {", "	if !was.Same(step.From) && (was.Known() || step.From.Known()) {"}},
			pkg:   pebble, run: keptUsers + "^Keep$",
		},
		{
			name: "an empty record", trap: "it stays for a user of whom the store has nothing to say",
			edits: []edit{{"internal/pebblestore/rehydrations.go", "	if to.Empty() {", "	if to.Empty() && was.Rehydrating() {"}},
			pkg:   pebble, run: keptUsers + "^Step$/^removes_a_record$",
		},
		{
			name: "a record that is removed with its lease left", trap: "the reaper finds a user without a rehydration",
			edits: []edit{{"internal/pebblestore/rehydrations.go", "	if rehydrates(was) {", "	if rehydrates(was) && !is.Empty() {"}},
			pkg:   pebble, run: keptUsers + "^Step$/^removes_a_record$",
		},
	}
}
