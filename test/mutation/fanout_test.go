package mutation_test

const (
	concluderGo = "internal/retention/conclude.go"
	enderGo     = "internal/progress/ender.go"
	routerGo    = "internal/fanout/router.go"
	directGo    = "internal/fanout/direct.go"
	resumeGo    = "internal/fanout/resume.go"
	batchGo     = "internal/fanout/batch.go"
	declareGo   = "internal/natsbus/declare.go"
)

// fanningOut are the shortcuts of scans, their records and their counts.
func fanningOut() []mutation {
	const (
		conclude = `	if err := e.End(ctx, endings); err != nil || len(endings) == 0 {
		return nil, err
	}
`
		remove = `	if err := e.Plans.Remove(ctx, over); err != nil {
		return nil, fmt.Errorf("remove the plans of %d messages: %w", len(over), err)
	}
`
	)
	return []mutation{
		{
			name: "emitting before recording", trap: "done goes back to not done",
			edits: []edit{{batchGo, `	if err := b.record(ctx); err != nil {
		return nil, false, err
	}
`, `	for i, j := range b.moved {
		if !b.steps[i].To.Done {
			b.continuations = append(b.continuations, j.task)
		}
	}
	if err := b.emit(ctx); err != nil {
		return nil, false, err
	}
	b.continuations = nil
	if err := b.record(ctx); err != nil {
		return nil, false, err
	}
`}},
			pkg: fanout, run: "^TestBatchGoesInOrder$",
		},
		{
			name: "a record without compare-and-set", trap: "two deliveries start at different owners, and the loser comes back to its own start: owners are never handled",
			edits: []edit{{"internal/pebblestore/progress.go", "!stored.Same(step.From) {", "stored.Done {"}},
			pkg:   fanout, run: "^(TestScanHasOneStart|TestCountsAreExactWithTwoWorkers)$",
		},
		{
			name: "positions compared as plain strings", trap: "forward is wrong after the end",
			edits: []edit{{"internal/progress/progress.go", "return recipient > s.At || recipient <= s.Start", "return recipient > s.At"}},
			pkg:   fanout, run: "^TestScan",
		},
		{
			name: "recording although a chunk failed", trap: "a chunk that could not be appended is passed: its owners are never handled",
			edits: []edit{{fanoutAppendGo, "	for i, err := range h.missed {\n", "	for i, err := range h.missed {\n		break\n"}},
			pkg:   fanout, run: "^TestScanPassesOver",
		},
		{
			name: "skipped messages that cost a batch nothing", trap: "many messages over dormant followers take gigabytes",
			edits: []edit{{fanoutAppendGo, " + costMessage*(len(h.chunk.jobs)-len(h.chunk.owners))", ""}},
			pkg:   fanout, run: "^TestBatchOfManyMessagesToTheDormantEnds$",
		},
		{
			name: "counting only new entries", trap: "counts do not add up after a redelivery",
			edits: []edit{{fanoutAppendGo, "			j.counts.Delivered++\n", "			j.counts.Delivered += int64(result.New)\n"}},
			pkg:   fanout, run: "^(TestFoundCountsAsDelivered|TestCountsAreExactAfterADeath)$",
		},
		{
			name: "counting only new entries, at random", trap: "counts do not add up after a redelivery",
			edits: []edit{{fanoutAppendGo, "			j.counts.Delivered++\n", "			j.counts.Delivered += int64(result.New)\n"}},
			pkg:   pipeline, run: "^TestPipeline$",
		},
		{
			name: "dormancy by the worker's clock", trap: "a message that is late is skipped, and too old to be found later: lost",
			edits: []edit{{fanoutAppendGo, "state.Deliver(j.sent)", "state.Deliver(p.opts.Now())"}},
			pkg:   fanout, run: "^TestHorizonDecides$",
		},
		{
			name: "removing before recording", trap: "a crash in between loses the task, until the sweep",
			edits: []edit{{"internal/fanout/worker.go", "	var postponed map[uint64]bool\n", `	if err := held.Remove(ctx, tasks[1:]); err != nil {
		return err
	}
	var postponed map[uint64]bool
`}},
			pkg: fanout, run: "^TestBatchGoesInOrder$",
		},
		{
			name: "as many unacknowledged tasks as a batch takes", trap: "a sliding window: the next task is handed out to somebody else",
			edits: []edit{{declareGo, "const pending = 1 ", "const pending = 8 "}},
			pkg:   fanout, run: "^TestOneBatchOfAPartitionAtATime$",
		},
		{
			name: "recording before the letter of a damaged owner", trap: "a crash in between: the skip counts, and no letter says so",
			edits: []edit{{
				"internal/fanout/batch.go", "	if err := b.fileDamaged(ctx); err != nil {\n		return err\n	}\n", "	defer func() { _ = b.fileDamaged(ctx) }()\n",
			}},
			pkg: "./internal/fanout", run: "^TestLetterBeforeRecord$",
		},
		{
			name: "a plan that is removed before its counts move", trap: "after a crash the counts are lost, and the message is fanned out again",
			edits: []edit{{enderGo, conclude + remove, remove + conclude}},
			pkg:   retains, run: "^TestConcludeSurvivesACrash$",
		},
		{
			name: "counts that move before they are final", trap: "recipients miss the message",
			edits: []edit{{concluderGo, "case plan.Done():", "default:"}, {enderGo, "planned[i] && fanouts[i].Done()", "planned[i]"}},
			pkg:   retains, run: "^TestConcludeEndsWhatIsOver$",
		},
		{
			name: "a router that does not look at the ending", trap: "a repeated event fans the message out again",
			edits: []edit{{routerGo, "case endings[i].Over():", "case false:"}},
			pkg:   fanout, run: "^TestRepeatedEventOfAMessageThatIsOver$",
		},
		{
			name: "an ending although a pass has failed", trap: "a recipient who could not be reached loses the message",
			edits: []edit{{directGo, "if l.job.dead == nil && l.job.missed == nil {", "if l.job.dead == nil {"}},
			pkg:   fanout, run: "^TestDirectDelivery",
		},
		{
			name: "a scan that passes over a recipient without a note", trap: "it never comes back: the recipient loses the message",
			edits: []edit{{"internal/fanout/scan.go", "		case j.missed != nil:\n			b.move(j, to)\n", "		case false:\n			b.move(j, to)\n"}},
			pkg:   fanout, run: "^TestScanPassesOver",
		},
		{
			name: "a call that fails read as no record", trap: "a recipient whose shard is away is skipped, and loses the message",
			edits: []edit{{"internal/fanout/reach.go", "		if err != nil {\n			missed[i] = err\n", "		if err != nil && !passing(ctx, err) {\n			missed[i] = err\n"}},
			pkg:   fanout, run: "^Test.*AreAway$",
		},
		{
			name: "an arc that replaces an earlier one", trap: "the scan does not come back to the first recipient who was away",
			edits: []edit{{"internal/progress/progress.go", "	if !next.Arc.Noted {\n", "	if true {\n"}},
			pkg:   fanout, run: "^TestScanPassesOver",
		},
		{
			name: "a task whose plan cannot be read dropped as one without a plan", trap: "the message does not move before the sweep",
			edits: []edit{{batchGo, "			j.unread = err\n			b.comeBack(j)\n", "			j.unread = err\n"}},
			pkg:   fanout, run: "^TestTaskWhoseMessageIsAway",
		},
		{
			name: "the class of a message after the filter", trap: "an ended edge takes the place of one that the limit cut off: the rest is lost",
			edits: []edit{{"internal/fanout/audience.go", "if len(edges) <= most {", "if len(recipients(m, edges)) <= most {"}},
			pkg:   fanout, run: "^TestEndedEdgesCount$",
		},
		{
			name: "acknowledging a message that was handed over before it is planned", trap: "nobody delivers it before the sweep",
			edits: []edit{{routerGo, "if l.audience.lane == event.Direct {\n			return nil\n		}\n		return r.plan(ctx, l)", "return nil"}},
			pkg:   fanout, run: "^TestDirectDeliveryHandsOver$",
		},
		{
			name: "a sweep that only looks at plans", trap: "a message whose publisher died before it emitted the event is never delivered",
			edits: []edit{{resumeGo, "if !plan.ID.IsZero() {\n", "if plan.ID.IsZero() {\n		return false, nil\n	} else {\n"}},
			pkg:   fanout, run: "^TestResumer$",
		},
		{
			name: "a sweep that takes one old event for a sign that all later ones wait", trap: "what was lost behind it is late without limit",
			edits: []edit{{"internal/fanout/queued.go", "if len(oldest) == queueRead {\n		found.upTo = oldest[queueRead-1].Stored", "if len(oldest) > 0 {\n		found.upTo = oldest[0].Stored"}},
			pkg:   fanout, run: "^TestResumerBehindOthers$",
		},
		{
			name: "a sweep that leaves plans whose scans are all done", trap: "the last worker died before the ending: the message is never done",
			edits: []edit{{resumeGo, "if len(open) == 0 && !plan.Done() {", "if len(open) == 0 {"}},
			pkg:   fanout, run: "^TestRouterEndsAPlanThatIsDone$",
		},
	}
}
