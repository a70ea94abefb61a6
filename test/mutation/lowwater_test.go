package mutation_test

const (
	keeperGo = "internal/retention/keeper.go"
	roundGo  = "internal/retention/round.go"
	retains  = "./internal/retention"
)

// lowering are the shortcuts of messages that expire by age, and of the low-water mark.
func lowering() []mutation {
	return []mutation{
		{
			name: "a rehydration that does not raise the purge point", trap: "a user who returns finds what has expired",
			edits: []edit{{rebuildGo, "	for a.state.Purged.Less(to) && from.Before(to.Time()) {", "	for false {"}},
			pkg:   retains, run: "^TestReturnAfterMessagesExpired$",
		},
		{
			name: "a first look without the target", trap: "it finds what has expired for all others",
			edits: []edit{{rebuildGo, "	if from.IsZero() {\n		target", "	if false {\n		target"}, {"internal/rehydrate/login.go", "	if !before.Known() {\n		if expired", "	if false {\n		if expired"}},
			pkg:   retains, run: "^TestReturnAfterMessagesExpired$",
		},
		{
			name: "a walk that does not look beyond the horizon", trap: "what a dormant user has missed does not expire",
			edits: []edit{{keeperGo, "	if !left.Empty() {", "	if false {"}},
			pkg:   retains, run: "^TestKeepOfADormantUser$",
		},
		{
			name: "a walk that does not look at gaps", trap: "what is in a gap does not expire",
			edits: []edit{{keeperGo, "	if len(state.Gaps) > 0 {", "	if false {"}},
			pkg:   retains, run: "^TestKeepCutsGaps$",
		},
		{
			name: "a walk that does not look for late messages", trap: "a late message outlives its age",
			edits: []edit{{"pkg/bucket/least.go", "	for _, b := range late {", "	for _, b := range late[:0] {"}},
			pkg:   retains, run: "^TestKeepFindsLateMessages$",
		},
		{
			name: "a walk that writes for each user", trap: "each round writes the record of each user",
			edits: []edit{{keeperGo, "	if kept.Clear.Less(to) {", "	if !to.IsZero() {"}},
			pkg:   retains, run: "^TestKeepExpiresByAge$",
		},
		{
			name: "an age that is shorter than messages take to arrive", trap: "a message expires before it arrives",
			edits: []edit{{"pkg/userstate/retention.go", "	if settled.Less(expired) {", "	if false {"}},
			pkg:   retains, run: "^TestKeepIsBounded$",
		},
		{
			name: "a target that holds although the age was raised", trap: "messages expire that are young enough",
			edits: []edit{{keeperGo, "to.Less(target) && !limit.Less(target)", "to.Less(target) && (true || !limit.Less(target))"}},
			pkg:   retains, run: "^TestKeepIsBounded$",
		},
		{
			name: "a round that proves what it has missed", trap: "something is left below the low-water mark",
			edits: []edit{{roundGo, "	if !r.Missed && !r.Target", "	if !r.Target"}},
			pkg:   retains, run: "^TestLowWaterByAge$",
		},
		{
			name: "a round that proves what it has found itself", trap: "a user who came meanwhile has something below the low-water mark",
			edits: []edit{{roundGo, "	if !r.Missed && !r.Target.Less(r.LowWater) {\n		next.LowWater, next.Proven = r.Target, r.Number", "	if r.LowWater.Less(r.Clear) {\n		next.LowWater, next.Proven = r.Clear, r.Number"}},
			pkg:   retains, run: "^TestLowWaterByNumber$",
		},
		{
			name: "a round that proves a mark only once", trap: "what ended late stays below a mark that stands still",
			edits: []edit{{roundGo, "!r.Target.Less(r.LowWater) {", "r.LowWater.Less(r.Target) {"}},
			pkg:   retains, run: "^TestLowWaterByNumber$",
		},
		{
			name: "a first look from the low-water mark", trap: "the round under way has passed the user, and raises the mark",
			edits: []edit{{roundGo, "	return later(r.LowWater, r.Target), nil", "	return r.LowWater, nil"}},
			pkg:   retains, run: "^TestReturnAfterMessagesExpired$",
		},
		{
			name: "a walk that passes a damaged user", trap: "what is unreadable counts as expired",
			edits: []edit{{"internal/retention/walker.go", "	return Kept{Expired: kept.Expired}, nil", "	return Kept{Expired: kept.Expired, Clear: target}, nil"}},
			pkg:   retains, run: "^TestLowWaterByAge$",
		},
		{
			name: "a change by which messages expire at once", trap: "a mistyped age removes messages permanently",
			edits: []edit{{"internal/settings/service.go", "	if what := removes(before, values); !dryRun && !confirmed && ", "	if what := removes(before, values); false && "}},
			pkg:   "./internal/settings", run: "^TestExpiryIsConfirmed$",
		},
	}
}
