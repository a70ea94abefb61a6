package mutation_test

// addressing are the shortcuts in whom a message to topics is for.
func addressing() []mutation {
	const (
		topicGo  = "pkg/message/topic.go"
		sourceGo = "pkg/message/source.go"
		pkg      = "./pkg/follow"
		run      = "^TestForAgreesWithAModel$"
	)
	return []mutation{
		{
			name: "topics compared as texts", trap: "subscribers of new get what goes to news",
			edits: []edit{{topicGo, "(len(t) == len(above) || t[len(above):len(above)+1] == segmentEnd)", "true"}},
			pkg:   pkg, run: run,
		},
		{
			name: "a message without the topics above its own", trap: "subscribers of a topic above do not get it",
			edits: []edit{{topicGo, "if t[i:i+1] == segmentEnd && !yield(t[:i]) {", "if t[i:i+1] == segmentEnd && len(t) == 0 {"}},
			pkg:   pkg, run: run,
		},
		{
			name: "followers of the author of a message to topics", trap: "they get what is not for followers",
			edits: []edit{{sourceGo, "return m.ToFollowers() && m.From == UserID(s)", "return m.Broadcast() && m.From == UserID(s)"}},
			pkg:   pkg, run: run,
		},
		{
			name: "subscribers of any topic of an author", trap: "who follows a user gets what goes to a topic of that name",
			edits: []edit{{sourceGo, "func (t Topic) Source() Source { return Source(topicMark + string(t)) }", "func (t Topic) Source() Source { return Source(t) }"}},
			pkg:   pkg, run: run,
		},
	}
}
