package mutation_test

// panicking are the shortcuts of code that recovers from panics.
func panicking() []mutation {
	return []mutation{
		{
			name: "a panic that leaves a lock", trap: "the owner stays locked until the process ends",
			edits: []edit{
				{pushGo, "	defer locks.unlock()\n	applied := false\n", "	applied := false\n"},
				{pushGo, "	applied = err == nil\n", "	applied = err == nil\n	locks.unlock()\n"},
			},
			pkg: pebble, run: "^TestNoLockOutlivesAPanic$",
		},
		{
			name: "a panic that leaves a tail", trap: "the tail is ahead of the bucket: the next push leaves a slot empty",
			edits: []edit{{pushGo, "if !applied {", "if !applied && err != nil {"}},
			pkg:   pebble, run: "^TestPushAfterAPanic$",
		},
		{
			name: "a task whose panics do not count", trap: "the dead letter does not say that the code panicked",
			edits: []edit{{"internal/fanout/deadletter.go", "delivery.Attempts < maxAttempts {", "delivery.Attempts < 100*maxAttempts {"}},
			pkg:   fanout, run: "^TestTaskOnWhichTheCodePanics$",
		},
		{
			name: "a sweep that ends at a panic", trap: "one message keeps the sweep from all later ones",
			edits: []edit{{"internal/fanout/sweep.go", "case panics.Is(err):", "case panics.Is(err) && false:"}},
			pkg:   fanout, run: "^TestSweepLeavesOutAMessageOnWhichTheCodePanics$",
		},
	}
}
