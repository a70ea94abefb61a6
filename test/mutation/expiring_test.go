package mutation_test

const purgeGo = "pkg/userstate/purge.go"

// expiring are the shortcuts of messages that expire.
func expiring() []mutation {
	return []mutation{
		{
			name: "a purge point that falls", trap: "what was emptied for the higher one shows again, without its contents",
			edits: []edit{{purgeGo, "!s.Purged.Less(p.To) || ", ""}},
			pkg:   "./pkg/userstate", run: "^TestPurgeRefusesAnotherState$",
		},
		{
			name: "a purge that leaves gaps as they are", trap: "messages that have expired count",
			edits: []edit{{purgeGo, "left := was.Above(p.To)", "left := was"}},
			pkg:   "./pkg/userstate", run: "^TestPurgeCutsGaps$",
		},
		{
			name: "a cut gap that stays read as it was", trap: "a new message counts as read",
			edits: []edit{{purgeGo, "m.InGap = max(cut.Left.Read, m.InGap-cut.Expired)", "_ = cut"}},
			pkg:   "./pkg/userstate", run: "^TestPurgeCutsWhatIsRead$",
		},
		{
			name: "a cut gap that stays read as it was, without a number", trap: "the same",
			edits: []edit{{purgeGo, "m.Read -= min(m.Read, was.Messages-left.Messages)", "_ = left"}},
			pkg:   "./pkg/userstate", run: "^TestPurgeCutsWhatIsRead$",
		},
		{
			name: "a read mark that lists a gap that is gone", trap: "the next gap counts as read",
			edits: []edit{{purgeGo, "m.Gaps--", "m.Gaps -= 0"}},
			pkg:   "./pkg/userstate", run: "^TestPurgeCutsGaps$",
		},
		{
			name: "a purge by gaps that have changed", trap: "a message that was counted meanwhile is not counted any more",
			edits: []edit{{purgeGo, " || !slices.EqualFunc(s.Gaps, p.Of.Gaps, Gap.Equal) {", " || !slices.EqualFunc(s.Gaps, s.Gaps, Gap.Equal) {"}},
			pkg:   "./pkg/userstate", run: "^TestPurgeRefusesAnotherState$",
		},
		{
			name: "a purge that counts alone", trap: "what became visible after the count is not counted any more",
			edits: []edit{{purgeGo, "max(cuts[0].Left.Messages, was.Messages-cuts[0].Expired)", "cuts[0].Left.Messages"}},
			pkg:   "./pkg/userstate", run: "^TestPurgeKeepsWhatWasCountedLater$",
		},
		{
			name: "a sweep that ends although a gap was cut", trap: "what it counted is of another gap: a message is not counted",
			edits: []edit{{transitionGo, "g.Before.Equal(c.Before) && !g.After.Equal(c.After)", "g.Before.Equal(c.Before) && false"}},
			pkg:   "./pkg/userstate", run: "^TestFinishCountsWhatIsRead$",
		},
		{
			name: "a gap that begins below the purge point", trap: "messages that have expired count",
			edits: []edit{{transitionGo, "gap != nil && gap.Stretch().After.Less(s.Purged)", "gap != nil && false"}},
			pkg:   "./pkg/userstate", run: "^TestBoundAbovePurged$",
		},
	}
}
