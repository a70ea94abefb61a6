package main

// repairInstances are those of the repair of an inbox. F is a message from the future.
func repairInstances() []instance {
	one := repairing{
		appending: appending{messages: 2, capacity: 1, writers: 2, attempts: 1, repaired: true},
		length:    2, futures: 1, repairers: 2, passes: 2,
	}
	with := func(change func(*repairing)) func() outcome {
		m := one
		change(&m)
		return search(&m)
	}
	wide := func(m *repairing) { m.capacity, m.batches = 2, true }
	single := func(m *repairing) { m.repairers, m.passes = 1, 1 }
	return []instance{
		{
			"repair", "2 messages and F, buckets of 1, 2 writers, 2 repairers with 2 passes", false,
			with(func(m *repairing) { m.held = 1 }),
		},
		{
			"repair-end", "as repair, F in no writer's hand: every run ends", false,
			searchToTheEnd(&one),
		},
		{
			"repair-2", "as repair-end, 3 messages, any together, buckets of 2", false,
			with(func(m *repairing) { wide(m); m.messages = 3 }),
		},
		{
			"repair-cursor", "as repair-end, a pass; a page from a cursor, at one moment", false,
			with(func(m *repairing) { single(m); m.cursors = true }),
		},
		{
			"repair-mark", "as repair-end, a pass; a search, step by step, which may set a read mark", false,
			with(func(m *repairing) { single(m); m.searches, m.marks = 1, true }),
		},
		{
			"repair-mark-gap", "as repair-mark, also up to F; 3 messages, one of them in a gap; 1 slot at first", false,
			with(func(m *repairing) {
				single(m)
				m.messages, m.length, m.gap, m.searches, m.marks, m.futureIs = 3, 1, 1<<2, 1, true, true
			}),
		},
		{
			"repair-stub", "as repair-end, a pass; messages expire, F too", false,
			with(func(m *repairing) { single(m); m.expiry = true }),
		},
		{
			"repair-lowest", "as repair-stub, embedded", false,
			with(func(m *repairing) { single(m); m.expiry, m.embedded = true, true }),
		},

		{
			"repair-long", "as repair, a cursor, a deletion", true,
			with(func(m *repairing) { m.held, m.deletions, m.cursors = 1, 1, true }),
		},
		{
			"repair-mark-long", "as repair-all-long, one repairer, read marks up to any id", true,
			with(func(m *repairing) {
				m.held, m.repairers, m.deletions, m.searches, m.marks, m.futureIs = 1, 1, 1, 1, true, true
			}),
		},
		{
			"repair-2-long", "as repair-2, 3 slots at first, a cursor, a deletion", true,
			with(func(m *repairing) { wide(m); m.messages, m.length, m.deletions, m.cursors = 3, 3, 1, true }),
		},
		{
			"repair-2-mark-long", "buckets of 2, together; a repairer; a cursor, and a search, which may set a read mark", true,
			with(func(m *repairing) {
				wide(m)
				m.held, m.repairers, m.cursors, m.searches, m.marks, m.futureIs = 1, 1, true, 1, true, true
			}),
		},
		{
			"repair-2-again-long", "buckets of 2, together, 2 attempts each", true,
			with(func(m *repairing) { wide(m); m.held, m.attempts = 1, 2 }),
		},
		{
			"repair-apart-long", "as repair, two ids from the future, of which one is known to be void only later", true,
			with(func(m *repairing) { m.futures, m.held, m.apart = 2, 2, true }),
		},
		{
			"repair-futures-long", "two ids from the future, 3 slots at first, a deletion", true,
			with(func(m *repairing) { m.futures, m.held, m.length, m.deletions = 2, 2, 3, 1 }),
		},
		{
			"repair-cursor-long", "as repair, a cursor, the page step by step", true,
			with(func(m *repairing) { m.held, m.cursors, m.searches = 1, true, 1 }),
		},
		{
			"repair-mark-twice-long", "as repair-mark, 2 passes, 2 marks up to any id", true,
			with(func(m *repairing) { m.repairers, m.searches, m.marks, m.futureIs = 1, 2, true, true }),
		},
		{
			"repair-all-long", "as repair, a deletion; a search, which may set a read mark", true,
			with(func(m *repairing) { m.held, m.deletions, m.searches, m.marks = 1, 1, 1, true }),
		},
		{
			"repair-3-long", "as repair, 3 slots at first, a deletion", true,
			with(func(m *repairing) { m.held, m.length, m.deletions = 1, 3, 1 }),
		},
		{
			"repair-stub-long", "as repair-stub, 3 messages, 3 slots at first, 2 passes", true,
			with(func(m *repairing) { m.messages, m.length, m.expiry, m.repairers = 3, 3, true, 1 }),
		},
		{
			"repair-lowest-long", "as repair-lowest, 3 messages, 3 slots at first, 2 passes", true,
			with(func(m *repairing) { m.messages, m.length, m.expiry, m.embedded, m.repairers = 3, 3, true, true, 1 }),
		},
	}
}
