package main

// instance is a small instance of a protocol as it is, all states of which are searched.
type instance struct {
	name   string
	covers string
	long   bool // too long for go test
	run    func() outcome
}

func instances() []instance {
	both := []int8{0, 1} // never seen, and seen
	return []instance{
		{
			"append-1", "one message at a time into buckets of 1, 2 writers with 3 attempts each, a deletion", false,
			search(&appending{messages: 3, capacity: 1, writers: 2, attempts: 3, deletes: 1}),
		},
		{
			"append-2", "any messages together into buckets of 2, 2 writers with 3 attempts each", false,
			search(&appending{messages: 3, capacity: 2, writers: 2, attempts: 3, batches: true}),
		},
		{
			"append-3", "any messages together into buckets of 3, 3 writers with an attempt each, a deletion", false,
			search(&appending{messages: 3, capacity: 3, writers: 3, attempts: 1, batches: true, deletes: 1}),
		},
		{
			"rehydrate", "a message; 2 logins, also at past times; a crash, a takeover", false,
			search(&rehydration{
				messages: 1, begin: 3, end: 4, dormant: 3, slack: 1, late: 1, viewed: both, past: 2,
				logins: 2, crashes: 1, takeovers: 1, stalls: true,
			}),
		},
		{
			"rehydrate-again", "a message; 3 logins, each of which may find the user dormant", false,
			search(&rehydration{messages: 1, begin: 3, end: 6, dormant: 3, slack: 1, viewed: both, logins: 3}),
		},
		{
			"rehydrate-limit", "2 messages, a limit of 1; a mark was left behind; a login, also at a past time; a takeover", false,
			search(&rehydration{
				messages: 2, begin: 7, end: 8, dormant: 3, slack: 1, late: 1, viewed: []int8{1}, past: 3,
				marked: true, limit: 1, logins: 1, takeovers: 1,
			}),
		},
		{
			"rehydrate-follow", "a message to followers; the user begins to follow and ceases to; a login, a crash", false,
			search(&rehydration{messages: 1, begin: 4, end: 6, dormant: 3, slack: 1, viewed: []int8{1}, logins: 1, crashes: 1, edges: true}),
		},
		{
			"progress", "3 owners of whom one leaves, batches of up to 2; a task again, a crash", false,
			search(&scanning{owners: 3, batch: 2, repeats: 1, crashes: 1, leaves: 1}),
		},

		{
			"append-1-long", "as append-1, 3 writers", true,
			search(&appending{messages: 3, capacity: 1, writers: 3, attempts: 3}),
		},
		{
			"append-2-long", "as append-2, 3 writers with 2 attempts each, a deletion", true,
			search(&appending{messages: 3, capacity: 2, writers: 3, attempts: 2, batches: true, deletes: 1}),
		},
		{
			"append-3-long", "as append-3, 3 attempts each", true,
			search(&appending{messages: 3, capacity: 3, writers: 3, attempts: 3, batches: true, deletes: 1}),
		},
		{
			"append-4-long", "4 messages, any together into buckets of 1, 2 writers with 2 attempts each", true,
			search(&appending{messages: 4, capacity: 1, writers: 2, attempts: 2, batches: true}),
		},
		{
			"rehydrate-long", "as rehydrate, for longer, and a task again", true,
			search(&rehydration{
				messages: 1, begin: 3, end: 6, dormant: 3, slack: 1, late: 1, viewed: both, past: 2,
				logins: 2, crashes: 1, takeovers: 1, repeats: 1, stalls: true,
			}),
		},
		{
			"rehydrate-again-long", "as rehydrate-again, for longer, with clocks read late, and a crash", true,
			search(&rehydration{messages: 1, begin: 3, end: 8, dormant: 3, slack: 1, late: 1, viewed: both, logins: 3, crashes: 1}),
		},
		{
			"rehydrate-wide-long", "dormant_after four times the tolerance, as the configuration demands; 2 logins", true,
			search(&rehydration{messages: 1, begin: 7, end: 17, dormant: 8, slack: 1, viewed: []int8{1}, logins: 2}),
		},
		{
			"rehydrate-limit-long", "as rehydrate-limit, and a crash, with stalls between finding and appending", true,
			search(&rehydration{
				messages: 2, begin: 7, end: 8, dormant: 3, slack: 1, late: 1, viewed: []int8{1}, past: 3,
				marked: true, limit: 1, logins: 1, crashes: 1, takeovers: 1, stalls: true,
			}),
		},
		{
			"rehydrate-limit-2-long", "2 messages, a limit of 1, 2 logins, for longer, with stalls", true,
			search(&rehydration{
				messages: 2, begin: 6, end: 8, dormant: 3, slack: 1, viewed: []int8{1}, past: 5,
				limit: 1, logins: 2, stalls: true,
			}),
		},
		{
			"rehydrate-limit-3-long", "3 messages, a limit of 1; a mark was left behind; a login", true,
			search(&rehydration{
				messages: 3, begin: 6, end: 8, dormant: 3, slack: 1, viewed: []int8{1},
				marked: true, limit: 1, logins: 1,
			}),
		},
		{
			"rehydrate-follow-long", "as rehydrate-follow, 2 messages and a limit of 1", true,
			search(&rehydration{messages: 2, begin: 5, end: 8, dormant: 3, slack: 1, viewed: []int8{1}, limit: 1, logins: 1, edges: true}),
		},
		{
			"progress-long", "4 owners of whom one leaves, batches of up to 3; a task again twice, 2 crashes", true,
			search(&scanning{owners: 4, batch: 3, repeats: 2, crashes: 2, leaves: 1}),
		},
	}
}
