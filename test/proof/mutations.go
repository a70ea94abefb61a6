package main

import "slices"

// mutation is a reasonable shortcut in a protocol. A model with a mutation behaves like an implementation that takes the shortcut.
type mutation uint8

const (
	correct mutation = iota

	timeForFloor
	onceForBatch
	oneQuery
	fullHeadOnly
	lastForgotten
	allOrNothing
	newestGuards
	noTombstone
	bucketRemoved
	hintAhead
	counterAndPush
	refusalIsLook

	raiseWithoutDebt
	twoUpdates
	overwrittenFrom
	horizonLowered
	computedRaised
	computedLowered
	voidRaised
	voidLowered
	sweepFromClock
	sweepFromHorizon
	overwrittenSweep
	noSweep
	endByClock
	sweepEndsByClock
	limitedSweep
	noRecount
	workersCount
	tokenKeptByRaise
	tokenKeptByGap
	endsByBounds
	tokenReused
	noToken
	noDebtForGap
	noDebtByFollow
	overwrittenByDebt
	gapsDelivered
	gapForgotten
	gapAboveInbox
	boundedTwice
	beyondHorizon
	completeByMark
	sweepLikeMark
	neitherInclusive
	bothInclusive
	staleRead
	stateReadFirst
	edgesReadFirst
	cutIgnored
	cutUncounted
	cutWithoutCompare
	boundUncut
	edgeOnly
	repeatedBriefly
	quickEndOfOlder
	quickEndWithoutToken
	quickEndByBounds
	lookFromHorizon
	lookBeforeRaise
	storedBeforeCeiling
	ceilingReadFirst
	ceilingFallsBack
	ceilingKnownAbove

	emitFirst
	startInTask
	plainStrings
	plainRecord
	newOnly
	headCounts
	headRecords
	arcForgotten
	arcReplaced
	sinceKept
	othersCount
	missIsSkip

	expirySet
	emptiedFirst
	expiryReadFirst
	expiredNotLeftOut
	stubUnseen
	entriesDropped
	entriesPulled
	lowestUnknown
	lowestElsewhere
	lowestUnseen
	lowestUnread
	expiredUncounted
	lateForgotten
	stubUnread
	gapsUncut
	listedStays
	cutStaysRead
	markUncompared
	trimByLast
	tombstonesCount
	gapCountsWhole
	gapBelowFloor
	gapsReadLast
	gapEntriesCount
	lowFirst
	staleHead
	gapByNumber
	stubEnds
	beyondSlack

	concludedEarly
	concludedAgain
	letterDroppedFirst
	removedUnconcluded
	endingAlthoughFailed
	failureIsSkip
	onlyNewCount
	endingBeforeDelivery
	endingOnDiskFirst
	sweepOfPlansOnly
	plansStay

	// Of lowWater.
	lowNotTarget
	targetBeforeRecord
	firstFromZero
	provenAtOnce
	damagePassed
	gapsPassed
	marksPassed
	horizonPassed
	removedUnscanned
	removedAtOnce

	followersFirst
	pendingUnlinked
	unlinkedAnyway
	firstFromOne
	staleMirrored

	endsFirst
	looksBefore
	looksAfter

	inForceAtOnce
	listedFirst
	confirmedUnlisted
	confirmedByUser
	itemTrusted
	trustedEarly
	limitInForce
	unconfirmedDead
	recordsReadFirst
	listUncompared
	withdrawnInForce
	itemFirst
	itemByValue
	numberUncompared
	numberReused
	unsettled
	insertedLate

	lookBefore
	markIgnored
	unmarkedRemoved
	markWithoutToken
	soughtFirst
	endUncompared
	olderEnded
	olderShared
	numberKept
	leftoverEnded
	childAtOnce
	parentUnseen
	parentMarkIgnored
	childUncompared
	unfinishedKept
	noRevision
	revisionRemoved

	unreadStays
	clearedLast
	flagsUncompared
	flagsBeforeFlagged
	gapUncounted
	byIDEarly
	deadFlagsCount
	furtherIgnored
	bucketsBeforeUser
	cutFlagsCount
	seenNow
	beyondCounted
	staleExpiry
	recordReadLast
	staleGap
	cursorIgnored
	cursorLowers
	sequenceBeyond
	gapsNotByID
	gapsByNumber
	gapsKept

	flagsUnsent
	mapsApart
	emptyFlagsRemoved
	knownStays
	olderIgnored
	olderFlagsIgnored
	olderByHeld
	olderMarksIgnored
	gapFlagsIgnored
	droppedIgnored
	owedUntilBreak
	goneCut
	stubsUncounted
	deletedReadLate
	skippedByLimit
	marksUncompared
	hashUncompared
	gapsUncompared
	epochStays
	recountUnnumbered
	pageSlotsUnchecked
	pageDeletedUnchecked
	pageFlagsUnchecked
	pageMarksUnchecked
	pageBeyondReset
	expiredReturns
	pageCounts

	tallyNameless
	tallyFoldedEarly
	tallyAdds
	tallyUncompared
	tallyRowsFirst
	tallyRevived
	tallyUntaken
	tallyRemoved
	tallyFromAcked
	tallyLowered

	tableSyncedEarly
	tableReadEarly
	tableUntaken
	tableUnsynced
	tableUnawaited
	tableRecordedEarly
	tableTailAhead
	tableTailKept
	tableInCheckpoint
	tableTakenSingly
	tableWaitsLocked

	mutations // how many there are, with correct
)

// shortcut is a mutation with the smallest instance that is known to catch it.
type shortcut struct {
	is   mutation
	name string
	run  func() outcome
}

// shortcuts returns all mutations but correct, in their order.
func shortcuts() []shortcut {
	var all []shortcut
	appends := func(is mutation, name string, m appending) {
		m.mutation = is
		all = append(all, shortcut{is, name, search(&m)})
	}
	one := appending{messages: 3, capacity: 1, writers: 2, attempts: 3}
	two := appending{messages: 3, capacity: 2, writers: 2, attempts: 3, batches: true}
	appends(timeForFloor, "a bucket's creation, by a clock that is behind, for its floor", one)
	appends(onceForBatch, "a bucket's creation for its floor, by a clock read once for a batch", one)
	appends(oneQuery, "one query over several buckets", two)
	appends(fullHeadOnly, "look below only if the head is not full", one)
	appends(lastForgotten, "a new bucket without its predecessor's last", one)
	appends(allOrNothing, "several messages into a head with room for fewer", two)
	appends(newestGuards, "compare the newest of several messages with the floor",
		appending{messages: 5, capacity: 3, writers: 1, attempts: 3, batches: true})
	appends(noTombstone, "remove a deleted entry", appending{messages: 1, capacity: 1, writers: 1, attempts: 2, deletes: 1})
	appends(bucketRemoved, "remove an old bucket", one)
	appends(hintAhead, "raise the hint before the bucket exists", one)
	appends(counterAndPush, "a counter and a push", one)
	appends(refusalIsLook, "go on from what refused a push, whatever its last", one)

	rehydrates := func(is mutation, name string, m rehydration) {
		m.mutation = is
		all = append(all, shortcut{is, name, search(&m)})
	}
	near := rehydration{messages: 1, top: 3, horizons: []int8{0, 1}, logins: 1}
	with := func(change func(*rehydration)) rehydration {
		m := near
		change(&m)
		return m
	}
	twice := with(func(m *rehydration) { m.logins = 2 })
	limited := with(func(m *rehydration) { m.messages, m.limit = 2, 1 })
	limitedTwice := with(func(m *rehydration) { m.messages, m.limit, m.logins = 2, 1, 2 })
	behind := with(func(m *rehydration) {
		m.messages, m.limit, m.gap, m.horizons, m.top, m.logins = 2, 1, true, []int8{3}, 4, 0
	})
	rehydrates(raiseWithoutDebt, "raise the horizon of an active user without a debt", near)
	rehydrates(twoUpdates, "raise the horizon and leave the debt in two updates", near)
	rehydrates(overwrittenFrom, "let a second login overwrite from", twice)
	rehydrates(horizonLowered, "a horizon stored without max", with(func(m *rehydration) { *m = limitedTwice; m.horizons = []int8{3} }))
	rehydrates(computedRaised, "compute the horizon, and raise dormant_after", near)
	rehydrates(computedLowered, "compute the horizon, and lower dormant_after",
		with(func(m *rehydration) { *m = limited; m.horizons, m.top = []int8{3}, 5 }))
	rehydrates(voidRaised, "void by today's slack, raised", near)
	rehydrates(voidLowered, "void by today's slack, lowered", limited)
	rehydrates(sweepFromClock, "a sweep from a clock", near)
	rehydrates(sweepFromHorizon, "a sweep from the horizon", near)
	rehydrates(overwrittenSweep, "let a second rehydration overwrite the sweep", twice)
	rehydrates(noSweep, "no sweep", near)
	rehydrates(endByClock, "end rebuild and sweep by a clock", near)
	rehydrates(sweepEndsByClock, "end the sweep by a clock", near)
	rehydrates(limitedSweep, "the limit applied to the sweep", limited)
	rehydrates(noRecount, "a sweep that does not count the gaps", with(func(m *rehydration) { *m = limited; m.messages = 3 }))
	rehydrates(workersCount, "workers count instead of owing a sweep", with(func(m *rehydration) { *m = behind; m.messages = 3 }))
	rehydrates(tokenKeptByRaise, "a raise that leaves the token to a sweep", twice)
	rehydrates(tokenKeptByGap, "a debt for a gap that leaves the token to a sweep", with(func(m *rehydration) { *m = behind; m.logins = 1 }))
	rehydrates(endsByBounds, "end a sweep by its bounds instead of its token", with(func(m *rehydration) { *m = behind; m.messages = 3 }))
	rehydrates(tokenReused, "a token for two rehydrations", with(func(m *rehydration) { *m = limitedTwice; m.takeovers = 1 }))
	rehydrates(noToken, "remove mark or sweep without checking the token", twice)
	rehydrates(noDebtForGap, "leave a message in a gap without a debt", behind)
	rehydrates(noDebtByFollow, "a follow that leaves a message in a gap without a debt",
		with(func(m *rehydration) { *m = behind; m.edges = true }))
	rehydrates(overwrittenByDebt, "a debt for a gap that overwrites the sweep", with(func(m *rehydration) { *m = limitedTwice; m.messages = 3 }))
	rehydrates(gapsDelivered, "deliver into a gap", behind)
	rehydrates(gapForgotten, "a limit without a recorded gap", limited)
	rehydrates(gapAboveInbox, "append beyond the horizon, and begin a gap above the inbox",
		with(func(m *rehydration) { *m = limitedTwice; m.stalls = true }))
	rehydrates(boundedTwice, "apply the limit again after a takeover", with(func(m *rehydration) { *m = limited; m.takeovers = 1 }))
	rehydrates(beyondHorizon, "append beyond the horizon", limitedTwice)
	rehydrates(completeByMark, "complete without a look at the sweep", near)
	rehydrates(sweepLikeMark, "treat a sweep like a mark in fan-out", near)
	rehydrates(neitherInclusive, "neither side inclusive", near)
	rehydrates(bothInclusive, "both sides inclusive", limited)
	rehydrates(staleRead, "a stale read before a skip", near)
	rehydrates(stateReadFirst, "a record that was read before the message was stored", near)
	rehydrates(edgesReadFirst, "edges that were read before the message was stored", with(func(m *rehydration) { m.edges, m.logins = true, 0 }))
	rehydrates(cutIgnored, "record the number of a gap that was cut meanwhile", with(func(m *rehydration) { *m = behind; m.cuts = 1 }))
	rehydrates(cutUncounted, "end a sweep that has counted a gap before it was cut", with(func(m *rehydration) { *m = behind; m.cuts = 1 }))
	rehydrates(cutWithoutCompare, "cut a gap without comparing the record", with(func(m *rehydration) { *m = behind; m.cuts = 1 }))
	rehydrates(boundUncut, "record a gap with what has expired meanwhile", with(func(m *rehydration) { *m = limited; m.cuts = 1 }))
	rehydrates(edgeOnly, "a follow that only writes the edge", with(func(m *rehydration) { m.edges, m.logins = true, 0 }))
	rehydrates(repeatedBriefly, "a repeated follow that catches up only with what was sent soon after the span began",
		with(func(m *rehydration) { m.edges, m.horizons, m.logins, m.crashes = true, []int8{3}, 0, 1 }))

	quick := with(func(m *rehydration) { m.quick = true })
	quickBehind := with(func(m *rehydration) { *m = behind; m.limit, m.logins, m.quick = 0, 1, true })
	rehydrates(quickEndOfOlder, "end at once a sweep that was there before the raise", quickBehind)
	rehydrates(quickEndWithoutToken, "end the sweep of a raise at once without its token", with(func(m *rehydration) { *m = twice; m.quick = true }))
	rehydrates(quickEndByBounds, "end the sweep of a raise at once by its bounds, although the count of a gap is owed", quickBehind)
	rehydrates(lookFromHorizon, "end the sweep of a raise at once after a look from the new horizon", quick)
	rehydrates(lookBeforeRaise, "end the sweep of a raise at once after a look before the raise", quick)
	rehydrates(storedBeforeCeiling, "store a message before the ceiling is raised", quick)
	rehydrates(ceilingReadFirst, "join a read of the ceiling that began before the horizon was raised", quick)
	rehydrates(ceilingFallsBack, "raise the ceiling with a write that may be lost", quick)
	rehydrates(ceilingKnownAbove, "remember a ceiling above the one that is stored", quick)

	scans := func(is mutation, name string, m scanning) {
		m.mutation = is
		all = append(all, shortcut{is, name, search(&m)})
	}
	quiet := scanning{owners: 3, batch: 2}
	rough := scanning{owners: 3, batch: 2, repeats: 1, crashes: 1}
	scans(emitFirst, "emit the continuation, then record, without compare-and-set", quiet)
	scans(startInTask, "keep start in the task only", rough)
	scans(plainStrings, "compare positions as plain strings", quiet)
	scans(plainRecord, "record without compare-and-set", rough)
	scans(newOnly, "count only new pushes", rough)
	ahead := scanning{owners: 3, batch: 2, heads: 1}
	scans(headCounts, "a head start that counts its recipient", ahead)
	scans(headRecords, "a head start that records how far it came", ahead)
	missing := scanning{owners: 3, batch: 2, misses: 1}
	scans(arcForgotten, "move past an owner who cannot be reached, without a note", missing)
	scans(missIsSkip, "count an owner who cannot be reached as skipped", missing)
	scans(othersCount, "a batch that misses an owner counts its others", missing)
	missing.misses = 2
	scans(arcReplaced, "an arc that replaces an earlier one", missing)
	missing.owners = 4 // so that the scan is not back at once
	scans(sinceKept, "an arc that becomes longer and keeps the counts behind it", missing)
	return slices.Concat(all, retainShortcuts(), concludeShortcuts(), lowWaterShortcuts(), unlinkShortcuts(), blockShortcuts(), claimShortcuts(), closeShortcuts(), flagShortcuts(), streamShortcuts(),
		tallyShortcuts(), tableShortcuts())
}

// search returns a function that explores a model.
func search[S comparable](m model[S]) func() outcome { return func() outcome { return explore(m) } }

// searchToTheEnd is search, and looks for runs that need not end.
func searchToTheEnd[S comparable](m model[S]) func() outcome {
	return func() outcome { return exploreToTheEnd(m) }
}
