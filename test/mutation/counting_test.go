package mutation_test

// counting are the shortcuts of counts of many inboxes, of counts by values, and of what a page says beside its entries.
func counting() []mutation {
	const readCountsGo, serviceGo, model, together = "pkg/bucket/counts.go", "internal/inbox/counts.go", "./internal/storetest/buckettest",
		"^TestModel$/^Counts$/^of_many_inboxes$"
	const countsByGo = "internal/inbox/countsby.go"
	return []mutation{
		{
			name: "a count that knows no horizon", trap: "it says that an inbox is complete which misses messages",
			edits: []edit{{serviceGo, "= s.complete(state, rules)", "= len(rules.Horizon(state).String()) > 0 && !state.Rehydrating()"}},
			pkg:   "./internal/inbox", run: "^TestCountsChangeNothing$",
		},
		{
			name: "a count that is a view", trap: "an application that shows numbers keeps all its users active",
			edits: []edit{{
				serviceGo, "	looked, err := s.stores.Users.Lookup(ctx, asked)\n",
				"	for _, user := range asked {\n		_, _ = s.rehydrator.ArriveLazily(ctx, user, s.opts.Now())\n	}\n	looked, err := s.stores.Users.Lookup(ctx, asked)\n",
			}},
			pkg: "./internal/inbox", run: "^TestCountsChangeNothing$",
		},
		{
			name: "a repeated count that keeps what it had read", trap: "beside a damaged inbox, what has expired is subtracted twice",
			edits: []edit{{readCountsGo, "		*c = counting{CountRequest: c.CountRequest, result: c.result}", "		_ = counting{CountRequest: c.CountRequest, result: c.result}"}},
			pkg:   "./internal/inbox", run: "^TestCountsOfDamagedInboxes$",
		},
		{
			name: "a count without late buckets", trap: "what came late and has expired counts",
			edits: []edit{{readCountsGo, ", Late: c.Purged.Next()}", "}"}},
			pkg:   model, run: together,
		},
		{
			name: "a count that believes the oldest bucket", trap: "after a repair, messages that have expired count",
			edits: []edit{{readCountsGo, "below := !c.Purged.Less(at.Floor)", "below := !probably && !c.Purged.Less(at.Floor)"}},
			pkg:   model, run: together,
		},
		{
			name: "a count by values that is a view", trap: "an application that shows numbers keeps all its users active",
			edits: []edit{{countsByGo, "	state, err := s.state(ctx, user)\n	if err != nil || !state.Known() {", "	state, err := s.look(ctx, user, false)\n	if err != nil || !state.Known() {"}},
			pkg:   "./internal/inbox", run: "^TestCountByIsNoView$",
		},
		{
			name: "a count by values without gaps", trap: "it says that it has counted the whole inbox, and has left out what the user had missed",
			edits: []edit{{countsByGo, "range state.Gaps {\n", "range state.Gaps[:0] {\n"}},
			pkg:   "./internal/inbox", run: "^TestCountBy$",
		},
		{
			name: "a count by values that is complete though it was cut", trap: "it says that a part of the inbox is all of it",
			edits: []edit{{countsByGo, "Complete: newest.Whole && s.complete", "Complete: s.complete"}},
			pkg:   "./internal/inbox", run: "^TestCountByCountsTheNewest$",
		},
		{
			name: "a list of strings that counts twice", trap: "a value has more messages than a filter by it shows",
			edits: []edit{{countsByGo, "slices.Compact(slices.Sorted(slices.Values(v.Strings)))", "slices.Sorted(slices.Values(v.Strings))"}},
			pkg:   "./internal/inbox", run: "^TestCountByTypes$",
		},
		{
			name: "names as the message has them", trap: "a reader whom the message names after sixteen others does not see it",
			edits: []edit{{"internal/inbox/addressed.go", "	if !m.Names(reader) {\n", "	if len(m.To) > 0 || !m.Names(reader) {\n"}},
			pkg:   "./internal/inbox", run: "^TestAddressed$",
		},
	}
}
