package mutation_test

// topics are the shortcuts of messages to topics: each caller of the predicate without the clause of subscriptions, and users who count twice.
func topics() []mutation {
	const (
		sourceGo   = "pkg/message/source.go"
		lookGo     = "internal/audit/look.go"
		verdictGo  = "internal/audit/verdict.go"
		feedGo     = "internal/rehydrate/feed.go"
		first      = "internal/fanout/first.go"
		audienceGo = "internal/fanout/audience.go"
		overlap    = "^TestTopicsOverlap$"
	)
	return []mutation{
		{
			name: "a topic that begins alike", trap: "subscribers of go get what is sent to gopher",
			edits: []edit{{"pkg/message/topic.go", `(len(t) == len(above) || t[len(above):len(above)+1] == segmentEnd)`, "true"}},
			pkg:   "./pkg/message", run: "^TestTopicTree$",
		},
		{
			name: "a message leaves the ancestors of its topics out", trap: "subscribers above the topic miss it",
			edits: []edit{{sourceGo, "		for t := range topic.Path() {\n			sources = append(sources, t.Source())\n		}\n", "		sources = append(sources, topic.Source())\n"}},
			pkg:   fanout, run: overlap,
		},
		{
			name: "recipients and topics are one list in the digest", trap: "another message is taken for a repetition",
			edits: []edit{{"pkg/message/message.go", "		length(len(m.To))\n", ""}, {"pkg/message/message.go", "		length(len(m.Topics))\n", ""}},
			pkg:   "./pkg/message", run: "^TestDigestOfTopics$",
		},
		{
			name: "the express lane without the clause", trap: "a small audience of a topic gets nothing",
			edits: []edit{{audienceGo, "		if follow.For(m, e.Follower, e) {", "		if !e.Followee.IsTopic() && follow.For(m, e.Follower, e) {"}},
			pkg:   fanout, run: overlap,
		},
		{
			name: "the scan without the clause", trap: "a large audience of a topic gets nothing",
			edits: []edit{{scanGo, "follow.For(j.message, r.user, r.edge)", "(!r.edge.Followee.IsTopic() || j.message.Names(r.user)) && follow.For(j.message, r.user, r.edge)"}},
			pkg:   fanout, run: overlap,
		},
		{
			name: "a head start without the clause", trap: "candidates wait for the scan",
			edits: []edit{{first, "				own = append(own, edges[pair])\n", "				if !pair.Followee.IsTopic() {\n					own = append(own, edges[pair])\n				}\n"}},
			pkg:   fanout, run: "^TestHeadStartsOfTopics$",
		},
		{
			name: "the lane of the first part", trap: "a message to many topics is in the lane of a few recipients",
			edits: []edit{{audienceGo, "sum += share; sum > most", "sum = share; sum > most"}},
			pkg:   fanout, run: "^TestTheLaneGoesByTheSum$",
		},
		{
			name: "a feed without the clause", trap: "who returns misses the messages of topics",
			edits: []edit{{
				feedGo, "return slices.ContainsFunc(m.Sources(), func(s message.Source) bool { return follow.For(m.Message, f.user, f.edge(s)) })",
				"return follow.For(m.Message, f.user, f.edge(m.From.Source()))",
			}},
			pkg: "./internal/rehydrate", run: "^TestFeedHoldsTopics$",
		},
		{
			name: "a gap counts a named subscriber twice", trap: "total and unread are wrong",
			edits: []edit{{
				feedGo, "counted := slices.ContainsFunc(m.Sources(), func(s message.Source) bool { return f.edge(s).Holds(m.Sent()) })",
				"counted := m.ToFollowers() && f.edge(m.From.Source()).Holds(m.Sent())",
			}},
			pkg: "./internal/rehydrate", run: "^TestFeedHoldsTopics$",
		},
		{
			name: "each topic counts for itself", trap: "a gap counts a message of two topics twice",
			edits: []edit{{"internal/pebblestore/audience.go", "	ofTopics = slices.Compact(ofTopics)\n", ""}},
			pkg:   pebble, run: "^TestConformance$/^Messages$/^ToFollowers$",
		},
		{
			name: "topics and authors count apart", trap: "a gap counts a message of both twice",
			edits: []edit{{"internal/pebblestore/audience.go", "			if _, counted := slices.BinarySearchFunc(ofTopics, id, message.ID.Compare); !counted {", "			{"}},
			pkg:   pebble, run: "^TestConformance$/^Messages$/^ToFollowers$",
		},
		{
			name: "a message that two sources name is found twice", trap: "a page shows it twice",
			edits: []edit{{"internal/pebblestore/audience.go", "	case known: // it was found by another source\n		return true\n", ""}, {"internal/pebblestore/audience.go", "place, known :=", "place, _ :="}},
			pkg:   pebble, run: "^TestConformance$/^Messages$/^ToFollowers$",
		},
		{
			name: "catching up without the clause", trap: "what was sent while the subscription was under way is lost",
			edits: []edit{{"internal/following/catchup.go", "!follow.For(m.Message, e.Follower, e):", "e.Followee.IsTopic() || !follow.For(m.Message, e.Follower, e):"}},
			pkg:   "./internal/following", run: "^TestSubscribingCatchesUp$",
		},
		{
			name: "catching up with each source on its own", trap: "a message that reaches a follower through several topics is there twice in one append",
			edits: []edit{{"internal/following/catchup.go", "	return slices.CompactFunc(entries, func(x, y bucket.Entry) bool { return x.ID == y.ID })\n", "	return entries\n"}},
			pkg:   "./internal/following", run: "^TestFollowCatchesUpWithSeveralSources$",
		},
		{
			name: "one page of what was missed", trap: "a follower lacks what was sent while many messages were",
			edits: []edit{{"internal/following/catchup.go", "		if len(stored) < page {", "		if len(stored) <= page {"}},
			pkg:   "./internal/following", run: "^TestFollowCatchesUpWithSeveralSources$",
		},
		{
			name: "access without the clause", trap: "a subscriber may not see the message",
			edits: []edit{{"internal/publish/status.go", "return follow.ForAny(m, user, edges), nil", "return follow.For(m, user, follow.Edge{}) || len(edges) > 0 && !edges[0].Followee.IsTopic() && follow.ForAny(m, user, edges), nil"}},
			pkg:   "./internal/publish", run: "^TestForSubscribers$",
		},
		{
			name: "an audit without the clause", trap: "what is missing of topics is not found",
			edits: []edit{{lookGo, "!follow.ForAny(m.Message, l.user, edges) {", "len(m.Topics) > 0 && !m.ToFollowers() || !follow.ForAny(m.Message, l.user, edges) {"}},
			pkg:   "./internal/audit", run: "^TestAuditOfTopics$",
		},
		{
			name: "an audit looks at a message once for each edge", trap: "it expects the message twice",
			edits: []edit{{lookGo, "return l.through(m.Message) != edge.Followee })", "return false })"}},
			pkg:   "./internal/audit", run: "^TestAuditOfTopics$",
		},
		{
			name: "explain without the clause", trap: "a message that is missing is said to be for others",
			edits: []edit{{verdictGo, "	case !follow.ForAny(e.Stored.Message, e.User, e.Edges):", "	case len(e.Stored.Topics) > 0 || !follow.ForAny(e.Stored.Message, e.User, e.Edges):"}},
			pkg:   "./internal/audit", run: "^TestExplainTopics$",
		},
		{
			name: "a topic among the authors", trap: "a list of followed authors shows topics",
			edits: []edit{{"internal/following/following.go", "max(after.Source(), message.FirstAuthor)", "after.Source()"}},
			pkg:   "./internal/following", run: "^TestTopicsAreNoAuthors$",
		},
	}
}
