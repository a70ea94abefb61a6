package mutation_test

const (
	bucketGo      = "pkg/bucket/bucket.go"
	emptyGo       = "pkg/bucket/empty.go"
	pebbleEmptyGo = "internal/pebblestore/empty.go"
	contentsGo    = "internal/audit/contents.go"

	suiteEmpty  = "^TestModel$/^Empty$"
	pebbleEmpty = "^TestConformance$/^Inbox$/^Empty$"
)

// emptying are the shortcuts of emptying buckets.
func emptying() []mutation {
	return []mutation{
		{
			name: "a look that finds nothing in a stub", trap: "what has expired is appended again",
			edits: []edit{{bucketGo, "o.Stub && !o.Last.Less(id) || slices", "slices"}},
			pkg:   suite, run: suiteEmpty,
		},
		{
			name: "a push onto a bucket that was removed", trap: "a stalled writer creates the bucket again: twice, or back",
			edits: []edit{{pushGo, "err != nil || push.Sequence < r.lowest {", "err != nil || r.lowest > 1<<31 {"}},
			pkg:   pebble, run: pebbleEmpty,
		},
		{
			name: "a removal without a record of it", trap: "the same",
			edits: []edit{{pebbleEmptyGo, "	return e.batch.Set(e.s.prefix(spaceRemoved, e.owner), now.encode(), nil)", "	_ = now\n	return nil"}},
			pkg:   pebble, run: pebbleEmpty,
		},
		{
			name: "a removal before the record of it", trap: "the same, after a crash in between",
			edits: []edit{{
				pebbleEmptyGo, "	return e.batch.Set(e.s.prefix(spaceRemoved, e.owner), now.encode(), nil)",
				"	if err := e.s.db.engine.Apply(e.batch, pebble.Sync); err != nil {\n		return err\n	}\n	e.batch = e.s.db.engine.NewBatch()\n	return e.batch.Set(e.s.prefix(spaceRemoved, e.owner), now.encode(), nil)",
			}},
			pkg: pebble, run: "^TestCrashWhileEmptying$",
		},
		{
			name: "a removal that is forgotten at the next start", trap: "the same, after a restart",
			edits: []edit{{pebbleEmptyGo, "s.removes.Store(it.First())", "it.First()"}},
			pkg:   pebble, run: pebbleEmpty,
		},
		{
			name: "entries that lose their ids", trap: "a stalled push appends the message again",
			edits: []edit{{pebbleEmptyGo, "		r.expire()\n", "		r.expire()\n		r.id, r.last = message.ID{}, r.last\n"}},
			pkg:   pebble, run: pebbleEmpty,
		},
		{
			name: "entries that are pulled from their slots", trap: "the same",
			edits: []edit{{pebbleEmptyGo, "e.batch.Set(it.Key(), r.appendTo(nil), nil)", "e.batch.Delete(it.Key(), nil)"}},
			pkg:   pebble, run: pebbleEmpty,
		},
		{
			name: "emptying a bucket by its own ids", trap: "its last is that of a message that has not expired: messages up to it count as delivered, and are lost",
			edits: []edit{{pebbleEmptyGo, "e.purged.Less(b.last), !above.lowest, e.purged.Less(above.floor):", "b.expired < b.live, !above.lowest:"}},
			pkg:   pebble, run: pebbleEmpty,
		},
		{
			name: "removing a bucket whatever the floor above it", trap: "an interrupted repair has left that floor too high: the same",
			edits: []edit{{pebbleEmptyGo, ", e.purged.Less(above.floor):", ":"}},
			pkg:   pebble, run: "^TestConformance$/^Inbox$/^Empty$/^of_a_bucket_that_is_being_repaired$",
		},
		{
			name: "tombstones that stay behind", trap: "the deletions of buckets that are gone count: the total is too low",
			edits: []edit{{pebbleEmptyGo, "encodeTotal(left-tombstones)", "encodeTotal(left)"}},
			pkg:   pebble, run: "^TestCrashWhileEmptying$",
		},
		{
			name: "a page that trusts the purge point that it read", trap: "a message is missing although the page says that it has not expired",
			edits: []edit{{pageGo, "if r.Above = greater(r.Above, b.Purged); b.Stub {", "if b.Stub && r.Limit < 0 {"}},
			pkg:   suite, run: suiteEmpty,
		},
		{
			name: "late messages that are not emptied", trap: "they stay until their bucket becomes a stub",
			edits: []edit{{emptyGo, "			e.late = append(e.late, b.Sequence)\n", "			_ = b\n"}},
			pkg:   suite, run: suiteEmpty,
		},
		{
			name: "beginning at bucket 0", trap: "each round reads all stubs",
			edits: []edit{{emptyGo, "if e.next, err = e.lowest(ctx, highest); err != nil {", "if err != nil {"}},
			pkg:   suite, run: suiteEmpty,
		},
		{
			name: "an audit that misses what was emptied", trap: "it repairs the inbox with messages that have expired",
			edits: []edit{{contentsGo, "l.expired = maxID(l.expired, b.Purged); b.Stub {", "b.Stub {"}},
			pkg:   "./internal/audit", run: "^TestEmptiedInbox$",
		},
	}
}
