package main

// concludeInstances are those of messages that end.
func concludeInstances() []instance {
	return []instance{
		{
			"conclude", "an event or a task again, a crash, a removal; 2 routers, 2 collectors", false,
			search(&concluding{repeats: 1, crashes: 1, removals: 1}),
		},
		{
			"conclude-direct", "a recipient fails, an event or a task is lost, a crash", false,
			search(&concluding{failures: 1, losses: 1, crashes: 1}),
		},
		{
			"conclude-power", "a loss of power, an event or a task again", false,
			search(&concluding{powers: 1, repeats: 1}),
		},
		{
			"conclude-letter", "a task becomes two dead letters; a crash", false,
			search(&concluding{deaths: 1, twins: true, crashes: 1}),
		},
		{
			"conclude-long", "events and tasks again, 2 failures, a crash, a sweep, a removal", true,
			search(&concluding{repeats: 1, failures: 2, crashes: 1, sweeps: 1, removals: 1}),
		},
		{
			"conclude-letter-long", "2 tasks become dead letters; a failure, a crash, a removal", true,
			search(&concluding{deaths: 2, failures: 1, crashes: 1, removals: 1}),
		},
	}
}

// concludeShortcuts are those in the end of messages.
func concludeShortcuts() (all []shortcut) {
	concludes := func(is mutation, name string, m concluding) {
		m.mutation = is
		all = append(all, shortcut{is, name, search(&m)})
	}
	concludes(concludedEarly, "write the ending before all scans are done", concluding{})
	concludes(concludedAgain, "an ending that replaces an earlier one", concluding{repeats: 1})
	concludes(letterDroppedFirst, "drop the letter, and then give the scan up", concluding{deaths: 1, crashes: 1})
	concludes(removedUnconcluded, "remove a message when its scans are done", concluding{removals: 1})
	concludes(endingAlthoughFailed, "write the ending although a recipient could not be reached", concluding{failures: 1})
	concludes(failureIsSkip, "count a recipient who could not be reached as skipped", concluding{failures: 1})
	concludes(onlyNewCount, "count only what a pass has appended itself", concluding{crashes: 1})
	concludes(endingBeforeDelivery, "write the ending, and then deliver", concluding{})
	concludes(endingOnDiskFirst, "an ending that reaches the disk before the copies", concluding{powers: 1})
	concludes(sweepOfPlansOnly, "a sweep that looks only at plans", concluding{losses: 1})
	concludes(plansStay, "leave the plan of a message that has ended", concluding{repeats: 1, crashes: 1})
	return all
}
