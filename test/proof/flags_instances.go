package main

import "strings"

// flagInstances are those of the state of single messages.
func flagInstances() (all []instance) {
	of := func(name, covers string, m flagging) {
		if m.clients = 2; m.reads > 0 {
			m.clients = 1
		}
		all = append(all, instance{name, covers, strings.HasSuffix(name, "-long"), search(&m)})
	}
	every := []flagKind{markRead, markUnread, markArchived, markUnarchived, markUpTo, markSeen}
	marks := []flagKind{markRead, markUnread, markUpTo}
	cursors := []flagKind{markUnread, markUpTo, markKnown}
	gap, early, middle := span{low: 1, high: 2}, span{low: 1, high: 1}, span{low: 2, high: 3}

	of("flags", "2 messages, buckets of 1, 2 clients with 2 operations of any kind; P rises, a deletion",
		flagging{messages: 2, capacity: 1, kinds: every, operations: 2, raises: 1, deletions: 1})
	of("flags-mark", "3 messages, buckets of 2, 2 clients with 3 operations",
		flagging{messages: 3, capacity: 2, kinds: marks, operations: 3})
	of("flags-gap", "3 messages, 2 of them in a gap, one of which becomes visible later; 2 clients with 2 operations; P rises, a deletion",
		flagging{messages: 3, capacity: 1, kinds: marks, operations: 2, raises: 1, deletions: 1, gap: gap, later: 1 << 2})
	of("flags-rehydrate", "3 messages, 2 of them missing when the user returns, one of which may be in a gap; 2 clients with 2 operations; P rises",
		flagging{messages: 3, capacity: 1, kinds: marks, operations: 2, raises: 1, away: gap, bound: 1})
	of("flags-cursor", "3 messages, buckets of 2, 2 clients with 2 operations, also with cursors; P rises",
		flagging{messages: 3, capacity: 2, kinds: cursors, operations: 2, raises: 1})
	of("flags-cursor-gap", "3 messages, 2 of them in a gap, one of which becomes visible later; as flags-cursor, a deletion",
		flagging{messages: 3, capacity: 1, kinds: cursors, operations: 2, raises: 1, deletions: 1, gap: gap, later: 1 << 2})
	of("flags-count", "2 messages, buckets of 1, a client with 2 operations of any kind; P rises, a deletion; a reader piece by piece",
		flagging{messages: 2, capacity: 1, kinds: every, operations: 2, raises: 1, deletions: 1, reads: 1, order: headFirst})
	of("flags-count-gap", "3 messages, 2 of them in a gap, one of which becomes visible later; as flags-count, an operation",
		flagging{messages: 3, capacity: 1, kinds: every, operations: 1, raises: 1, deletions: 1, reads: 1, order: headFirst, gap: gap, later: 1 << 2})
	of("flags-count-order", "as flags-count; the reader reads the tombstones before the head",
		flagging{messages: 2, capacity: 1, kinds: every, operations: 2, raises: 1, deletions: 1, reads: 1, order: tombstonesFirst})

	of("flags-long", "as flags, 3 operations",
		flagging{messages: 2, capacity: 1, kinds: every, operations: 3, raises: 1, deletions: 1})
	of("flags-cursor-long", "as flags-cursor, 3 operations",
		flagging{messages: 3, capacity: 2, kinds: cursors, operations: 3, raises: 1})
	of("flags-cursor-gaps-long", "4 messages, 1 in a gap, 2 and 3 missing when the user returns, 2 perhaps in a gap, too; as flags-cursor",
		flagging{messages: 4, capacity: 1, kinds: cursors, operations: 2, raises: 1, gap: early, away: middle, bound: 2})
	return all
}

var (
	// headFirst is what a reader of counts reads.
	headFirst = []piece{pieceUser, pieceFlags, pieceHead, pieceTombstones}
	// tombstonesFirst is another order that is right.
	tombstonesFirst = []piece{pieceUser, pieceFlags, pieceTombstones, pieceHead}
)

// flagShortcuts are those in the state of single messages.
func flagShortcuts() (all []shortcut) {
	of := func(is mutation, name string, messages, operations int8, kinds []flagKind, change func(*flagging)) {
		m := flagging{mutation: is, messages: messages, capacity: 1, clients: 2, kinds: kinds, operations: operations, order: headFirst}
		if change != nil {
			change(&m)
		}
		all = append(all, shortcut{is, name, search(&m)})
	}
	read, seen, upTo, known := []flagKind{markRead}, []flagKind{markSeen}, []flagKind{markUpTo}, []flagKind{markKnown}
	gap := func(m *flagging) { m.gap = span{low: 1, high: 2} }
	gapLater := func(m *flagging) { m.gap, m.later = span{low: 1, high: 2}, 1<<2 }
	away := func(m *flagging) { m.away = span{low: 1, high: 1} }
	reader := func(m *flagging) { m.clients, m.reads, m.deletions = 1, 1, 1 }
	of(unreadStays, "set a read mark, and leave what was marked as unread below it", 1, 2, []flagKind{markUnread, markUpTo}, nil)
	of(clearedLast, "set a read mark, then clear what was marked as unread below it", 1, 2, []flagKind{markUnread, markUpTo}, nil)
	of(flagsUncompared, "write flags without a comparison with those that were read", 2, 2, read, nil)
	of(flagsBeforeFlagged, "write flags, then note that there are some", 2, 2, read, nil)
	of(gapUncounted, "flag a message in a gap before it is counted", 2, 1, read, gapLater)
	of(byIDEarly, "flag a message by its id before its gap is decided", 1, 1, read, away)
	of(deadFlagsCount, "count flags of tombstones", 1, 1, read, func(m *flagging) { m.deletions = 1 })
	of(furtherIgnored, "do nothing to set a read mark below the one that is there", 2, 2, upTo, nil)
	of(bucketsBeforeUser, "look for a message before the user's record is read", 1, 1, read, away)
	of(cutFlagsCount, "count flags in a gap that was cut", 2, 1, read, func(m *flagging) { gap(m); m.raises = 1 })
	of(seenNow, "set all as seen that is there", 1, 1, seen, nil)
	of(beyondCounted, "count tombstones in slots beyond those that were read", 1, 0, nil, reader)
	of(staleExpiry, "count with an older P than that of a stub, without a check", 3, 1, upTo, func(m *flagging) { reader(m); m.raises = 2 })
	of(recordReadLast, "count with the user's record read last, without a check", 1, 1, seen, func(m *flagging) {
		reader(m)
		m.order = []piece{pieceFlags, pieceHead, pieceTombstones, pieceUser}
	})
	of(staleGap, "count with an older number of a gap, without a check", 1, 0, nil, func(m *flagging) { reader(m); m.gap, m.later = span{low: 1, high: 1}, 1<<1 })
	of(cursorIgnored, "set all as read that is there, not what a cursor knows", 1, 1, known, nil)
	of(cursorLowers, "lower the slots of a read mark to those of a cursor", 2, 2, []flagKind{markKnown, markUpTo}, nil)
	of(sequenceBeyond, "a read mark with the slots of a cursor, and a bucket beyond them", 3, 1, known, func(m *flagging) { m.gap = span{low: 3, high: 3} })
	of(gapsNotByID, "mark what a cursor knows one by one, but not in gaps", 3, 2, []flagKind{markKnown, markUpTo}, gap)
	of(gapsByNumber, "a cursor with the number of gaps", 2, 1, known, func(m *flagging) {
		m.gap, m.away, m.bound, m.raises = span{low: 1, high: 1}, span{low: 2, high: 2}, 2, 1
	})
	of(gapsKept, "a read mark with the slots of a cursor, and the gaps of the mark before it", 3, 2, []flagKind{markKnown, markUpTo}, func(m *flagging) {
		m.away, m.bound = span{low: 2, high: 3}, 2
	})
	return all
}
