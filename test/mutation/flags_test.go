package mutation_test

const (
	markGo     = "internal/inbox/mark.go"
	markReadGo = "internal/inbox/markread.go"
	positionGo = "internal/inbox/position.go"
	twins      = "^TestTwins$"
)

// flagging are the shortcuts in the state of single messages.
func flagging() []mutation {
	return []mutation{
		{
			name: "a read mark that leaves what was marked unread", trap: "everything is marked as read, and some stay unread",
			edits: []edit{{markReadGo, "c.put(f, flagsOf(c.record, c.size, f)&^flag.Unread)", "c.put(f, flagsOf(c.record, c.size, f))"}},
			pkg:   pipeline, run: twins,
		},
		{
			name: "a read mark below a further one that says nothing", trap: "a late message stays unread, however often it is marked",
			edits: []edit{{markReadGo, "return s.readEach(ctx, state, to)", "return nil"}},
			pkg:   inbox, run: "^TestReadMarkBelowAFurtherOne$",
		},
		{
			name: "everything is read, whatever the page knew", trap: "what came after the page is read without having been shown",
			edits: []edit{{markReadGo, "return s.knownAt(ctx, state, all, at)", "_, err := s.knownAt(ctx, state, all, at)\n\t\treturn all, err"}},
			pkg:   pipeline, run: twins,
		},
		{
			name: "everything is seen, whatever the page knew", trap: "what came after the page is seen without having been shown",
			edits: []edit{{"internal/inbox/seen.go", "slots = min(slots, at.Slots)", "slots = max(slots, at.Slots)"}},
			pkg:   "./internal/httpapi", run: "^TestMarks$",
		},
		{
			name: "all gaps are known to every page", trap: "a gap that a page did not know is read",
			edits: []edit{{positionGo, "len(state.Gaps)-int(max(0, state.GapsMade-at.Gaps))", "len(state.Gaps)"}},
			pkg:   inbox, run: "^TestMarkAllReadKnowsNoLaterGap$",
		},
		{
			name: "a mark in a gap that was not counted", trap: "the gap has a message more than its number says",
			edits: []edit{{markGo, "err = s.countGapOf(ctx, state.User, feed, id)", "err = nil"}},
			pkg:   inbox, run: "^TestMarkInAGap$",
		},
		{
			name: "the flags of what is gone", trap: "a deleted message counts as read or archived",
			edits: []edit{{"pkg/bucket/tally.go", " &^ dead[sequence]\n", "\n"}},
			pkg:   suite, run: counted,
		},
		{
			name: "a mark whose bucket lies beyond its slots", trap: "what comes into the slots after it is read",
			edits: []edit{{"pkg/bucket/inbox.go", "if mark.Read >= mark.Slots {", "if mark.Read > 1<<62 {"}},
			pkg:   inbox, run: "^TestMarkAllReadUpToAGap$",
		},
	}
}
