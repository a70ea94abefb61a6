package mutation_test

const (
	following = "./internal/following"
	spansGo   = "internal/following/spans.go"
)

// bounding are the shortcuts of code that bounds memory and records.
func bounding() []mutation {
	return []mutation{
		{
			name: "a batch that counts texts only", trap: "short messages with thousands of names exceed the memory",
			edits: []edit{{batchGo, "return j.message.Memory() + ", "return len(j.message.Body) + "}},
			pkg:   fanout, run: "^TestBatchCountsNames$",
		},
		{
			name: "reading messages whatever the room", trap: "the messages that do not fit exceed the memory",
			edits: []edit{{batchGo, "max(1, b.room/message.MaxMemory)", "max(messagesPerRead, b.room/message.MaxMemory)"}},
			pkg:   fanout, run: "^TestBatchCountsNames$",
		},
		{
			name: "copying a list of names", trap: "each batch copies every list that it holds",
			edits: []edit{{scanGo, "at < len(users) && len(page) < limit", "at < len(users) && len(page) < limit+len(users)"}},
			pkg:   fanout, run: "^TestNamedRecipientsAreNotCopied$",
		},
		{
			name: "a cache that counts texts only", trap: "short messages with thousands of names exceed the memory",
			edits: []edit{{"internal/messagecache/messagecache.go", "added := m.Memory()", "added := len(m.Body)"}},
			pkg:   fanout, run: "^TestCacheCountsNames$",
		},
		{
			name: "any number of recipients", trap: "a message does not fit into a document",
			edits: []edit{{"config/validate.go", "1, message.MaxRecipients)", "1, 10*message.MaxRecipients)"}},
			pkg:   "./config", run: "^TestValidate$",
		},
		{
			name: "any number of gaps", trap: "the record of a user grows with each return",
			edits: []edit{{"internal/rehydrate/rebuild.go", "len(a.state.Gaps) >= userstate.MaxGaps {", "len(a.state.Gaps) > userstate.MaxGaps {"}},
			pkg:   "./internal/rehydrate", run: "^TestGapsAreBounded$",
		},
		{
			name: "any number of spans", trap: "fan-out reads all of them with every follower",
			edits: []edit{{"pkg/follow/follow.go", "return len(e.Spans) >= MaxSpans && !e.Open()", "return len(e.Spans) >= 10*MaxSpans && !e.Open()"}},
			pkg:   following, run: "^TestSpansAreBounded$",
		},
		{
			name: "dropping the newest span", trap: "a clock that lags opens a span in it",
			edits: []edit{{"pkg/follow/follow.go", "if i == len(e.Spans)-1 || ", "if i == len(e.Spans) || "}},
			pkg:   "./pkg/follow", run: "^TestEdgeDrop$",
		},
		{
			name: "dropping spans with messages", trap: "a rehydration does not find them: lost",
			edits: []edit{{spansGo, "if len(found) == 0 {", "if len(found) <= 1 {"}},
			pkg:   following, run: "^TestSpansAreBounded$",
		},
		{
			name: "dropping spans before the slack has passed", trap: "a message that becomes visible late is for no follower: lost",
			edits: []edit{{spansGo, "-rules.PublishSlack - rules.ClockTolerance", "-rules.ClockTolerance"}},
			pkg:   following, run: "^TestSpansOfLateMessagesStay$",
		},
		{
			name: "dropping spans by the stamp without the tolerance", trap: "the clock of another server is behind: a late message is lost",
			edits: []edit{{spansGo, "-rules.PublishSlack - rules.ClockTolerance", "-rules.PublishSlack"}},
			pkg:   following, run: "^TestSpansOfLateMessagesStay$",
		},
		{
			name: "dropping spans by the clock of the process", trap: "it is ahead: a message that becomes visible late is lost",
			edits: []edit{{spansGo, "if now.Before(reached) {", "if now.After(reached) {"}},
			pkg:   following, run: "^TestSpansOfLateMessagesStay$",
		},
		{
			name: "dropping spans by the stamp alone", trap: "the store's clock was ahead: a message that becomes visible late is lost",
			edits: []edit{{spansGo, "if now.Before(reached) {", "if now.Before(time.Time{}) {"}},
			pkg:   following, run: "^TestSpansOfLateMessagesStay$",
		},
	}
}
