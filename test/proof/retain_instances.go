package main

// retainInstances are those of messages that expire.
func retainInstances() []instance {
	of := func(messages, capacity int8, writers int, attempts int8, change func(*retaining)) func() outcome {
		m := retaining{
			appending: appending{messages: messages, capacity: capacity, writers: writers, attempts: attempts, expiring: true},
		}
		change(&m)
		return search(&m)
	}
	trims := func(m *retaining, newest int8, runs int) {
		m.newest, m.trimmers, m.trims, m.atOnce = newest, runs, int8(runs), true
	}
	return []instance{
		{
			"expire", "2 messages, buckets of 1, 2 writers with 2 attempts each; P rises twice, a deletion", false,
			of(2, 1, 2, 2, func(m *retaining) { m.raises, m.deletions, m.drops = 2, 1, true }),
		},
		{
			"expire-3", "3 messages, buckets of 2, 3 writers; P rises", false,
			of(3, 2, 3, 1, func(m *retaining) { m.raises = 1 }),
		},
		{
			"expire-page", "2 messages, buckets of 1, a writer with 2 attempts; P rises, a deletion, a page bucket by bucket", false,
			of(2, 1, 1, 2, func(m *retaining) { m.raises, m.deletions, m.pages = 1, 1, 1 }),
		},
		{
			"expire-page-end", "as expire-page; the page reads P after the buckets", false,
			of(2, 1, 1, 2, func(m *retaining) { m.raises, m.deletions, m.pages, m.expiryEnd = 1, 1, 1, true }),
		},
		{
			"expire-lowest", "2 messages, embedded, 2 writers with 2 attempts each; P rises, a deletion", false,
			of(2, 1, 2, 2, func(m *retaining) { m.raises, m.deletions, m.embedded = 1, 1, true }),
		},
		{
			"expire-lowest-page", "3 messages, embedded, a writer with 3 attempts; P rises, a page bucket by bucket", false,
			of(3, 1, 1, 3, func(m *retaining) { m.raises, m.pages, m.embedded = 1, 1, true }),
		},
		{
			"expire-count", "3 messages, buckets of 1, a writer with 3 attempts; P rises, a deletion, a read mark", false,
			of(3, 1, 1, 3, func(m *retaining) { m.marks, m.raises, m.deletions, m.markings = true, 1, 1, 1 }),
		},
		{
			"expire-count-2", "3 messages, any together, buckets of 2, a writer with 2 attempts; P rises, a deletion, a read mark", false,
			of(3, 2, 1, 2, func(m *retaining) { m.marks, m.batches, m.raises, m.deletions, m.markings = true, true, 1, 1, 1 }),
		},
		{
			"expire-count-lowest", "as expire-count, embedded", false,
			of(3, 1, 1, 3, func(m *retaining) { m.embedded, m.marks, m.raises, m.deletions, m.markings = true, true, 1, 1, 1 }),
		},
		{
			"expire-count-gap", "3 messages, two of them in a gap; a writer with 2 attempts; P rises twice, a read mark", false,
			of(3, 1, 1, 2, func(m *retaining) {
				m.gap, m.spans = 1<<2|1<<3, []span{{low: 2, high: 3}}
				m.marks, m.raises, m.markings = true, 2, 1
			}),
		},
		{
			"expire-count-gaps", "3 messages, 1 and 3 of them in gaps; a writer with 2 attempts; P rises, 2 read marks", false,
			of(3, 1, 1, 2, func(m *retaining) {
				m.gap, m.spans = 1<<1|1<<3, []span{{low: 3, high: 3}, {low: 1, high: 1}}
				m.marks, m.raises, m.markings = true, 1, 2
			}),
		},
		{
			"newest", "the newest 2 of 4 messages, buckets of 1; 2 runs at a time, a deletion, stubs", false,
			of(4, 1, 0, 0, func(m *retaining) { trims(m, 2, 2); m.deletions = 1 }),
		},
		{
			"newest-gap", "the newest 2 of 4 messages, 2 of them in a gap; buckets of 1; 2 runs at a time, 2 deletions", false,
			of(4, 1, 0, 0, func(m *retaining) {
				trims(m, 2, 2)
				m.deletions, m.gap, m.spans = 2, 1<<2|1<<3, []span{{low: 2, high: 3}}
			}),
		},
		{
			"newest-order", "the newest 2 of 4 messages, buckets of 1; a run reads the head first, then the rest in any order; 2 deletions", false,
			of(4, 1, 0, 0, func(m *retaining) { trims(m, 2, 1); m.deletions, m.anyOrder = 2, true }),
		},
		{
			"newest-lowest", "the newest 1 of 4 messages, embedded, buckets of 1; 2 runs at a time, a deletion", false,
			of(4, 1, 0, 0, func(m *retaining) { trims(m, 1, 2); m.deletions, m.embedded = 1, true }),
		},
		{
			"newest-clock", "the newest 1 of 4 messages, 4 and perhaps 3 from a clock that is ahead; 2 runs", false,
			of(4, 1, 0, 0, func(m *retaining) { trims(m, 1, 1); m.trims, m.clocks, m.ahead = 2, true, 1<<3|1<<4 }),
		},

		{
			"expire-long", "as expire, 3 messages", true,
			of(3, 1, 2, 2, func(m *retaining) { m.raises, m.deletions, m.drops = 2, 1, true }),
		},
		{
			"expire-batch-long", "3 messages, any together, buckets of 2, 2 writers with 2 attempts each; P rises twice, a deletion", true,
			of(3, 2, 2, 2, func(m *retaining) { m.raises, m.deletions, m.batches = 2, 1, true }),
		},
		{
			"expire-page-long", "3 messages, buckets of 1, 2 writers with 2 attempts each; P rises, a page bucket by bucket", true,
			of(3, 1, 2, 2, func(m *retaining) { m.raises, m.pages = 1, 1 }),
		},
		{
			"expire-page-end-long", "as expire-page-long; the page reads P after the buckets", true,
			of(3, 1, 2, 2, func(m *retaining) { m.raises, m.pages, m.expiryEnd = 1, 1, true }),
		},
		{
			"expire-page-2-long", "3 messages, any together, buckets of 2, 2 writers; P rises twice, a deletion, a page bucket by bucket", true,
			of(3, 2, 2, 1, func(m *retaining) { m.raises, m.deletions, m.pages, m.batches = 2, 1, 1, true }),
		},
		{
			"expire-lowest-long", "3 messages, embedded, 2 writers with 2 attempts each; P rises, a deletion", true,
			of(3, 1, 2, 2, func(m *retaining) { m.raises, m.deletions, m.embedded = 1, 1, true }),
		},
		{
			"expire-lowest-page-long", "3 messages, embedded, 2 writers with 2 attempts each; P rises, a page bucket by bucket", true,
			of(3, 1, 2, 2, func(m *retaining) { m.raises, m.pages, m.embedded = 1, 1, true }),
		},
		{
			"expire-count-long", "3 messages, buckets of 1, a writer with 4 attempts; P rises twice, a deletion, 2 read marks", true,
			of(3, 1, 1, 4, func(m *retaining) { m.marks, m.raises, m.deletions, m.markings = true, 2, 1, 2 }),
		},
		{
			"expire-count-2-long", "3 messages, any together, buckets of 2, a writer with 2 attempts; P rises twice, a deletion, 2 read marks", true,
			of(3, 2, 1, 2, func(m *retaining) { m.marks, m.batches, m.raises, m.deletions, m.markings = true, true, 2, 1, 2 }),
		},
		{
			"expire-count-lowest-long", "3 messages, embedded, a writer with 4 attempts; P rises twice, a deletion, 2 read marks", true,
			of(3, 1, 1, 4, func(m *retaining) { m.embedded, m.marks, m.raises, m.deletions, m.markings = true, true, 2, 1, 2 }),
		},
		{
			"expire-count-gap-long", "as expire-count-gap, 4 messages, 3 attempts", true,
			of(4, 1, 1, 3, func(m *retaining) {
				m.gap, m.spans = 1<<2|1<<3, []span{{low: 2, high: 3}}
				m.marks, m.raises, m.markings = true, 2, 1
			}),
		},
		{
			"expire-count-gaps-long", "as expire-count-gaps, 3 attempts; P rises twice, a deletion", true,
			of(3, 1, 1, 3, func(m *retaining) {
				m.gap, m.spans = 1<<1|1<<3, []span{{low: 3, high: 3}, {low: 1, high: 1}}
				m.marks, m.raises, m.deletions, m.markings = true, 2, 1, 2
			}),
		},
		{
			"newest-long", "the newest 2 of 5 messages, buckets of 1; 2 runs at a time, 2 deletions, stubs", true,
			of(5, 1, 0, 0, func(m *retaining) { trims(m, 2, 2); m.deletions = 2 }),
		},
		{
			"newest-gap-long", "as newest-gap; P rises besides", true,
			of(4, 1, 0, 0, func(m *retaining) {
				trims(m, 2, 2)
				m.raises, m.deletions, m.gap, m.spans = 1, 2, 1<<2|1<<3, []span{{low: 2, high: 3}}
			}),
		},
		{
			"newest-gaps-long", "the newest 2 of 5 messages, buckets of 1; 1 and 3 in gaps; 2 runs at a time, 2 deletions", true,
			of(5, 1, 0, 0, func(m *retaining) {
				trims(m, 2, 2)
				m.deletions, m.gap, m.spans = 2, 1<<1|1<<3, []span{{low: 3, high: 3}, {low: 1, high: 1}}
			}),
		},
		{
			"newest-gaps-3-long", "the newest 3 of 6 messages, buckets of 2; 1 and 2, and 4 in gaps; a run at a time, 2 deletions", true,
			of(6, 2, 0, 0, func(m *retaining) {
				trims(m, 3, 1)
				m.trims, m.deletions, m.gap, m.spans = 2, 2, 1<<1|1<<2|1<<4, []span{{low: 1, high: 2}, {low: 4, high: 4}}
			}),
		},
		{
			"newest-gap-steps-long", "as newest-gap; deleting a message in the gap takes two steps", true,
			of(4, 1, 0, 0, func(m *retaining) {
				trims(m, 2, 2)
				m.deletions, m.twoSteps, m.gap, m.spans = 2, true, 1<<2|1<<3, []span{{low: 2, high: 3}}
			}),
		},
		{
			"newest-order-long", "as newest-order, 5 messages", true,
			of(5, 1, 0, 0, func(m *retaining) { trims(m, 2, 1); m.deletions, m.anyOrder = 2, true }),
		},
		{
			"newest-writer-long", "the newest 2 of 4 messages, any together, buckets of 2; a writer step by step with 3 attempts; 2 runs at a time", true,
			of(4, 2, 1, 3, func(m *retaining) { trims(m, 2, 2); m.atOnce, m.batches = false, true }),
		},
		{
			"newest-lowest-long", "as newest-lowest, the newest 2 of 5", true,
			of(5, 1, 0, 0, func(m *retaining) { trims(m, 2, 2); m.deletions, m.embedded = 1, true }),
		},
		{
			"newest-pairs-long", "the newest 2 of 5 messages, of which two belong to a millisecond; buckets of 1; 2 runs at a time, a deletion", true,
			of(5, 1, 0, 0, func(m *retaining) { trims(m, 2, 2); m.deletions, m.pairs = 1, true }),
		},
	}
}

// retainShortcuts are those in letting messages expire.
func retainShortcuts() (all []shortcut) {
	expires := func(is mutation, name string, m retaining, change func(*retaining)) {
		if change != nil {
			change(&m)
		}
		m.mutation = is
		all = append(all, shortcut{is, name, search(&m)})
	}
	one := retaining{
		appending: appending{messages: 2, capacity: 1, writers: 1, attempts: 2, expiring: true}, raises: 1,
	}
	two := one
	two.writers = 2
	page := one
	page.pages = 1
	lowest := two
	lowest.embedded, lowest.messages = true, 2
	wide := two
	wide.capacity = 2
	expires(expirySet, "set P instead of raising it", one, func(m *retaining) { m.raises = 2 })
	expires(emptiedFirst, "empty first, then raise P", one, nil)
	expires(expiryReadFirst, "a page that goes by the P that it has read before the buckets", page, nil)
	expires(expiredNotLeftOut, "a page that shows what the buckets hold", page, nil)
	expires(stubUnseen, "a stub that holds nothing for a writer's look", one, nil)
	expires(entriesDropped, "drop the expired entries of a bucket with room", wide, nil)
	expires(entriesPulled, "pull the expired entries out of a bucket with room", wide, nil)
	expires(lowestUnknown, "remove the lowest bucket, without a record of it", lowest, nil)
	expires(lowestElsewhere, "remove the lowest bucket, with a record that a push does not compare", lowest, nil)
	expires(lowestUnseen, "a look that finds nothing below the lowest bucket", lowest, nil)
	expires(lowestUnread, "a page that finds nothing below the lowest bucket", lowest, func(m *retaining) { m.writers, m.pages = 1, 1 })
	counts := func(m *retaining) { m.attempts, m.marks, m.markings = 3, true, 1 }
	gap := func(m *retaining) {
		counts(m)
		m.messages, m.gap, m.spans = 3, 1<<2|1<<3, []span{{low: 2, high: 3}}
	}
	expires(expiredUncounted, "counts from slots, tombstones and stubs alone", wide, counts)
	expires(lateForgotten, "counts with the expired entries of one bucket only", one, func(m *retaining) { counts(m); m.messages, m.capacity = 3, 2 })
	expires(stubUnread, "a read mark that counts no slot of a stub as read", one, func(m *retaining) { counts(m); m.messages = 3 })
	expires(gapsUncut, "leave the gaps as they are when P rises", one, gap)
	expires(listedStays, "remove a gap, and leave it in the read mark's number of gaps", one, func(m *retaining) {
		gap(m)
		m.spans, m.raises = []span{{low: 2, high: 2}, {low: 3, high: 3}}, 1
	})
	expires(cutStaysRead, "cut a gap, and leave what the read mark counts as read in it", one, gap)
	expires(markUncompared, "set a read mark without comparing P and the gaps", one, gap)

	newest := func(n int8, messages, capacity int8, change func(*retaining)) retaining {
		m := retaining{
			appending: appending{messages: messages, capacity: capacity, expiring: true},
			newest:    n, trimmers: 1, trims: 1, atOnce: true, deletions: 1,
		}
		if change != nil {
			change(&m)
		}
		return m
	}
	gapped := func(low, high int8) func(*retaining) {
		return func(m *retaining) { m.gap, m.spans = upTo(high)&^upTo(low-1), []span{{low: low, high: high}} }
	}
	expires(trimByLast, "the newest N by the last of an old bucket", newest(1, 3, 1, nil), nil)
	expires(tombstonesCount, "a tombstone counts as one of the newest N", newest(2, 3, 1, nil), nil)
	expires(gapCountsWhole, "a gap counts with its deleted messages", newest(2, 3, 1, gapped(2, 3)), nil)
	expires(gapBelowFloor, "a gap counts that reaches below the floor", newest(2, 3, 1, gapped(2, 3)), nil)
	expires(gapsReadLast, "read the gaps after the buckets", newest(2, 3, 1, gapped(3, 3)), nil)
	expires(gapEntriesCount, "an entry in a gap counts besides the gap", newest(2, 3, 1, gapped(3, 3)), func(m *retaining) { m.twoSteps = true })
	expires(lowFirst, "count from the lowest bucket up", newest(3, 4, 2, nil), nil)
	expires(staleHead, "begin at a hint for the head", newest(2, 3, 1, gapped(2, 3)), nil)
	expires(gapByNumber, "the N-th in a gap by the gap's number", newest(2, 3, 1, gapped(1, 3)), nil)
	expires(stubEnds, "a run ends at a stub", newest(1, 3, 1, gapped(2, 3)), func(m *retaining) { m.raises = 1 })
	expires(beyondSlack, "raise P beyond what may still arrive", newest(1, 3, 1, nil), func(m *retaining) { m.clocks, m.ahead = true, 1<<3 })
	return all
}
