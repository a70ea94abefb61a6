package mutation_test

const (
	purgeGo   = "pkg/userstate/purge.go"
	expiredGo = "pkg/bucket/expired.go"
	countsGo  = "pkg/bucket/inbox.go"
	counted   = "^TestModel$/^Pages$/^and_counts_at_random$"
)

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
		{
			name: "a page that does not know the purge point", trap: "a message is shown after it has expired",
			edits: []edit{{pageGo, "r.Above = greater(r.Above, r.Purged)", "_ = r.Above"}},
			pkg:   inbox, run: "^TestPurge$",
		},
		{
			name: "a rehydration that does not know the purge point", trap: "it appends what has expired",
			edits: []edit{{rebuildGo, "bucket.Stretch{After: a.state.Purged, ", "bucket.Stretch{"}},
			pkg:   inbox, run: "^TestRehydrationAbovePurged$",
		},
		{
			name: "a page that trusts the purge point that it has read", trap: "buckets were emptied since: it shows messages without their contents",
			edits: []edit{{pageGo, "if r.Above = greater(r.Above, b.Purged); b.Stub {", "if b.Stub {"}},
			pkg:   inbox, run: "^TestPageDuringAPurge$",
		},
		{
			name: "an audit that expects what has expired", trap: "it appends messages that a rehydration has left out",
			edits: []edit{{"internal/audit/look.go", "	for after := l.expired; ; {", "	for after := (message.ID{}); ; {"}},
			pkg:   "./internal/audit", run: "^TestAuditOfWhatHasExpired$",
		},
		{
			name: "counts without what has expired, at random", trap: "the total is too high",
			edits: []edit{{countsGo, "expired.Base - int64(len(expired.Slots))", "expired.Base"}},
			pkg:   pipeline, run: "^TestPipeline$",
		},
		{
			name: "a purge that leaves gaps as they are, at random", trap: "messages that have expired count",
			edits: []edit{{purgeGo, "left := was.Above(p.To)", "left := was"}},
			pkg:   pipeline, run: "^TestTwins$",
		},
		{
			name: "counts without what has expired", trap: "the total is too high",
			edits: []edit{{countsGo, "expired.Base - int64(len(expired.Slots))", "expired.Base"}},
			pkg:   suite, run: counted,
		},
		{
			name: "counts without late messages that have expired", trap: "the total is too high",
			edits: []edit{{expiredGo, "	for _, b := range late {", "	for _, b := range late[:0] {"}},
			pkg:   suite, run: counted,
		},
		{
			name: "counts with unread messages that have expired", trap: "there are fewer unread messages than it says",
			edits: []edit{{countsGo, "		if at >= mark.Slots {\n			unread--", "		if at >= mark.Slots {\n			unread -= 0"}},
			pkg:   suite, run: counted,
		},
		{
			name: "counts by a read mark that has expired", trap: "the unread messages are too few",
			edits: []edit{{countsGo, "		return total, total // all", "		return total, unread // all"}},
			pkg:   suite, run: counted,
		},
		{
			name: "counts with a read mark as if it were newer", trap: "slots that came after the mark count as read",
			edits: []edit{{countsGo, "min(expired.Base, mark.Slots)", "expired.Base"}},
			pkg:   suite, run: counted,
		},
		{
			name: "an outdated oldest bucket", trap: "what has expired in the buckets above it counts",
			edits: []edit{{expiredGo, "		if !exists || !upTo.Less(floor) {", "		if !exists || floor.IsZero() {"}},
			pkg:   suite, run: counted,
		},
		{
			name: "a read mark that was computed before a purge", trap: "its numbers are of the gaps as they were",
			edits: []edit{{"pkg/userstate/state.go", "slices.EqualFunc(s.Gaps, o.Gaps, Gap.Equal) && s.Recovered", "s.Recovered"}, {"pkg/userstate/state.go", "		s.Purged == o.Purged && s.Oldest == o.Oldest && s.Keep == o.Keep\n", "		true\n"}},
			pkg:   inbox, run: "^TestReadMarkDuringAPurge$",
		},
	}
}
