package main

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

	workersNow
	twoUpdates
	overwrittenFrom
	noSweep
	sweepFromSettling
	sweepWithoutSlack
	sweepWithoutTolerance
	sweepLikeMark
	waitForSweep
	noToken
	neitherInclusive
	bothInclusive
	staleRead
	noVoid
	judgedByValue
	putWithoutRehydration
	gapForgotten
	limitedSweep
	boundedTwice
	unsettledGap
	gapsDelivered
	beyondHorizon
	gapAboveInbox
	settledBeyondHorizon
	overwrittenSweep
	tokenReused
	lateUpdate
	lateStamp
	edgeOnly

	emitFirst
	startInTask
	plainStrings
	plainRecord
	newOnly

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
	near := rehydration{messages: 1, begin: 3, end: 4, dormant: 3, slack: 1, viewed: []int8{1}, logins: 1}
	with := func(change func(*rehydration)) rehydration {
		m := near
		change(&m)
		return m
	}
	twice := with(func(m *rehydration) { m.logins = 2 })
	stranger := with(func(m *rehydration) { m.viewed = []int8{0} })
	apartMore := with(func(m *rehydration) { m.late, m.viewed = 1, []int8{0} })
	limited := with(func(m *rehydration) { m.messages, m.limit, m.begin, m.viewed = 2, 1, 2, []int8{0} })
	slow := with(func(m *rehydration) { m.begin, m.end, m.past, m.logins = 6, 8, 5, 2 })
	slowLimited := with(func(m *rehydration) { m.messages, m.limit, m.late, m.begin, m.end, m.marked = 2, 1, 1, 7, 8, true })
	rehydrates(workersNow, "compare dormancy with the worker's now", with(func(m *rehydration) { m.end = 5 }))
	rehydrates(twoUpdates, "set last_viewed and the mark in two updates", near)
	rehydrates(overwrittenFrom, "let a second login overwrite from", twice)
	rehydrates(noSweep, "no sweep", near)
	rehydrates(sweepFromSettling, "a sweep from the time of settling", with(func(m *rehydration) { *m = stranger; m.end = 6 }))
	rehydrates(sweepWithoutSlack, "a sweep without publish_slack", apartMore)
	rehydrates(sweepWithoutTolerance, "a sweep without clock_tolerance", apartMore)
	rehydrates(sweepLikeMark, "treat a sweep like a mark in fan-out", near)
	rehydrates(waitForSweep, "a login that meets a sweep waits", with(func(m *rehydration) { m.begin, m.end, m.past, m.logins = 4, 5, 2, 2 }))
	rehydrates(noToken, "remove mark or sweep without checking the token", with(func(m *rehydration) { m.marked = true }))
	rehydrates(neitherInclusive, "neither side inclusive", near)
	rehydrates(bothInclusive, "both sides inclusive", with(func(m *rehydration) { *m = limited; m.begin, m.end, m.viewed = 5, 8, []int8{1} }))
	rehydrates(staleRead, "a stale read before a skip", near)
	rehydrates(noVoid, "a late insert that is not void", with(func(m *rehydration) { *m = stranger; m.end = 7 }))
	rehydrates(judgedByValue, "judge dormancy in PUT last_viewed by the value",
		with(func(m *rehydration) { m.begin, m.end, m.dormant, m.past = 5, 5, 4, 3 }))
	rehydrates(putWithoutRehydration, "PUT last_viewed without a rehydration", with(func(m *rehydration) { m.past = 1 }))
	rehydrates(gapForgotten, "a limit without a recorded gap", limited)
	rehydrates(limitedSweep, "the limit applied to the sweep", limited)
	rehydrates(boundedTwice, "apply the limit again after a takeover", with(func(m *rehydration) { *m = limited; m.takeovers = 1 }))
	rehydrates(unsettledGap, "a gap of what may still become visible", with(func(m *rehydration) { *m = limited; m.messages = 3 }))
	rehydrates(gapsDelivered, "deliver into a gap", limited)
	rehydrates(beyondHorizon, "append beyond the horizon", slowLimited)
	rehydrates(gapAboveInbox, "append beyond the horizon, and begin a gap above the inbox",
		with(func(m *rehydration) { *m = slowLimited; m.stalls = true }))
	rehydrates(settledBeyondHorizon, "settle beyond a horizon that has grown", with(func(m *rehydration) { *m = slow; m.viewed = []int8{0} }))
	rehydrates(overwrittenSweep, "let a second rehydration overwrite the sweep",
		with(func(m *rehydration) { *m = stranger; m.end, m.logins = 5, 2 }))
	rehydrates(tokenReused, "a token for two rehydrations", with(func(m *rehydration) { *m = slowLimited; m.marked, m.logins, m.takeovers = false, 2, 1 }))
	rehydrates(lateUpdate, "judge a login by a clock read long before its update",
		with(func(m *rehydration) { m.begin, m.end, m.dormant = 5, 5, 4 }))
	rehydrates(lateStamp, "a message visible long after the store's stamp", with(func(m *rehydration) { *m = apartMore; m.begin = 4 }))
	rehydrates(edgeOnly, "a follow that only writes the edge", with(func(m *rehydration) { m.edges, m.logins = true, 0 }))

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
	return all
}

// search returns a function that explores a model.
func search[S comparable](m model[S]) func() outcome { return func() outcome { return explore(m) } }
