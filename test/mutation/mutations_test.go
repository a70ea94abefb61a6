package mutation_test

import "slices"

// edit replaces a text that stands in a file exactly once.
type edit struct{ file, old, new string }

// mutation is a reasonable shortcut as a change of the code, and the test that has to fail with it.
type mutation struct {
	name string
	// trap is what goes wrong with it.
	trap  string
	edits []edit
	// pkg and run are the test that catches it.
	pkg, run string
}

const (
	appendGo       = "pkg/bucket/append.go"
	pendingGo      = "pkg/bucket/pending.go"
	repairGo       = "pkg/bucket/repair.go"
	mendGo         = "pkg/bucket/mend.go"
	pushGo         = "internal/pebblestore/push.go"
	lowerGo        = "internal/pebblestore/lower.go"
	tailsGo        = "internal/pebblestore/tails.go"
	batchGo        = "internal/fanout/batch.go"
	fanoutAppendGo = "internal/fanout/append.go"
	scanGo         = "internal/fanout/scan.go"
	declareGo      = "internal/natsbus/declare.go"

	suite    = "./internal/storetest/buckettest"
	pebble   = "./internal/pebblestore"
	fanout   = "./internal/fanout"
	bus      = "./internal/natsbus"
	pipeline = "./test/statemachine"

	suiteTraps    = "^TestModel$/^Append$/avoids_the_trap_of"
	suiteCursor   = "^TestModel$/^Pages$/^below_a_cursor"
	pebbleLower   = "^TestConformance$/^Inbox$/^Lower$"
	pebblePush    = "^TestConformance$/^Inbox$/^Push$"
	pebbleDeletes = "^TestConformance$/^Inbox$/^Delete"
)

// mutations are the shortcuts that this code could take. README.md lists those that it cannot, and why.
func mutations() []mutation {
	return slices.Concat(appending(), sizing(), fanningOut(), reading(), rehydrating(), repairing(), condemning(), recounting(), agreeing(), panicking(), ofCandidates(), ofTheWalk(), headStarting(), bounding(), holding(), damaging(), expiring(), emptying(), trimming(), trimmingInboxes(), keeping(), givingUp(), lowering(), collecting(), concluding(), addressing(), publishing(), claiming(), topics(), closing(), declaring(), counting(), serving())
}

func repairing() []mutation {
	return []mutation{
		{
			name: "creating a bucket whatever its floor", trap: "two creators believe in two floors: what comes late is not marked",
			edits: []edit{{pushGo, "held || floor != push.Floor {", "held || floor != push.Floor && false {"}},
			pkg:   pebble, run: pebblePush,
		},
		{
			name: "trusting the bucket in a cursor", trap: "floors were lowered since: a page lacks what came after the cursor was made",
			edits: []edit{{"pkg/bucket/page.go", "if !tooHigh && !tooLow {", "if !tooHigh || !tooLow {"}},
			pkg:   suite, run: suiteCursor,
		},
		{
			name: "placing a cursor only if its bucket is too low", trap: "a made-up cursor reads every bucket of the inbox",
			edits: []edit{{"pkg/bucket/page.go", "if !tooHigh && !tooLow {", "if _ = tooHigh; !tooLow {"}},
			pkg:   "./pkg/bucket", run: "^TestForgedCursorCosts$",
		},
		{
			name: "merging whatever was read before again", trap: "a page that has to read many buckets costs their square",
			edits: []edit{{"pkg/bucket/page.go", "r.newest = r.merged(r.newest, added, r.Limit+1)", "r.newest = r.merged(r.newest, added, 1<<30)"}},
			pkg:   "./pkg/bucket", run: "^TestPageMergesEachBucketOnce$",
		},
		{
			name: "counting every tombstone above the read mark", trap: "a healed mark counts the slot of a message from the future as read, and its tombstone too: unread is too low",
			edits: []edit{{"pkg/bucket/inbox.go", "if t.Sequence >= mark.Sequence && (above", "if t.Sequence >= 0 && (above"}},
			pkg:   "./pkg/bucket", run: "^TestTombstoneBelowTheReadMark$",
		},
		{
			name: "lowering bounds whatever they are", trap: "bounds that another process has changed since fall below an id",
			edits: []edit{{lowerGo, " || lowest.floor != as.Floor || highest.last != as.Last {", " {"}},
			pkg:   pebble, run: pebbleLower,
		},
		{
			name: "lowering bounds whatever the slots", trap: "a message was pushed since: last falls below it",
			edits: []edit{{lowerGo, "slot+1 != as.Slots() || ", "slot < 0 || "}},
			pkg:   pebble, run: pebbleLower,
		},
		{
			name: "setting both bounds instead of lowering each", trap: "a floor rises over an entry that is not marked late",
			edits: []edit{{repairGo, "if o.Floor.Less(floor) {", "if o.Floor.Less(floor) && false {"}},
			pkg:   pebble, run: pebbleLower,
		},
		{
			name: "a tail that outlives the bounds", trap: "the next push raises last again",
			edits: []edit{{lowerGo, "	s.tails.shards[s.lockOf(owner)].forget(owner)", "	//"}},
			pkg:   pebble, run: pebbleLower,
		},
		{
			name: "last from live entries only", trap: "last falls below a tombstone: the deleted message comes back",
			edits: []edit{{repairGo, "range []bool{false, true} {", "range []bool{false} {"}},
			pkg:   "./pkg/bucket", run: "^TestRepair$",
		},
		{
			name: "continuing from a bucket that was read with room", trap: "it fills, and the floor of the next one falls below what filled it",
			edits: []edit{{repairGo, "			r.done.Lowered++\n			return sequence, high, b.Full(), nil", "			r.done.Lowered++\n			return sequence, high, true, nil"}},
			pkg:   "./pkg/bucket", run: "^TestRepairBesideAWriter$",
		},
		{
			name: "the greatest id of the bucket below alone", trap: "the floor falls below an id in an earlier bucket",
			edits: []edit{{repairGo, "	high = least\n", "	high = message.ID{}\n"}},
			pkg:   "./pkg/bucket", run: "^TestRepair$",
		},
		{
			name: "lowering last first, and the floor later", trap: "a new bucket gets a floor below that of the bucket before",
			edits: []edit{{repairGo, "		applied, err := r.store.Lower(ctx, r.owner, b.Outline(), below, high)\n", `		as := b.Outline()
		applied, err := r.store.Lower(ctx, r.owner, as, as.Floor, high)
		if err == nil && applied {
			_, as.Last = as.Lowered(as.Floor, high)
			applied, err = r.store.Lower(ctx, r.owner, as, below, high)
		}
`}},
			pkg: "./pkg/bucket", run: "^TestRepairBesideAWriter$",
		},
		{
			name: "lowering bounds before the tombstone", trap: "they do not cover an entry that is shown: a page lacks it",
			edits: []edit{
				{repairGo, "		if gone, err := r.deleteVoid(ctx, sequence, live); err != nil {", "		if gone, err := r.deleteVoid(ctx, sequence, nil); err != nil {"},
				{repairGo, "			r.done.Lowered++\n", "			r.done.Lowered++\n			if _, err := r.deleteVoid(ctx, sequence, live); err != nil {\n				return below, false, err\n			}\n"},
			},
			pkg: "./pkg/bucket", run: "^TestRepairOrder$",
		},
		{
			name: "continuing after an update that was refused", trap: "the bucket has got a message since: the next floor falls below it",
			edits: []edit{{repairGo, "		if applied {\n			r.done", "		if !applied {\n			return high, true, nil\n		}\n		if applied {\n			r.done"}},
			pkg:   "./pkg/bucket", run: "^TestRepairBesideAWriter$",
		},
		{
			name: "mending a read mark while a message from the future is live", trap: "it was read, and is unread again",
			edits: []edit{{mendGo, "if err != nil || len(live) > 0 {", "if err != nil || len(live) < 0 {"}},
			pkg:   "./pkg/bucket", run: "^TestMendedReadMark",
		},
		{
			name: "mending a read mark without its gaps", trap: "the messages in the gap were read, and are unread again",
			edits: []edit{{mendGo, "ReadMark{UpTo: inGaps, ", "ReadMark{"}},
			pkg:   "./pkg/bucket", run: "^TestMendedReadMark$",
		},
		{
			name: "mending a read mark up to an unread message", trap: "it becomes read",
			edits: []edit{{mendGo, "return mark.UpTo.Less(e.ID) })", "return mark.UpTo.Less(e.ID) && false })"}},
			pkg:   "./pkg/bucket", run: "^TestMendedReadMark$",
		},
		{
			name: "a read mark that falls beside another one is damage", trap: "a request fails although nothing is damaged",
			edits: []edit{{markReadGo, "err != nil || upTo.Less(stored.UpTo) || stored.Covers(mark) {", "err == nil && !mark.Covers(stored) {\n			err = message.ErrCorrupt\n		}\n		if err != nil || upTo.Less(stored.UpTo) || stored.Covers(mark) {"}},
			pkg:   "./internal/inbox", run: "^TestReadMarkBesideAMendedOne$",
		},
	}
}

func sizing() []mutation {
	return []mutation{
		{
			name: "the capacity of the process instead of the bucket's", trap: "a full bucket seems to have room, and one with room to be full: twice",
			edits: []edit{{pendingGo, "	if seen.Slots >= seen.Cap {", "	seen.Cap = p.capacity\n	if seen.Slots >= seen.Cap {"}},
			pkg:   suite, run: suiteTraps,
		},
		{
			name: "a push without a capacity", trap: "slots are compared with the capacity that the pusher believes: a full bucket gets an entry",
			edits: []edit{{pushGo, "if named != capacity {", "if capacity = named; false {"}},
			pkg:   pebble, run: pebblePush,
		},
		{
			name: "a base that the creator believes", trap: "slot numbers are missing, or there twice",
			edits: []edit{{pendingGo, "Base: seen.Base + int64(seen.Cap)}", "Base: int64(p.capacity) * int64(sequence+1)}"}},
			pkg:   suite, run: suiteTraps,
		},
		{
			name: "a base by the capacity of the creator", trap: "the same",
			edits: []edit{{pendingGo, "Base: seen.Base + int64(seen.Cap)}", "Base: seen.Base + int64(p.capacity)}"}},
			pkg:   suite, run: suiteTraps,
		},
		{
			name: "a tail that forgets the capacity", trap: "a bucket of another size takes as many entries as one of the format",
			edits: []edit{{tailsGo, "		capacity: onto.size.capacity,", "		//"}},
			pkg:   pebble, run: "^TestConformance$/^Inbox$/^(Push|Sizes)$",
		},
		{
			name: "the position of a tombstone by its bucket", trap: "unread is wrong where buckets have other sizes",
			edits: []edit{{"internal/pebblestore/deletions.go", "if t.Position != (size{}).position(t.Sequence, t.Slot) {", "if t.Position < 0 {"}},
			pkg:   pebble, run: "^TestConformance$/^Inbox$/^(Sizes|Pages)$",
		},
	}
}

func appending() []mutation {
	return []mutation{
		{
			name: "a time instead of the floor", trap: "the clocks of publisher and worker decide: twice",
			edits: []edit{{pendingGo, "	push.Owner, push.Cap = p.owner, onto.Cap\n", `	push.Owner, push.Cap = p.owner, onto.Cap
	if push.Create {
		push.Floor = message.MinID(p.entries[0].Sent())
	}
`}},
			pkg: suite, run: suiteTraps,
		},
		{
			name: "one time for a whole batch", trap: "the same with perfect clocks",
			edits: []edit{{pendingGo, "	push.Owner, push.Cap = p.owner, onto.Cap\n", `	push.Owner, push.Cap = p.owner, onto.Cap
	if push.Create {
		push.Floor = message.MinID(p.entries[len(p.entries)-1].Sent())
	}
`}},
			pkg: suite, run: suiteTraps,
		},
		{
			name: "looking below before the head", trap: "a bucket is read with a free slot, fills with the message, and the next one appears without it: twice",
			edits: []edit{
				{appendGo, "	heads, err := a.store.Heads(ctx, refs)\n", `	early := make(map[message.UserID][]Bucket)
	for _, ref := range refs {
		early[ref.Owner], _ = a.store.Range(ctx, ref.Owner, 0, 1<<31, 1<<20)
	}
	heads, err := a.store.Heads(ctx, refs)
`},
				{appendGo, `		if err := a.lookBelow(ctx, p, head); err != nil {
			if errors.Is(err, message.ErrCorrupt) {
				p.result.Err = err
				continue
			}
			return err
		}
`, `		for _, b := range early[p.owner] {
			if b.Sequence < head.Sequence {
				p.drop(b.Outline())
			}
		}
`},
			},
			pkg: suite, run: suiteTraps,
		},
		{
			name: "looking below only if the head is not full", trap: "a bucket that the filter left out is never seen: twice",
			edits: []edit{{appendGo, "if err := a.lookBelow(ctx, p, head); err != nil {", "if len(head.IDs) >= head.Cap {\n		} else if err := a.lookBelow(ctx, p, head); err != nil {"}},
			pkg:   suite, run: suiteTraps,
		},
		{
			name: "a new bucket without its predecessor's last", trap: "last falls, and the next look stops too early",
			edits: []edit{{pendingGo, "Create: true, Floor: seen.Last, Base", "Create: true, Base"}},
			pkg:   suite, run: suiteTraps,
		},
		{
			name: "a store that forgets the predecessor's last", trap: "last falls, and the next look stops too early",
			edits: []edit{{pushGo, "onto = state{last: push.Floor, floor: push.Floor,", "onto = state{floor: push.Floor,"}},
			pkg:   pebble, run: pebblePush,
		},
		{
			name: "all or nothing of several messages", trap: "a head with room for fewer: livelock",
			edits: []edit{{pendingGo, "push.Entries = p.entries[:min(room, len(p.entries))]", "push.Entries = p.entries"}},
			pkg:   suite, run: suiteTraps,
		},
		{
			name: "comparing the newest of several messages with the floor", trap: "the oldest is delivered twice",
			edits: []edit{{pushGo, "	least := push.Entries[0].ID\n", "	least := push.Entries[len(push.Entries)-1].ID\n"}},
			pkg:   pebble, run: pebblePush,
		},
		{
			name: "deleting without a tombstone", trap: "the next redelivery brings it back",
			edits: []edit{{"internal/pebblestore/deletions.go", "		r.toTombstone()\n		if err", "		r.toTombstone()\n		r.id = message.ID{}\n		if err"}},
			pkg:   pebble, run: pebbleDeletes,
		},
		{
			name: "raising the hint before the bucket exists", trap: "a hint is ahead: a gap, or twice",
			edits: []edit{{appendGo, "	outcomes, err := a.store.Push(ctx, pushes)\n", `	for _, p := range pushes {
		if p.Create {
			if err := a.hints.RaiseHeads(ctx, []Head{{Owner: p.Owner, Hint: Hint{Sequence: p.Sequence, Floor: p.Floor}}}); err != nil {
				return err
			}
		}
	}
	outcomes, err := a.store.Push(ctx, pushes)
`}},
			pkg: suite, run: suiteTraps,
		},
		{
			name: "an append that is not persisted", trap: "what was acknowledged is lost in a crash",
			edits: []edit{{appendGo, "	if err := a.store.Persist(ctx); err != nil {", "	if err := ctx.Err(); err != nil {"}},
			pkg:   pebble, run: "^TestCrashWhileAppending$",
		},
		{
			name: "going on from a refusal whatever was seen", trap: "a message in a bucket below is not looked for: twice",
			edits: []edit{{pendingGo, "seen.Slots > 0 && seen.Last.Less(p.entries[0].ID):", "seen.Slots > 0:"}},
			pkg:   suite, run: suiteTraps,
		},
		{
			name: "pushing without a look at what is there", trap: "the classic recipe, a counter and a push: a retry delivers twice",
			edits: []edit{{pushGo, "err != nil || held {", "err != nil || held && push.Guard {"}},
			pkg:   pebble, run: pebblePush,
		},
	}
}

func fanningOut() []mutation {
	return []mutation{
		{
			name: "emitting before recording", trap: "done goes back to not done",
			edits: []edit{{batchGo, `	if err := b.record(ctx); err != nil {
		return nil, err
	}
	if err := b.emit(ctx); err != nil {
		return nil, err
	}
`, `	for i, j := range b.moved {
		if !b.steps[i].To.Done {
			b.continuations = append(b.continuations, continuation(j.task))
		}
	}
	if err := b.emit(ctx); err != nil {
		return nil, err
	}
	if err := b.record(ctx); err != nil {
		return nil, err
	}
`}},
			pkg: fanout, run: "^TestBatchGoesInOrder$",
		},
		{
			name: "a record without compare-and-set", trap: "two deliveries start at different owners, and the loser comes back to its own start: owners are never handled",
			edits: []edit{{"internal/pebblestore/progress.go", "!stored.Same(step.From) {", "stored.Done {"}},
			pkg:   fanout, run: "^(TestScanHasOneStart|TestCountsAreExactWithTwoWorkers)$",
		},
		{
			name: "positions compared as plain strings", trap: "forward is wrong after the end",
			edits: []edit{{"internal/progress/progress.go", "return recipient > s.At || recipient <= s.Start", "return recipient > s.At"}},
			pkg:   fanout, run: "^TestScan",
		},
		{
			name: "the end of a round compared as plain strings", trap: "forward is wrong after the end",
			edits: []edit{{"internal/progress/progress.go", "return recipient > s.At && recipient <= s.Start", "return recipient > s.At"}},
			pkg:   fanout, run: "^TestScan",
		},
		{
			name: "joining at a range that was read before", trap: "whoever followed in between misses the message",
			edits: []edit{
				{scanGo, `import (
	"context"
`, `import (
	"context"
	"fmt"
	"sync"
`},
				{scanGo, "func (b *batch) followers(", `var remembered sync.Map

func (b *batch) followers(`},
				{scanGo, "		edges, err := b.deliverer.stores.Edges.Followers(ctx, source, b.partition, after, limit)\n", `		key := fmt.Sprintf("%p %s %d %s %d", b.deliverer, source, b.partition, after, limit)
		var edges []follow.Edge
		var err error
		if known, ok := remembered.Load(key); ok {
			edges = known.([]follow.Edge)
		} else {
			edges, err = b.deliverer.stores.Edges.Followers(ctx, source, b.partition, after, limit)
			remembered.Store(key, edges)
		}
`},
			},
			pkg: fanout, run: "^TestScanJoinsAtARangeReadAfterwards$",
		},
		{
			name: "recording although a chunk failed", trap: "a chunk that could not be appended is passed: its owners are never handled",
			edits: []edit{{fanoutAppendGo, "if failed := group.Wait(); failed != nil {", "if failed := group.Wait(); failed != nil && false {"}},
			pkg:   fanout, run: "^(TestFailuresAreTriedAgain|TestCountsAreExactAfterADeath)$",
		},
		{
			name: "counting only new entries", trap: "counts do not add up after a redelivery",
			edits: []edit{{fanoutAppendGo, "if j.recorded.Ahead(call.appends[i].Owner) {", "if result.New > 0 && j.recorded.Ahead(call.appends[i].Owner) {"}},
			pkg:   fanout, run: "^(TestFoundCountsAsDelivered|TestCountsAreExactAfterADeath)$",
		},
		{
			name: "counting what a record counts already", trap: "counts do not add up after a redelivery",
			edits: []edit{{fanoutAppendGo, "if j.recorded.Ahead(call.appends[i].Owner) {", "if true {"}},
			pkg:   fanout, run: "^TestLaneChangesUnderWay$",
		},
		{
			name: "a follow that only writes the edge", trap: "the message passed between the beginning of the span and its becoming visible: nobody delivers it",
			edits: []edit{{"internal/following/following.go", "}).run(ctx, edges)", "}).run(ctx, edges[:0])"}},
			pkg:   "./internal/following", run: "^TestFollow",
		},
		{
			name: "slices of so many recipients per task", trap: "two audiences drift apart and never share a write again",
			edits: []edit{{batchGo, `	if err := b.advance(ctx, scanning); err != nil {
		return nil, err
	}
`, `	for _, j := range scanning {
		if err := b.advance(ctx, []*job{j}); err != nil {
			return nil, err
		}
	}
`}},
			pkg: fanout, run: "^(TestAudiencesOfDifferentSizesStayTogether|TestBatchPushesOnce)$",
		},
		{
			name: "as many unacknowledged tasks as a batch takes", trap: "a sliding window: the next task is handed out to somebody else",
			edits: []edit{{declareGo, "MaxAckPending: 1,", "MaxAckPending: 8,"}},
			pkg:   fanout, run: "^TestOneBatchOfAPartitionAtATime$",
		},
		{
			name: "a lease that is not extended", trap: "what is being worked on is handed out again",
			edits: []edit{{"internal/natsbus/held.go", "h.bus.nc.Publish(h.msg.Reply, ackExtend)", "error(nil)"}},
			pkg:   bus, run: "^TestExtendKeepsTheLease$",
		},
		{
			name: "overlapping filters on a work queue", trap: "refused by the server (10100)",
			edits: []edit{{declareGo, "FilterSubject: taskSubject(lane, partition),", `FilterSubject: fanoutPrefix + "*.*",`}},
			pkg:   bus, run: "^TestOneHolderPerLaneAndPartition$",
		},
		{
			name: "acknowledging all up to a task", trap: "refused by the server on a work queue (10098)",
			edits: []edit{{
				declareGo, "FilterSubject: taskSubject(lane, partition),\n		AckPolicy:     jetstream.AckExplicitPolicy,",
				"FilterSubject: taskSubject(lane, partition),\n		AckPolicy:     jetstream.AckAllPolicy,",
			}},
			pkg: bus, run: "^TestOneHolderPerLaneAndPartition$",
		},
		{
			name: "dormancy by the worker's clock", trap: "a message that is late is skipped, and too old to be found later: lost",
			edits: []edit{{fanoutAppendGo, "b.rules.Deliver(state, sent)", "b.rules.Deliver(state, b.deliverer.opts.Now())"}},
			pkg:   fanout, run: "^TestHorizonDecides$",
		},
		{
			name: "removing before recording", trap: "a crash in between loses the task, until the sweep",
			edits: []edit{{"internal/fanout/worker.go", "	var postponed map[uint64]bool\n", `	if err := held.Remove(ctx, tasks[1:]); err != nil {
		return err
	}
	var postponed map[uint64]bool
`}},
			pkg: fanout, run: "^TestBatchGoesInOrder$",
		},
		{
			name: "waiting for room on the bus", trap: "everybody who could make room waits for it: ten seconds a batch",
			edits: []edit{{"internal/fanout/retry.go", "		return Continue\n", "		return Retry\n"}},
			pkg:   fanout, run: "^TestNothingIsLostWhereTheBusIsFull$",
		},
		{
			name: "staying with an event until it is routed", trap: "one that never is keeps the router, and then the next one, from all others",
			edits: []edit{{"internal/fanout/router.go", `Continue, "route"`, `Retry, "route"`}},
			pkg:   fanout, run: "^TestEventThatCannotBeRoutedMakesWay$",
		},
		{
			name: "filing a task again with each repetition of its batch", trap: "the dead letters fill up with copies, and hide the others",
			edits: []edit{{"internal/fanout/deadletter.go", "!d.letters.Contains(key) {", "!d.letters.Contains(key) || true {"}},
			pkg:   fanout, run: "^TestDeadLetterIsFiledOnce$",
		},
		{
			name: "a follow that only writes the edge, at random", trap: "nobody delivers what passed",
			edits: []edit{{"internal/following/following.go", "}).run(ctx, edges)", "}).run(ctx, edges[:0])"}},
			pkg:   pipeline, run: "^TestPipeline$",
		},
		{
			name: "counting only new entries, at random", trap: "counts do not add up after a redelivery",
			edits: []edit{{fanoutAppendGo, "if j.recorded.Ahead(call.appends[i].Owner) {", "if result.New > 0 && j.recorded.Ahead(call.appends[i].Owner) {"}},
			pkg:   pipeline, run: "^TestPipeline$",
		},
		{
			name: "the end of a round compared as plain strings, at random", trap: "owners are counted twice",
			edits: []edit{{"internal/progress/progress.go", "return recipient > s.At && recipient <= s.Start", "return recipient > s.At"}},
			pkg:   pipeline, run: "^TestPipeline$",
		},
	}
}
