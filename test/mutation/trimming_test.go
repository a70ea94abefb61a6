package mutation_test

// trimming are the shortcuts of keeping the newest messages.
func trimming() []mutation {
	const (
		trimGo = "pkg/bucket/trim.go"
		gaps   = "^TestTrimCountsGaps$"
		random = "^TestModel$/^Pages$/^and_counts_of_rehydrations_at_random$"
	)
	return []mutation{
		{
			name: "the newest by the bounds of a bucket", trap: "a message from the future has raised them: what is newest expires",
			edits: []edit{{
				trimGo, "	err = t.readHead(ctx)\n",
				"	err = t.readHead(ctx)\n	if below := uint32(t.Newest) / uint32(max(t.lowest.Cap, 1)); below < t.lowest.Sequence {\n		floor, _, err := t.store.Floor(ctx, t.Owner, t.lowest.Sequence-below)\n		return floor, err\n	}\n",
			}},
			pkg: "./pkg/bucket", run: "^TestTrimOfAnInboxWithAMessageFromTheFuture$",
		},
		{
			name: "tombstones among the newest", trap: "fewer messages are left than the inbox keeps",
			edits: []edit{{trimGo, "case gap < 0 && !e.Deleted:", "case gap < 0:"}},
			pkg:   "./pkg/bucket", run: "^TestTrimDoesNotCountTombstones$",
		},
		{
			name: "a gap that counts whole", trap: "the same",
			edits: []edit{{trimGo, "max(0, t.Gaps[i].Messages-int64(len(t.tombstones[i])))", "t.Gaps[i].Messages"}},
			pkg:   "./pkg/bucket", run: gaps,
		},
		{
			name: "the same at random", trap: "the same",
			edits: []edit{{trimGo, "max(0, t.Gaps[i].Messages-int64(len(t.tombstones[i])))", "t.Gaps[i].Messages"}},
			pkg:   suite, run: random,
		},
		{
			name: "a gap that counts although lower buckets may have tombstones of it", trap: "the same",
			edits: []edit{{trimGo, "if gap.After.Less(floor) {", "if gap.After.Less(floor) && i < 0 {"}},
			pkg:   "./pkg/bucket", run: gaps,
		},
		{
			name: "an entry in a gap that counts beside the gap", trap: "it counts twice",
			edits: []edit{{trimGo, "case gap < 0 && !e.Deleted:", "case !e.Deleted:"}},
			pkg:   "./pkg/bucket", run: gaps,
		},
		{
			name: "the head after a bucket below it", trap: "what is deleted and appended meanwhile counts both times",
			edits: []edit{{
				trimGo, "	head, err := t.store.Range(ctx, t.Owner, t.Hint.Sequence, math.MaxUint32, 1)\n",
				"	low, err := t.store.Range(ctx, t.Owner, 0, 0, 1)\n	head, _ := t.store.Range(ctx, t.Owner, 1, math.MaxUint32, 1)\n	head = append(head, low...)\n",
			}},
			pkg: "./pkg/bucket", run: "^TestTrimReadsTheHeadFirst$",
		},
		{
			name: "the hint for the head", trap: "tombstones above it do not count",
			edits: []edit{{trimGo, "t.store.Range(ctx, t.Owner, t.Hint.Sequence, math.MaxUint32, 1)", "t.store.Range(ctx, t.Owner, t.Hint.Sequence, t.Hint.Sequence, 1)"}},
			pkg:   "./pkg/bucket", run: "^TestTrimBeginsAtTheHead$",
		},
		{
			name: "the place in a gap by its number", trap: "deleted messages of the gap count",
			edits: []edit{{trimGo, "			if t.tombstones[gap][e.ID] {\n", "			if t.tombstones[gap][e.ID] && found < 0 {\n"}},
			pkg:   "./pkg/bucket", run: gaps,
		},
		{
			name: "a run that ends at a stub", trap: "a gap below the head never expires",
			edits: []edit{{trimGo, "	for err == nil {\n		if last, err = t.last(ctx);", "	for err == nil && !t.lowest.Stub {\n		if last, err = t.last(ctx);"}},
			pkg:   "./pkg/bucket", run: "^TestTrimOfStubs$",
		},
		{
			name: "entries below the floor that count", trap: "lower buckets may have others that are newer",
			edits: []edit{{trimGo, " && floor.Less(t.live[next]); next++ {", "; next++ {"}},
			pkg:   suite, run: random,
		},
	}
}

// trimmingInboxes are the shortcuts of the Trimmer.
func trimmingInboxes() []mutation {
	const trimmerGo = "internal/retention/trimmer.go"
	return []mutation{
		{
			name: "a trim without slack", trap: "each message costs the reading of all that remain",
			edits: []edit{{trimmerGo, "total-newest <= newest/4 {", "total <= newest {"}, {trimmerGo, "	return total-newest > newest/4, nil", "	return total > newest, nil"}},
			pkg:   retains, run: "^TestTrim$",
		},
		{
			name: "slots as what is left", trap: "an inbox whose messages are deleted is read in vain, each time",
			edits: []edit{{trimmerGo, "	return total-newest > newest/4, nil", "	return total > 0, nil"}},
			pkg:   retains, run: "^TestTrimCosts$",
		},
		{
			name: "a trim up to now", trap: "messages of a clock that is ahead let honest ones expire on arrival",
			edits: []edit{{trimmerGo, "	if settled := rules.Settled(t.opts.Now()); settled.Less(to) {\n", "	if settled := rules.Settled(t.opts.Now()); false {\n"}},
			pkg:   retains, run: "^TestTrimIsBounded$",
		},
		{
			name: "only the number of the deployment", trap: "a user's own number counts for nothing",
			edits: []edit{{trimmerGo, "state.Keep.Within(t.opts.Retention()).Newest", "t.opts.Retention().Newest"}},
			pkg:   retains, run: "^TestTrimToAUsersOwnNumber$",
		},
		{
			name: "a trim that writes though nothing expires", trap: "a write for each bucket",
			edits: []edit{{trimmerGo, "; err != nil || to.Less(first) {", "; err != nil || to.Less(first) && false {"}},
			pkg:   retains, run: "^TestTrimOfOneMillisecond$",
		},
		{
			name: "a worker that takes the whole queue", trap: "one worker trims, and the others are idle",
			edits: []edit{{"internal/retention/queue.go", "(1+len(q.waiting))/workers)", "(1+len(q.waiting))/min(workers, 1))"}},
			pkg:   retains, run: "^TestTrimmersShareTheQueue$",
		},
		{
			name: "a walk that does not trim", trap: "who did not fit into the queue keeps everything",
			edits: []edit{{keeperGo, "	state, trimmed, err := k.opts.Trim(ctx, state)\n", "	var trimmed int64\n"}},
			pkg:   retains, run: "^TestKeepExpiresByNumber$",
		},
		{
			name: "a return that copies more than the inbox keeps", trap: "copies that expire at once",
			edits: []edit{{rebuildGo, "	if newest > 0 && (limit == 0 || newest < int64(limit)) {", "	if newest > 0 && limit > 0 && newest < int64(limit) {"}},
			pkg:   "./internal/rehydrate", run: "^TestAReturnCopiesNoMoreThanTheInboxKeeps$",
		},
		{
			name: "a return that queues no owner", trap: "a gap that should expire stays until the walk comes",
			edits: []edit{{rebuildGo, "	if a.gapped && s.opts.Gapped != nil {", "	if a.gapped && s.opts.Gapped == nil {"}},
			pkg:   "./internal/rehydrate", run: "^TestAReturnCopiesNoMoreThanTheInboxKeeps$",
		},
		{
			name: "an append that queues no owner", trap: "inboxes grow until the walk comes",
			edits: []edit{{"pkg/bucket/append.go", "if opened && a.opened != nil {", "if opened && a.opened == nil {"}},
			pkg:   "./pkg/bucket", run: "^TestAppendNamesTheOwnersOfNewBuckets$",
		},
	}
}
