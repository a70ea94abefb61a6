package mutation_test

const (
	pebbleEmpty = "^TestConformance$/^log$/^Inbox$/^Empty$"
	purgeGo     = "pkg/userstate/purge.go"
	keeperGo    = "internal/retention/keep.go"
	roundGo     = "internal/retention/round.go"
	asOfGo      = "internal/retention/asof.go"
	walkGo      = "pkg/bucket/walk.go"
)

// retaining are the shortcuts of expiry, of the low-water mark and of removal.
func retaining() []mutation {
	return []mutation{
		{
			name: "a purge point that falls", trap: "what was emptied for the higher one shows again, without its contents",
			edits: []edit{{purgeGo, "!s.Purged.Less(p.To) || ", ""}},
			pkg:   "./pkg/userstate", run: "^TestPurgeRefusesAnotherState$",
		},
		{
			name: "a purge by gaps that have changed", trap: "a message that was counted meanwhile is not counted any more",
			edits: []edit{{purgeGo, " || !slices.EqualFunc(s.Gaps, p.Of.Gaps, Gap.Equal) {", " || !slices.EqualFunc(s.Gaps, s.Gaps, Gap.Equal) {"}},
			pkg:   "./pkg/userstate", run: "^TestPurgeRefusesAnotherState$",
		},
		{
			name: "a page that does not know the purge point", trap: "a message is shown after it has expired",
			edits: []edit{{walkGo, "bottom: greater(req.Above, req.Purged)", "bottom: req.Above"}},
			pkg:   inbox, run: "^TestPurge$",
		},
		{
			name: "a rehydration that does not know the purge point", trap: "it appends what has expired",
			edits: []edit{{rebuildGo, "bucket.Stretch{After: a.state.Purged, ", "bucket.Stretch{"}},
			pkg:   inbox, run: "^TestRehydrationAbovePurged$",
		},
		{
			name: "a push onto a bucket that was removed", trap: "a stalled writer creates the bucket again: twice, or back",
			edits: []edit{{pushGo, "err != nil || push.Sequence < r.lowest {", "err != nil || r.lowest > 1<<31 {"}},
			pkg:   pebble, run: pebbleEmpty,
		},
		{
			name: "a message goes before it has ended", trap: "its counts are nowhere",
			edits: []edit{
				{"internal/retention/collect.go", "case !m.Unfinished:", "default:"},
				{"internal/retention/collect.go", "endings[i].Concluded && endings", "endings"},
			},
			pkg: retains, run: "^TestMessagesAreRemovedThatNobodyNeeds$",
		},
		{
			name: "messages above the low-water mark go", trap: "a user who returns misses them",
			edits: []edit{{"internal/retention/collect.go", "	if r.LowWater.Less(upTo) {", "	if false {"}},
			pkg:   retains, run: "^TestMessagesAreRemovedThatNobodyNeeds$",
		},
		{
			name: "a walk that does not look at gaps", trap: "what is in a gap does not expire",
			edits: []edit{{keeperGo, "	if len(state.Gaps) > 0 {", "	if false {"}},
			pkg:   retains, run: "^TestKeepCutsGaps$",
		},
		{
			name: "a first look from the low-water mark", trap: "the round under way has passed the user, and raises the mark",
			edits: []edit{{asOfGo, "message.Later(expired, message.Later(r.LowWater, r.Target))", "message.Later(expired, r.LowWater)"}},
			pkg:   retains, run: "^TestReturnAfterMessagesExpired$",
		},
		{
			name: "a damaged user who holds up the walk", trap: "nothing is removed any more, of nobody",
			edits: []edit{{"internal/retention/walker.go", "	return Kept{Clear: message.MaxID, Expired: kept.Expired}, nil", "	return Kept{Expired: kept.Expired}, nil"}},
			pkg:   retains, run: "^TestLowWaterByAge$",
		},
		{
			name: "a reading that counts at once", trap: "a clock that is wrong for a moment lets everything expire",
			edits: []edit{{asOfGo, "elapsed-h.since >= hold", "elapsed-h.since >= 0"}},
			pkg:   retains, run: "^TestClockThatJumps$",
		},
		{
			name: "a reading that a clock below it does not contradict", trap: "a process that began with a wrong clock has left it in the record",
			edits: []edit{{asOfGo, "case !agree || now.Before(recorded):", "case !agree:"}, {asOfGo, " || now.Before(r.Reading)) {", ") {"}},
			pkg:   retains, run: "^TestClockThatJumps$",
		},
		{
			name: "clocks that need not agree", trap: "the one process with a wrong clock lets everything expire",
			edits: []edit{{asOfGo, "case !agree || now.Before(recorded):", "case now.Before(recorded):"}},
			pkg:   retains, run: "^TestClockOfOneProcessIsWrong$",
		},
		{
			name: "a trim by a clock that is off", trap: "messages that have not settled expire",
			edits: []edit{{"internal/retention/trim.go", "err != nil || !agree {", "err != nil || agree && !agree {"}},
			pkg:   retains, run: "^TestTrimIsBounded$",
		},
		{
			name: "a first look where messages expire by number only", trap: "a user who was never seen misses what nobody has",
			edits: []edit{{roundGo, "	} else {\n			r.LowWater = message.ID{}\n		}", "	}"}},
			pkg:   retains, run: "^TestLowWaterByAge$",
		},
		{
			name: "tombstones among the newest", trap: "fewer messages are left than the inbox keeps",
			edits: []edit{{"pkg/bucket/trim.go", "case gap < 0 && !e.Deleted:", "case gap < 0:"}},
			pkg:   "./pkg/bucket", run: "^TestTrimDoesNotCountTombstones$",
		},
	}
}
