package mutation_test

const (
	deadletterPkg = "./internal/deadletter"
	giveUpGo      = "internal/deadletter/giveup.go"
	expireGo      = "internal/deadletter/expire.go"
)

// givingUp are the shortcuts of dead letters that end.
func givingUp() []mutation {
	return []mutation{
		{
			name: "a letter that is dropped before its scan is given up", trap: "a crash in between leaves a dead scan without a letter: the message never finishes",
			edits: []edit{{
				giveUpGo, "	if task, err := event.DecodeTask(filed.Payload); err == nil {",
				"	if err := s.Bus.Drop(ctx, id); err != nil {\n		return ofBus(err)\n	}\n	if task, err := event.DecodeTask(filed.Payload); err == nil {",
			}},
			pkg: deadletterPkg, run: "^TestDropGivesUpFirst$",
		},
		{
			name: "a letter that is dropped alone", trap: "its message never finishes",
			edits: []edit{{giveUpGo, "event.DecodeTask(filed.Payload); err == nil {", "event.DecodeTask(filed.Payload); err == nil && false {"}},
			pkg:   deadletterPkg, run: "^TestDropFinishesTheMessage$",
		},
		{
			name: "a redrive that revives a scan that was given up", trap: "a message that was finished is not finished any more",
			edits: []edit{{giveUpGo, "case scan.GivenUp:", "case scan.GivenUp && false:"}},
			pkg:   deadletterPkg, run: "^TestRedriveOfATaskThatWasGivenUp$",
		},
		{
			name: "a redrive that looks at the plan only", trap: "it says that it has delivered what was given up",
			edits: []edit{{giveUpGo, "case err == nil && !planned:", "case err == nil && !planned && false:"}},
			pkg:   deadletterPkg, run: "^TestRedriveAfterThePlanHasEnded$",
		},
		{
			name: "a scan that is given up at any level", trap: "an older process revives it, and forgets that it was given up",
			edits: []edit{{giveUpGo, "s.opts.Level() < settings.Retention", "s.opts.Level() < settings.Recorded"}},
			pkg:   deadletterPkg, run: "^TestDropBelowTheLevel$",
		},
		{
			name: "an expiry of letters that are under way", trap: "the worker marks the scan as dead afterwards: no letter is left to give it up",
			edits: []edit{{expireGo, "case err != nil || open:", "case err != nil || open && false:"}},
			pkg:   deadletterPkg, run: "^TestExpireLeavesWhatIsUnderWay$",
		},
		{
			name: "an expiry above the low-water mark", trap: "a message that some user has still to get is given up",
			edits: []edit{{expireGo, "if lowWater.Less(ref.ID) {", "if lowWater.Less(ref.ID) && false {"}},
			pkg:   deadletterPkg, run: "^TestExpire$",
		},
	}
}
