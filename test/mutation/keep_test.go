package mutation_test

const (
	keptUsers        = "^TestConformance$/^Users$/"
	inboxRetentionGo = "internal/inbox/retention.go"
)

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
		{
			name: "a retention that a crash undoes", trap: "after a crash, messages show that had expired before the answer",
			edits: []edit{{inboxRetentionGo, "{{From: state, To: state}}", "{{From: state, To: state, Lazy: true}}"}},
			pkg:   inbox, run: "^TestSetRetentionSurvivesACrash$",
		},
		{
			name: "a retention that the walk carries out", trap: "what is not kept shows until the walk comes by",
			edits: []edit{{inboxRetentionGo, "err != nil || !state.Known() {", "err != nil || state.Known() || true {"}},
			pkg:   inbox, run: "^TestSetRetention$",
		},
		{
			name: "a user who keeps messages for longer than the deployment", trap: "they expire all the same",
			edits: []edit{{inboxRetentionGo, "deployment.MaxAge > 0 && keep.MaxAge >= deployment.MaxAge", "keep.MaxAge < 0"}},
			pkg:   inbox, run: "^TestSetRetentionWithinTheDeployment$",
		},
		{
			name: "a user's age before a shorter one of the deployment", trap: "messages outlive an age that was lowered",
			edits: []edit{{"pkg/userstate/retention.go", "r.MaxAge == 0 || deployment.MaxAge > 0 && deployment.MaxAge < r.MaxAge", "r.MaxAge == 0"}},
			pkg:   "./internal/retention", run: "^TestKeepOfAUserWithARetention$",
		},
		{
			name: "a retention that makes its user one who was seen", trap: "fan-out copies for a user who never looked",
			edits: []edit{{inboxRetentionGo, "		next.Keep = keep", "		next.Keep, next.LastViewed = keep, s.opts.Now()"}},
			pkg:   inbox, run: "^TestSetRetentionOfAUserNeverSeen$",
		},
		{
			name: "a user with a record counts as seen", trap: "a user who never looked has an inbox",
			edits: []edit{{"internal/inbox/inbox.go", "err == nil && !state.Known()", "err == nil && state.Empty()"}},
			pkg:   inbox, run: "^TestSetRetentionOfAUserNeverSeen$",
		},
	}
}
