package mutation_test

// headStarting are the shortcuts of head starts.
func headStarting() []mutation {
	const first, head = "internal/fanout/first.go", "internal/fanout/headstart.go"
	return []mutation{
		{
			name: "a head start that trusts its names", trap: "a user who does not follow the author gets the message",
			edits: []edit{{first, "return !follow.ForAny(m.message, f.owner, own)", "_ = own; return false"}},
			pkg:   fanout, run: "^TestHeadStartDeliversWhatTheScanWould$",
		},
		{
			name: "a head start to dormant users", trap: "the rehydration finds the message there, or in a gap, too",
			edits: []edit{{first, "return !rules.Deliver(looked[i].State, m.message.Sent()) })", "_ = rules; return false })"}},
			pkg:   fanout, run: "^TestHeadStartDeliversWhatTheScanWould$",
		},
		{
			name: "head starts that are duplicates", trap: "operators look for crashes that were not",
			edits: []edit{{fanoutAppendGo, "max(0, there-b.headStarted(call.appends[i].Owner, call.jobs[i]))", "there"}},
			pkg:   fanout, run: "^TestHeadStartArrivesBeforeTheScan$",
		},
		{
			name: "any number of waiting head starts", trap: "messages fill the memory of a router whose bus is slow",
			edits: []edit{{head, "headStartsWaiting = 256", "headStartsWaiting = 1 << 20"}},
			pkg:   fanout, run: "^TestHeadStartsAreBounded$",
		},
		{
			name: "head starts behind the scan", trap: "a message that is routed again is appended once more for nothing",
			edits: []edit{{head, "slices.Contains(start.open, p) {", "start.open != nil || p >= 0 {"}},
			pkg:   fanout, run: "^TestNoHeadStartInADonePartition$",
		},
		{
			name: "a damaged head start takes the others along", trap: "one damaged message delays all celebrities",
			edits: []edit{{first, "		if len(received) > 1 && permanentOrPanic(together) {", "		if false {"}},
			pkg:   fanout, run: "^TestDamagedHeadStartsAreDropped$",
		},
		{
			name: "head starts among the tasks", trap: "a worker of an older release finishes the scan after a head start",
			edits: []edit{{"internal/natsbus/subjects.go", `firstPrefix       = "fanmail.v1.first."`, `firstPrefix       = "fanmail.v1.fanout.first."`}},
			pkg:   bus, run: "^TestDeclaresGolden$",
		},
	}
}
