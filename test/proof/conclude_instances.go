package main

// concludeInstances are those of plans that end.
func concludeInstances() []instance {
	return []instance{
		{
			"conclude", "an event or a task again, a crash, a sweep, a removal; 2 routers, 2 collectors", false,
			search(&concluding{repeats: 1, crashes: 1, sweeps: 1, removals: 1}),
		},
		{
			"conclude-read", "an event or a task again, a crash, a status read in two steps", false,
			search(&concluding{repeats: 1, crashes: 1, readers: 1}),
		},
		{
			"conclude-letter", "a task becomes two dead letters; a crash", false,
			search(&concluding{deaths: 1, twins: true, crashes: 1}),
		},
		{
			"conclude-long", "events and tasks again twice, a crash, a removal", true,
			search(&concluding{repeats: 2, crashes: 1, removals: 1}),
		},
		{
			"conclude-letter-long", "2 tasks become dead letters; 2 crashes, a removal, a status", true,
			search(&concluding{deaths: 2, crashes: 2, removals: 1, readers: 1}),
		},
	}
}

// concludeShortcuts are those in the end of plans.
func concludeShortcuts() (all []shortcut) {
	concludes := func(is mutation, name string, m concluding) {
		m.mutation = is
		all = append(all, shortcut{is, name, search(&m)})
	}
	concludes(planRemovedFirst, "remove the plan, and then move the counts", concluding{repeats: 1, crashes: 1})
	concludes(concludedEarly, "move the counts before all scans are done", concluding{})
	concludes(routerPlanAlone, "a router that looks only at the plan", concluding{repeats: 1})
	concludes(routerAsksFirst, "a router that asks for the counts before it plans", concluding{repeats: 1})
	concludes(messageReadFirst, "a status that reads the message, and then the plan", concluding{readers: 1})
	concludes(concludedAgain, "counts that replace earlier ones", concluding{repeats: 2, crashes: 1})
	concludes(givenUpRevived, "a redrive that revives a scan that was given up", concluding{deaths: 1, twins: true})
	concludes(letterDroppedFirst, "drop the letter, and then give the scan up", concluding{deaths: 1, crashes: 1})
	concludes(removedUnconcluded, "remove a message when its scans are done", concluding{removals: 1})
	return all
}
