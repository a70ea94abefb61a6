package main

import "slices"

// instance is a small instance of a protocol as it is, all states of which are searched.
type instance struct {
	name   string
	covers string
	long   bool // too long for go test
	run    func() outcome
}

func instances() []instance {
	both := []int8{0, 1} // never seen, and seen
	all := []instance{
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
			"rehydrate", "a message; 3 logins, a crash, a takeover, a task again", false,
			searchToTheEnd(&rehydration{
				messages: 1, top: 4, horizons: both,
				logins: 3, crashes: 1, takeovers: 1, repeats: 1, stalls: true,
			}),
		},
		{
			"rehydrate-limit", "2 messages, a limit of 1; a login, a crash, a takeover", false,
			searchToTheEnd(&rehydration{
				messages: 2, top: 4, horizons: both, limit: 1,
				logins: 1, crashes: 1, takeovers: 1, stalls: true,
			}),
		},
		{
			"rehydrate-limit-3", "3 messages, a limit of 1; a login", false,
			searchToTheEnd(&rehydration{messages: 3, top: 4, horizons: both, limit: 1, logins: 1}),
		},
		{
			"rehydrate-gaps", "a message in a gap and 2 more, which a limit of 1 may make a second gap of; a login, a crash, a takeover", false,
			searchToTheEnd(&rehydration{
				messages: 3, top: 5, horizons: []int8{3}, gap: true, limit: 1, early: true,
				logins: 1, crashes: 1, takeovers: 1,
			}),
		},
		{
			"rehydrate-cut", "as rehydrate-gaps, without a crash and a takeover, and a time up to which all expires", false,
			searchToTheEnd(&rehydration{
				messages: 3, top: 4, horizons: []int8{2}, gap: true, limit: 1, logins: 1, cuts: 1,
			}),
		},
		{
			"rehydrate-follow", "a message to followers; the user begins to follow and ceases to; a login, a crash", false,
			searchToTheEnd(&rehydration{messages: 1, top: 3, horizons: both, logins: 1, crashes: 1, edges: true, stalls: true}),
		},
		{
			"rehydrate-follow-gap", "as rehydrate-follow, a message in a gap, a limit of 1", false,
			searchToTheEnd(&rehydration{messages: 2, top: 5, horizons: []int8{3}, gap: true, limit: 1, logins: 1, edges: true}),
		},
		{
			"rehydrate-quick", "as rehydrate, and sweeps that end at once; 2 logins", false,
			searchToTheEnd(&rehydration{
				messages: 1, top: 4, horizons: both,
				logins: 2, crashes: 1, takeovers: 1, repeats: 1, stalls: true, quick: true,
			}),
		},
		{
			"rehydrate-quick-gap", "a message in a gap and another, and sweeps that end at once; 2 logins, a crash, a takeover, a task again", false,
			searchToTheEnd(&rehydration{
				messages: 2, top: 5, horizons: []int8{3}, gap: true,
				logins: 2, crashes: 1, takeovers: 1, repeats: 1, stalls: true, quick: true,
			}),
		},
		{
			"rehydrate-quick-follow", "as rehydrate-follow, and sweeps that end at once; a takeover", false,
			searchToTheEnd(&rehydration{
				messages: 1, top: 3, horizons: both, logins: 1, crashes: 1, takeovers: 1, edges: true, stalls: true, quick: true,
			}),
		},
		{
			"progress", "3 owners of whom one leaves, batches of up to 2; a task again, a crash", false,
			search(&scanning{owners: 3, batch: 2, repeats: 1, crashes: 1, leaves: 1}),
		},
		{
			"progress-first", "3 owners of whom one leaves, batches of up to 2; 2 head starts, a crash", false,
			search(&scanning{owners: 3, batch: 2, crashes: 1, leaves: 1, heads: 2}),
		},
		{
			"progress-arc", "3 owners, batches of up to 2; 2 batches miss one, a task again", false,
			search(&scanning{owners: 3, batch: 2, repeats: 1, misses: 2}),
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
			"rehydrate-long", "as rehydrate, with more times", true,
			search(&rehydration{
				messages: 1, top: 6, horizons: both,
				logins: 3, crashes: 1, takeovers: 1, repeats: 1, stalls: true,
			}),
		},
		{
			"rehydrate-limit-long", "as rehydrate-limit, 2 logins", true,
			search(&rehydration{
				messages: 2, top: 4, horizons: both, limit: 1,
				logins: 2, crashes: 1, takeovers: 1, stalls: true,
			}),
		},
		{
			"rehydrate-limit-again-long", "as rehydrate-limit, with more times and a task again", true,
			search(&rehydration{
				messages: 2, top: 5, horizons: both, limit: 1,
				logins: 1, crashes: 1, takeovers: 1, repeats: 1, stalls: true,
			}),
		},
		{
			"rehydrate-limit-3-long", "as rehydrate-limit, 3 messages", true,
			search(&rehydration{
				messages: 3, top: 4, horizons: both, limit: 1,
				logins: 1, crashes: 1, takeovers: 1, stalls: true,
			}),
		},
		{
			"rehydrate-limit-3-twice-long", "3 messages, a limit of 1; 2 logins", true,
			search(&rehydration{messages: 3, top: 4, horizons: both, limit: 1, logins: 2, stalls: true}),
		},
		{
			"rehydrate-gaps-long", "as rehydrate-gaps, a task again", true,
			search(&rehydration{
				messages: 3, top: 5, horizons: []int8{3}, gap: true, limit: 1, early: true,
				logins: 1, crashes: 1, takeovers: 1, repeats: 1, stalls: true,
			}),
		},
		{
			"rehydrate-gaps-4-long", "a message in a gap and 3 more; a login", true,
			search(&rehydration{messages: 4, top: 5, horizons: []int8{3}, gap: true, limit: 1, logins: 1}),
		},
		{
			"rehydrate-cut-long", "as rehydrate-cut, twice, with more times, a crash and a takeover", true,
			search(&rehydration{
				messages: 3, top: 5, horizons: []int8{3}, gap: true, limit: 1,
				logins: 1, crashes: 1, takeovers: 1, cuts: 2,
			}),
		},
		{
			"rehydrate-follow-long", "as rehydrate-follow, 2 logins, a takeover", true,
			search(&rehydration{
				messages: 1, top: 3, horizons: both,
				logins: 2, crashes: 1, takeovers: 1, edges: true, stalls: true,
			}),
		},
		{
			"rehydrate-follow-gap-long", "as rehydrate-follow-gap, 2 messages beside the one in the gap", true,
			search(&rehydration{messages: 3, top: 4, horizons: []int8{3}, gap: true, limit: 1, logins: 1, edges: true}),
		},
		{
			"rehydrate-quick-long", "as rehydrate-quick, 3 logins, with more times", true,
			searchToTheEnd(&rehydration{
				messages: 1, top: 5, horizons: both,
				logins: 3, crashes: 1, takeovers: 1, repeats: 1, stalls: true, quick: true,
			}),
		},
		{
			"rehydrate-quick-gap-3-long", "as rehydrate-quick-gap, 3 logins", true,
			searchToTheEnd(&rehydration{
				messages: 2, top: 5, horizons: []int8{3}, gap: true,
				logins: 3, crashes: 1, takeovers: 1, repeats: 1, stalls: true, quick: true,
			}),
		},
		{
			"rehydrate-quick-gap-long", "a message in a gap and 2 more, a limit of 1, and sweeps that end at once; 2 logins, a crash, a takeover", true,
			search(&rehydration{
				messages: 3, top: 5, horizons: []int8{3}, gap: true, limit: 1,
				logins: 2, crashes: 1, takeovers: 1, stalls: true, quick: true,
			}),
		},
		{
			"rehydrate-quick-follow-long", "as rehydrate-quick-follow, a message in a gap; 2 logins, no takeover", true,
			search(&rehydration{
				messages: 2, top: 4, horizons: []int8{2}, gap: true,
				logins: 2, crashes: 1, edges: true, quick: true,
			}),
		},
		{
			"progress-long", "4 owners of whom one leaves, batches of up to 3; a task again twice, 2 crashes", true,
			search(&scanning{owners: 4, batch: 3, repeats: 2, crashes: 2, leaves: 1}),
		},
		{
			"progress-arc-long", "4 owners of whom one leaves, batches of up to 2; 3 batches miss one, a task again, a crash", true,
			search(&scanning{owners: 4, batch: 2, repeats: 1, crashes: 1, leaves: 1, misses: 3}),
		},
		{"block", "a block, 3 follows, 2 crashes", false, search(blocking{})},
	}
	return slices.Concat(all, retainInstances(), concludeInstances(), lowWaterInstances(), unlinkInstances(), claimInstances(), closeInstances(), flagInstances(), streamInstances(),
		tallyInstances(), tableInstances())
}
