package mutation_test

// holding are the shortcuts of code that holds tasks, and gives them up.
func holding() []mutation {
	const holdGo = "internal/fanout/hold.go"
	return []mutation{
		{
			name: "a dead letter of any size", trap: "the server refuses the letter: the task is tried without limit",
			edits: []edit{{"internal/natsbus/emit.go", "	if err == nil && !b.fits(msg) {\n", "	if err == nil && !b.fits(msg) && msg.Data == nil {\n"}},
			pkg:   bus, run: "^TestLetterThatIsTooLargeIsCut$",
		},
		{
			name: "the rest of a cut task as a task", trap: "an express message is scanned for, and another partition's task stays lost",
			edits: []edit{{"internal/deadletter/deadletter.go", "filed.Cut > 0 && isTask:", "filed.Cut < 0 && isTask:"}},
			pkg:   "./internal/deadletter", run: "^TestRedriveOfACutLetter$",
		},
		{
			name: "a dead letter that is filed while the store is saved", trap: "the backup has a dead scan without its letter: nobody can redrive it",
			edits: []edit{{"internal/natsbus/save.go", "	if err := b.letters.Acquire(ctx, 1); err != nil {", "	if err := ctx.Err(); false {"}, {"internal/natsbus/save.go", "	defer b.letters.Release(1)\n", ""}},
			pkg:   bus, run: "^TestSaveKeepsTheDeadLetters$",
		},
		{
			name: "a backup that is complete when it begins", trap: "a part of a backup is restored",
			edits: []edit{{"internal/backup/backup.go", "	if err := check(dir); err != nil {", "	if err := check(dir); err != nil && dir == \"\" {"}},
			pkg:   "./internal/backup", run: "^TestRestoreRefuses$",
		},
		{
			name: "a cut letter that keeps the express lane", trap: "its task names no recipients: redriving it finishes the scan",
			edits: []edit{{"pkg/event/deadletter.go", "Lane: Medium,", "Lane: work.Lane,"}},
			pkg:   bus, run: "^TestLetterThatIsTooLargeIsCut$",
		},
		{
			name: "a task of any size", trap: "the server refuses the task: the router tries it without limit",
			edits: []edit{{"internal/natsbus/emit.go", "!b.fits(msg) && t.Lane == event.Express", "!b.fits(msg) && t.Lane == event.Bulk"}},
			pkg:   bus, run: "^TestTaskThatIsTooLargeGoesToTheMediumLane$",
		},
		{
			name: "a sweep that waits without limit", trap: "an old task that no worker takes switches the sweep off",
			edits: []edit{{"internal/fanout/sweep.go", "func overdue(moved, now time.Time) bool { return !moved", "func overdue(moved, now time.Time) bool { return moved.IsZero() && !moved"}},
			pkg:   fanout, run: "^TestSweeperLeavesWhatWaits$",
		},
		{
			name: "a sweep that waits behind any partition", trap: "an old task of another partition switches the sweep off",
			edits: []edit{{"internal/fanout/sweep.go", "if scan.Open() {", "if !scan.Dead {"}},
			pkg:   fanout, run: "^TestSweeperAsksForOpenScansOnly$",
		},
		{
			name: "pulls that go on while no worker is free", trap: "a process holds tasks that another could work on",
			edits: []edit{{"internal/fanout/slots.go", "s.busy++; s.busy == s.size {", "s.busy++; s.busy > s.size {"}},
			pkg:   fanout, run: "^TestLastWorkerSlotEndsTheWait$",
		},
		{
			name: "holding whatever hangs", trap: "a batch that hangs keeps its partition until the process ends",
			edits: []edit{{holdGo, "silent++; silent == stuckChecks {", "silent++; silent < 0 {"}},
			pkg:   fanout, run: "^TestStuckBatchIsGivenUp$",
		},
		{
			name: "a stuck batch as an attempt", trap: "an outage in which calls hang makes dead letters",
			edits: []edit{{holdGo, "		d.giveBack(intake, h)\n		return nil\n", "		d.release(intake, h)\n		return nil\n"}},
			pkg:   fanout, run: "^TestStuckBatchIsGivenUp$",
		},
		{
			name: "a slow store as a stuck one", trap: "a worker gives up each batch that takes long",
			edits: []edit{{holdGo, "silent, beats = 0, now", "silent, beats = silent+1, now"}},
			pkg:   fanout, run: "^TestSlowStoreIsNotStuck$",
		},
		{
			name: "repeating a batch that was given up", trap: "two workers repeat one batch beside each other without end",
			edits: []edit{{"internal/fanout/worker.go", "return retry(held.attempts, ", "return retry(context.WithoutCancel(held.attempts), "}},
			pkg:   fanout, run: "^TestStuckBatchIsGivenUp$",
		},
		{
			name: "removing a task that was given up", trap: "a late worker acknowledges what another one holds",
			edits: []edit{{holdGo, "	if h.givenUp.Load() {\n		return nil\n", "	if h.givenUp.Load() && false {\n		return nil\n"}},
			pkg:   fanout, run: "^TestStuckBatchIsGivenUp$",
		},
		{
			name: "ending the batch that is given up", trap: "a store that is slow makes no progress",
			edits: []edit{{"internal/fanout/worker.go", "ctx := h.pulse.Of(processing)", "ctx := h.pulse.Of(h.attempts)"}},
			pkg:   fanout, run: "^TestBatchThatWasGivenUpIsRecorded$",
		},
		{
			name: "calls that show no life", trap: "each worker gives up each batch that takes long",
			edits: []edit{{"internal/storemetrics/metrics.go", "	defer pulse.Beat(ctx)\n", "	_, _ = pulse.Beat, ctx\n"}},
			pkg:   "./internal/storemetrics", run: "^TestEveryMethodIsMeasured$",
		},
		{
			name: "giving back as an attempt", trap: "a task that was never worked on becomes a dead letter",
			edits: []edit{{"internal/natsbus/ack.go", "int(meta.NumDelivered) + earlierAttempts(msg.Header)", "int(meta.NumDelivered) + earlierAttempts(msg.Header) + earlierAttempts(msg.Header)"}},
			pkg:   bus, run: "^TestBus$/^Held$/^GiveBack",
		},
	}
}
