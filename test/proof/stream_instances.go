package main

import "strings"

// streamOrder is what a look and a page read.
var streamOrder = []piece{pieceUser, pieceFlags, pieceTombstones, pieceHead, pieceEntries}

// streamInstances are those of the live stream.
func streamInstances() (all []instance) {
	of := func(name, covers string, m streaming) {
		all = append(all, instance{name, covers, strings.HasSuffix(name, "-long"), search(m.with(correct))})
	}
	every := []flagKind{markRead, markUnread, markArchived, markUnarchived, markUpTo, markSeen}
	marks := []flagKind{markRead, markUnread, markUpTo}
	gap := span{low: 1, high: 2}

	of("stream", "2 messages, buckets of 1, states of the newest; 2 requests of any kind, a break",
		streaming{box: flagging{messages: 2, kinds: every, operations: 2}, breaks: 1})
	of("stream-marks", "2 messages, 3 requests", streaming{box: flagging{messages: 2, kinds: marks, operations: 3}})
	of("stream-buckets", "3 messages, buckets of 2, 2 requests", streaming{box: flagging{messages: 3, capacity: 2, kinds: marks, operations: 2}})
	of("stream-deleted", "2 messages, a request of any kind, 2 deletions, P rises",
		streaming{box: flagging{messages: 2, kinds: every, operations: 1, deletions: 2, raises: 1}})
	of("stream-deleted-page", "2 messages, 2 deletions, P rises; a page", streaming{box: flagging{messages: 2, deletions: 2, raises: 1}, pages: 1})
	of("stream-gap", "2 messages in a gap, one of which becomes visible later; a request of any kind, P rises, a deletion",
		streaming{box: flagging{messages: 2, kinds: every, operations: 1, raises: 1, deletions: 1, gap: gap, later: 1 << 2}})
	of("stream-rehydrate", "2 messages that are missing when the user returns, one of which may be in a gap; a request, a page",
		streaming{box: flagging{messages: 2, kinds: marks, operations: 1, away: gap, bound: 1}, pages: 1})
	of("stream-crash", "2 messages; a process loses slots that were shown; a request of any kind, a break, a page",
		streaming{box: flagging{messages: 2, kinds: every, operations: 1}, crashes: 1, breaks: 1, pages: 1})
	of("stream-order", "2 messages, 2 requests of any kind, a deletion; the user's record is read last", streaming{
		box:  flagging{messages: 2, kinds: every, operations: 2, deletions: 1},
		look: []piece{pieceHead, pieceTombstones, pieceEntries, pieceFlags, pieceUser},
	})
	of("stream-mark", "as stream; states follow the read mark and the gaps", streaming{
		box: flagging{messages: 2, kinds: every, operations: 2}, breaks: 1, byMark: true,
	})
	of("stream-mark-gap", "as stream-gap without a deletion; states follow the read mark and the gaps",
		streaming{box: flagging{messages: 2, kinds: every, operations: 1, raises: 1, gap: gap, later: 1 << 2}, pages: 1, byMark: true})

	of("stream-page-long", "2 messages, 2 requests of any kind, 2 pages", streaming{box: flagging{messages: 2, kinds: every, operations: 2}, pages: 2})
	of("stream-buckets-page-long", "as stream-buckets, a page",
		streaming{box: flagging{messages: 3, capacity: 2, kinds: marks, operations: 2}, pages: 1})
	of("stream-buckets-long", "4 messages, buckets of 2, frames with up to 2 and states of the 2 newest buckets; 2 requests",
		streaming{box: flagging{messages: 4, capacity: 2, kinds: marks, operations: 2}, newest: 2, most: 2})
	of("stream-gap-long", "as stream-gap, and a later message",
		streaming{box: flagging{messages: 3, kinds: marks, operations: 1, deletions: 1, gap: gap, later: 1 << 2}, pages: 1})
	of("stream-rehydrate-cut-long", "as stream-rehydrate, P rises",
		streaming{box: flagging{messages: 2, kinds: marks, operations: 1, raises: 1, away: gap, bound: 1}, pages: 1})
	of("stream-rehydrate-long", "as stream-rehydrate, a later message and a break",
		streaming{box: flagging{messages: 3, kinds: marks, operations: 1, away: gap, bound: 1}, breaks: 1, pages: 1})
	of("stream-crash-long", "as stream-crash, a deletion and 2 crashes",
		streaming{box: flagging{messages: 2, kinds: marks, operations: 1, deletions: 1}, crashes: 2, pages: 1})
	return all
}

// with adds a mutation, and what most instances have in common.
func (m *streaming) with(is mutation) *streaming {
	m.mutation = is
	for _, n := range [...]*int8{&m.box.capacity, &m.newest, &m.most, &m.tombstones} {
		*n = max(*n, 1)
	}
	if m.look == nil {
		m.look = streamOrder
	}
	if m.page == nil {
		m.page = streamOrder
	}
	return m
}

// streamShortcuts are those in the live stream.
func streamShortcuts() (all []shortcut) {
	of := func(is mutation, name string, messages, operations int8, kinds []flagKind, change func(*streaming)) {
		m := streaming{box: flagging{messages: messages, kinds: kinds, operations: operations}}
		if change != nil {
			change(&m)
		}
		all = append(all, shortcut{is, name, search(m.with(is))})
	}
	read, upTo := []flagKind{markRead}, []flagKind{markUpTo}
	page := func(m *streaming) { m.pages = 1 }
	deleted := func(n int8) func(*streaming) { return func(m *streaming) { m.box.deletions = n } }
	of(flagsUnsent, "send no states of messages that are known", 1, 1, read, nil)
	of(mapsApart, "read the revision of the flags after them", 1, 2, []flagKind{markRead, markArchived}, func(m *streaming) {
		m.look = []piece{pieceUser, pieceFlags, pieceTombstones, pieceHead, pieceEntries, pieceRevision}
	})
	of(emptyFlagsRemoved, "remove a record of flags that is empty", 1, 3, []flagKind{markRead, markArchived, markUnarchived}, nil)
	of(knownStays, "leave a known message as it is", 1, 1, read, page)
	of(olderIgnored, "fetch nothing again", 2, 1, read, nil)
	of(olderFlagsIgnored, "send nothing of changed flags in older buckets", 2, 1, read, nil)
	of(olderMarksIgnored, "send nothing of a read mark that reaches older buckets", 2, 1, upTo, nil)
	of(gapFlagsIgnored, "send nothing of changed flags in gaps", 2, 1, read, func(m *streaming) { m.box.gap = span{low: 1, high: 1} })
	of(droppedIgnored, "send nothing of flags that were the last ones in a bucket", 1, 2, []flagKind{markArchived, markUnarchived}, nil)
	of(olderByHeld, "fetch nothing if the frame names all that is there", 1, 0, nil, func(m *streaming) { m.box.gap, m.box.later = span{low: 1, high: 1}, 1<<1 })
	of(owedUntilBreak, "fetch nothing again after the stream broke", 2, 1, read, func(m *streaming) { m.breaks = 1 })
	of(goneCut, "send some of the deletions, and nothing of the others", 2, 0, nil, deleted(2))
	of(stubsUncounted, "count no tombstones of stubs", 2, 0, nil, func(m *streaming) { m.box.deletions, m.box.raises = 2, 1 })
	of(deletedReadLate, "read the tombstones for a page after its messages", 1, 0, nil, func(m *streaming) {
		m.box.deletions, m.pages = 1, 1
		m.page = []piece{pieceUser, pieceFlags, pieceHead, pieceEntries, pieceTombstones}
	})
	of(skippedByLimit, "a cursor beyond the messages of a frame", 2, 0, nil, nil)
	of(marksUncompared, "compare no changes of the read mark", 1, 1, upTo, nil)
	of(hashUncompared, "compare no P", 1, 0, nil, func(m *streaming) { m.box.raises = 1 })
	of(gapsUncompared, "no reset after a gap was made", 1, 0, nil, func(m *streaming) { m.box.away, m.box.bound = span{low: 1, high: 1}, 1 })
	of(epochStays, "the epoch of before a crash", 2, 0, nil, func(m *streaming) { m.crashes = 1 })
	of(recountUnnumbered, "count a gap, and raise no number", 1, 0, nil, func(m *streaming) { m.box.gap, m.box.later = span{low: 1, high: 1}, 1<<1 })
	of(pageSlotsUnchecked, "take a page with fewer slots than the last frame", 1, 0, nil, page)
	of(pageDeletedUnchecked, "take a page with fewer tombstones than the last frame", 1, 0, nil, func(m *streaming) { m.box.deletions, m.pages = 1, 1 })
	of(pageFlagsUnchecked, "take a page with older flags than the last frame", 1, 1, read, page)
	of(pageMarksUnchecked, "take a page with an older read mark than the last frame", 1, 1, upTo, page)
	of(pageBeyondReset, "take a page that was asked for before a reset", 2, 0, nil, func(m *streaming) { m.crashes, m.pages = 1, 1 })
	of(expiredReturns, "take what has expired from a page", 1, 0, nil, func(m *streaming) { m.box.raises, m.pages = 1, 1 })
	of(pageCounts, "take the numbers of messages from a page", 1, 0, nil, func(m *streaming) { m.box.raises, m.pages = 1, 1 })
	return all
}
