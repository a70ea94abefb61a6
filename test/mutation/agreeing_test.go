package mutation_test

const (
	currentGo   = "internal/settings/current.go"
	serviceGo   = "internal/settings/service.go"
	recordedGo  = "./internal/settings"
	pebbleStore = "internal/pebblestore/settings.go"
)

// agreeing are the shortcuts of the settings and the level that all processes share.
func agreeing() []mutation {
	return []mutation{
		{
			name: "a record that replaces whatever is there", trap: "of two changes at a time one is lost",
			edits: []edit{{pebbleStore, "if found.level != from.Level || found.Revision != from.Revision {", "if found.level != from.Level {"}},
			pkg:   pebble, run: "^TestConformance$/^Settings$",
		},
		{
			name: "an upgrade that asks no process", trap: "a process that does not know the new formats goes on beside them",
			edits: []edit{{serviceGo, "if p.Level < Highest {", "if false {"}},
			pkg:   recordedGo, run: "^TestTheUpgradeWaitsForOldProcesses$",
		},
		{
			name: "older messages judged by the slack of today", trap: "a change makes messages void that were delivered, or the other way round",
			edits: []edit{{currentGo, "	values.Rules.FirstSlack = atFirst.Rules.PublishSlack\n", "	_ = atFirst\n"}},
			pkg:   recordedGo, run: "^TestOlderMessagesAreJudgedByTheFirstSlack$",
		},
		{
			name: "a change that asks no process", trap: "a process that runs writes larger entries than the others expect",
			edits: []edit{{serviceGo, "	for _, p := range running {\n		if misfit,", "	for _, p := range running[:0] {\n		if misfit,"}},
			pkg:   recordedGo, run: "^TestAChangeMustFitTheProcesses$",
		},
		{
			name: "a start that does not compare its keys with the record", trap: "the same, by a process that starts",
			edits: []edit{{currentGo, "	return unfit(c.opts.Process, c.values)\n", "	return nil\n"}},
			pkg:   recordedGo, run: "^TestAChangeMustFitTheProcesses$",
		},
		{
			name: "the configuration after the upgrade", trap: "processes with different configurations decide differently: lost",
			edits: []edit{{currentGo, "	values, err := c.opts.Parse(now)\n", "	_ = now\n	values, err := c.opts.Parse(nil)\n"}},
			pkg:   recordedGo, run: "^TestAProcessFollowsTheRecord$",
		},
	}
}
