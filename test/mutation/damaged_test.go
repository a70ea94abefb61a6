package mutation_test

// damaging are the shortcuts with damaged records.
func damaging() []mutation {
	const letters, filing, redriving = "./internal/deadletter", "internal/natsbus/deadletters.go", "internal/deadletter/damaged.go"
	return []mutation{
		{
			name: "a lookup that fails as a whole", trap: "one damaged record: nobody in the audience gets a message",
			edits: []edit{{"internal/pebblestore/users.go", "	if errors.Is(err, ErrCorrupt) {\n", "	if user == \"\" {\n"}},
			pkg:   "./internal/pebblestore", run: "^TestConformance$/^Users$/^Users$/^a_damaged",
		},
		{
			name: "one damaged inbox fails an append", trap: "the lane's partition stands still, or all its messages are dead letters",
			edits: []edit{{"pkg/bucket/append.go", "	err := do(work)\n	if !errors.Is(err, message.ErrCorrupt) {\n", "	err := do(work)\n	if len(work) > 1 {\n"}},
			pkg:   "./pkg/bucket", run: "^TestAppendPastDamagedInboxes$",
		},
		{
			name: "a damaged owner counted as delivered", trap: "counts that are not true",
			edits: []edit{{"internal/fanout/damaged.go", "		j.counts.Skipped++\n", "		j.counts.Delivered++\n"}},
			pkg:   "./internal/fanout", run: "^TestDamagedOwner$",
		},
		{
			name: "a letter for each missed message", trap: "as many letters as messages",
			edits: []edit{{filing, "setHeader(msg, jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(replaced, 10))", "_ = strconv.FormatUint(replaced, 10)"}},
			pkg:   "./internal/fanout", run: "^(TestDamagedOwner|TestDamageFilesOnce)$",
		},
		{
			name: "a letter that keeps its first time", trap: "a message of a slow lane, sent earlier and missed later: lost",
			edits: []edit{{filing, "case !missesSince(newest).After(d.Since):", "case newest.Sequence > 0:"}},
			pkg:   letters, run: "^TestRedriveWhileMoreIsMissed$",
		},
		{
			name: "recording before the letter of a damaged owner", trap: "a crash in between: the skip counts, and no letter says so",
			edits: []edit{{
				"internal/fanout/batch.go", "	if err := b.fileDamaged(ctx); err != nil {\n		return err\n	}\n", "	defer func() { _ = b.fileDamaged(ctx) }()\n",
			}},
			pkg: "./internal/fanout", run: "^TestLetterBeforeRecord$",
		},
		{
			name: "removing the letter before the debt", trap: "a crash in between: lost",
			edits: []edit{{redriving, "	err = s.oweMissed(ctx, d)\n", "	_ = s.Bus.Drop(ctx, filed.ID)\n	err = s.oweMissed(ctx, d)\n"}},
			pkg:   letters, run: "^TestRedriveOfADamagedUser$",
		},
		{
			name: "a debt that may be lost", trap: "a power loss after the letter is gone: lost",
			edits: []edit{{redriving, "{{From: st, To: next}}", "{{From: st, To: next, Lazy: true}}"}},
			pkg:   letters, run: "^TestRedriveRecordsTheDebtFirst$",
		},
		{
			name: "a sweep without a margin", trap: "what a follow was about to append when the damage began: lost",
			edits: []edit{{redriving, "d.Since.Add(-rules.ClockTolerance - rules.PublishSlack)", "d.Since.Add(0 * rules.PublishSlack)"}},
			pkg:   letters, run: "^TestRedriveOfADamagedUser$",
		},
		{
			name: "a redrive that leaves no sweep, at random", trap: "all that was missed: lost",
			edits: []edit{{redriving, "		if !owed {\n", "		if !owed || len(next.User) > 0 {\n"}},
			pkg:   pipeline, run: "^TestPipeline$",
		},
		{
			name: "leaving the sweep to its worker", trap: "a worker that has read already ends the sweep: lost",
			edits: []edit{{"pkg/userstate/owe.go", "	s.Sweep = s.sweepFrom(from)\n	s.Lease = untaken(since)\n", "	if s.Sweep = s.sweepFrom(from); s.Lease.Token == \"\" {\n		s.Lease = untaken(since)\n	}\n"}},
			pkg:   letters, run: "^TestRedriveTakesTheSweepAway$",
		},
	}
}
