package mutation_test

// holding are the shortcuts of code that holds tasks, and gives them up.
func holding() []mutation {
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
			edits: []edit{{"internal/fanout/sweep.go", "if !scan.Done && !scan.Dead {", "if !scan.Dead {"}},
			pkg:   fanout, run: "^TestSweeperAsksForOpenScansOnly$",
		},
		{
			name: "pulls that go on while no worker is free", trap: "a process holds tasks that another could work on",
			edits: []edit{{"internal/fanout/slots.go", "s.busy++; s.busy == s.size {", "s.busy++; s.busy > s.size {"}},
			pkg:   fanout, run: "^TestLastWorkerSlotEndsTheWait$",
		},
		{
			name: "giving back as an attempt", trap: "a task that was never worked on becomes a dead letter",
			edits: []edit{{"internal/natsbus/ack.go", "int(meta.NumDelivered) + earlierAttempts(msg.Header)", "int(meta.NumDelivered) + earlierAttempts(msg.Header) + earlierAttempts(msg.Header)"}},
			pkg:   bus, run: "^TestBus$/^Held$/^GiveBack",
		},
	}
}
