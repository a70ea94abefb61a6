package mutation_test

const (
	topicService  = "./internal/topics"
	deleteGo      = "internal/topics/delete.go"
	createGo      = "internal/topics/create.go"
	subscribeGo   = "internal/topics/subscribe.go"
	followGo      = "pkg/follow/follow.go"
	topicStoreGo  = "internal/pebblestore/topics.go"
	topicSchedule = "^TestSchedules$"
	pebbleTopics  = "^TestConformance$/^Topics$/"
	pebbleEdges   = "^TestConformance$/^Edges$/"
)

// closing are the shortcuts of topics, the topics below them, and subscriptions.
func closing() []mutation {
	return []mutation{
		{
			name: "a subscription that does not look afterwards", trap: "the topic has been deleted meanwhile",
			edits: []edit{{subscribeGo, "		if r.Number == e.Number {\n			kept", "		if r.Number == e.Number || true {\n			kept"}},
			pkg:   topicService, run: topicSchedule,
		},
		{
			name: "a subscription that leaves the mark", trap: "the deletion goes on, and the subscription was answered with 204",
			edits: []edit{{subscribeGo, "r.Number == e.Number && r.Mark != 0", "r.Number == e.Number && r.Mark < 0"}},
			pkg:   topicService, run: topicSchedule,
		},
		{
			name: "a child that leaves the mark of its parent", trap: "a topic without the one above it",
			edits: []edit{{createGo, "s.unmarked(ctx, inserted.Topic.Parent(), inserted.Parent)", "s.known(ctx, inserted.Topic.Parent())"}},
			pkg:   topicService, run: topicSchedule,
		},
		{
			name: "a batch that leaves the marks of parents", trap: "the same",
			edits: []edit{{createGo, "parent.Number == r.Parent && parent.Mark == 0", "parent.Number == r.Parent"}},
			pkg:   topicService, run: topicSchedule,
		},
		{
			name: "a child in force at once", trap: "the topic above was deleted before",
			edits: []edit{{createGo, "		won, err := s.step(ctx, r, inserted)", "		inserted.InForce = true\n		won, err := s.step(ctx, r, inserted)"}},
			pkg:   topicService, run: topicSchedule,
		},
		{
			name: "a deletion without a mark", trap: "what is written after its look is not seen",
			edits: []edit{{deleteGo, "		if r.Mark == 0 {", "		if r.Mark < 0 {"}},
			pkg:   topicService, run: topicSchedule,
		},
		{
			name: "a deletion that does not look for subscriptions", trap: "a subscription to a topic that is gone",
			edits: []edit{{deleteGo, "			if e.Open() {", "			if e.Open() && len(e.Spans) == 0 {"}},
			pkg:   topicService, run: "^TestDelete$",
		},
		{
			name: "a deletion that a dead subscription does not prevent", trap: "a topic is gone to which a list shows that users are subscribed",
			edits: []edit{{deleteGo, "	if err == nil && found {", "	if err == nil && found && r.Number == 7 {"}},
			pkg:   topicService, run: "^TestWhatADeadCallLeftIsASubscription$",
		},
		{
			name: "a dead subscription that does not show", trap: "messages reach a user who sees no subscription to end",
			edits: []edit{{subscribeGo, "		if records[all[i]].InForce {", "		if records[all[i]].Number == edges[i].Number {"}},
			pkg:   topicService, run: "^TestWhatADeadCallLeftIsASubscription$",
		},
		{
			name: "ending a subscription whatever its number", trap: "a stalled call ends a subscription to the topic that was created again",
			edits: []edit{{followGo, "	if e.Number != number {", "	if e.Number != number && number == 0 {"}},
			pkg:   pebble, run: pebbleEdges + "^End$",
		},
		{
			name: "a subscription that takes the number of another", trap: "a call that ends the older one finds another number",
			edits: []edit{{followGo, "	subscribed, changed := e.Follow(at)\n	if changed {", "	subscribed, changed := e.Follow(at)\n	if changed || e.Open() {\n		changed = true"}},
			pkg:   pebble, run: pebbleEdges + "^Subscribe$",
		},
		{
			name: "a topic that is replaced whatever it is", trap: "a deletion removes a topic without its mark",
			edits: []edit{{topicStoreGo, "		case there != step.From:", "		case there != step.From && there.Number == 0:"}},
			pkg:   pebble, run: pebbleTopics + "^Step$",
		},
		{
			name: "a subtree by the beginning of its path", trap: "news lists newspaper",
			edits: []edit{{topicStoreGo, "		if under != \"\" && !t.In(under) {", "		if under != \"\" && !t.In(under[:1]) && t[0] != under[0] {"}},
			pkg:   pebble, run: pebbleTopics + "^List$",
		},
	}
}
