package mutation_test

// collecting are the shortcuts of what is removed once nobody needs it.
func collecting() []mutation {
	const (
		collectorGo = "internal/retention/collector.go"
		messages    = "^TestMessagesAreRemovedThatNobodyNeeds$"
		edges       = "^TestEdgesAreRemovedThatNobodyNeeds$"
	)
	return []mutation{
		{
			name: "a message goes with the round that it ended in", trap: "a delivery came after that round had passed the user",
			edits: []edit{{collectorGo, "fates[i].Ending.Closed < r.Proven", "fates[i].Ending.Closed <= r.Proven"}},
			pkg:   retains, run: messages,
		},
		{
			name: "a message goes before it has ended", trap: "its counts are nowhere",
			edits: []edit{{collectorGo, "over := fates[i].Concluded && ", "over := "}},
			pkg:   retains, run: messages,
		},
		{
			name: "a message goes that is not finished", trap: "what is not delivered is lost",
			edits: []edit{{collectorGo, "		case !m.Unfinished:", "		default:"}, {collectorGo, "over := fates[i].Concluded && ", "over := "}},
			pkg:   retains, run: messages,
		},
		{
			name: "messages above the low-water mark go", trap: "a user who returns misses them",
			edits: []edit{{collectorGo, "	if r.LowWater.Less(upTo) {", "	if false {"}},
			pkg:   retains, run: messages,
		},
		{
			name: "messages go however young", trap: "an author's record, or what a repeated request names",
			edits: []edit{{collectorGo, "now.Add(-c.opts.Canonical() - rules.ClockTolerance - rules.PublishSlack)", "now.Add(-0 * rules.PublishSlack)"}},
			pkg:   retains, run: messages,
		},
		{
			name: "messages go while idempotency keys name them", trap: "a repeated request publishes again",
			edits: []edit{{collectorGo, " || now.Before(c.opts.KeysUntil()) {", " {"}},
			pkg:   retains, run: messages,
		},
		{
			name: "messages go although nothing expires any more", trap: "an operator cannot stop what has begun",
			edits: []edit{{collectorGo, "c.opts.Retention() == (userstate.Retention{}) || ", ""}},
			pkg:   retains, run: messages,
		},
		{
			name: "a collection of edges that begins again", trap: "where the store fails now and then, it never comes to the end",
			edits: []edit{{collectorGo, "	if c.place = place; place == \"\" {", "	if place == \"\" {"}},
			pkg:   retains, run: "^TestEdgesGoOnAfterAFailure$",
		},
		{
			name: "a void message goes although it has a plan", trap: "the plan is left",
			edits: []edit{{collectorGo, "over, err = c.unplanned(ctx, ref.ID); err != nil", "over = true; err != nil"}},
			pkg:   retains, run: messages,
		},
		{
			name: "edges go while messages do not expire by age", trap: "an older message is looked for, and is for nobody",
			edits: []edit{{collectorGo, "	if c.opts.Retention().MaxAge == 0 || ", "	if "}},
			pkg:   retains, run: edges,
		},
		{
			name: "edges go that have just ended", trap: "a change that is under way makes a half of the edge again",
			edits: []edit{{collectorGo, "; latest.Before(by) {", "; false {"}},
			pkg:   retains, run: edges,
		},
		{
			name: "a lower idempotency.ttl counts at once", trap: "the keys of before name messages that are gone",
			edits: []edit{{"internal/settings/service.go", "values.KeyTTL < before.KeyTTL {", "false {"}},
			pkg:   "./internal/settings", run: "^TestKeysOutliveALowerTTL$",
		},
		{
			name: "an upgrade that does not look at idempotency keys", trap: "keys of a higher idempotency.ttl name messages that are gone",
			edits: []edit{{"internal/settings/service.go", "record.Level < Retention && s.opts.Keys != nil {", "false {"}},
			pkg:   "./internal/settings", run: "^TestKeysOutliveTheUpgrade$",
		},
		{
			name: "an index names a removed message", trap: "every query of the author fails",
			edits: []edit{{"internal/pebblestore/oldest.go", "		keys = append(keys, sourceKey(source, m.ID))", "		_ = source"}},
			pkg:   "./internal/pebblestore", run: "^TestConformance$/^Messages$/^Remove$",
		},
		{
			name: "an edge goes that has changed", trap: "who follows again gets nothing",
			edits: []edit{{"internal/pebblestore/edgeremoval.go", "		if !there.Equal(e) {", "		if !there.Equal(e) && false {"}},
			pkg:   "./internal/pebblestore", run: "^TestConformance$/^Edges$/^Remove$",
		},
	}
}
