package mutation_test

const (
	appendGo      = "pkg/bucket/append.go"
	pendingGo     = "pkg/bucket/pending.go"
	suiteTraps    = "^TestModel$/^Append$/avoids_the_trap_of"
	pebblePush    = "^TestConformance$/^log$/^Inbox$/^Push$"
	pebbleDeletes = "^TestConformance$/^log$/^Inbox$/^Delete"
)

// appending are the shortcuts of appending an entry exactly once.
func appending() []mutation {
	return []mutation{
		{
			name: "one append that names an entry twice", trap: "a message of which two events were taken: twice",
			edits: []edit{{pendingGo, "	if repeats(entries) {\n", "	if false {\n"}},
			pkg:   "./pkg/bucket", run: "^TestAppendOfARepeatedEntry$",
		},
		{
			name: "a time instead of the floor", trap: "the clocks of publisher and worker decide: twice",
			edits: []edit{{pendingGo, "	push.Owner, push.Sequence, push.Decl = p.owner, onto.Sequence, onto.Decl\n", `	push.Owner, push.Sequence, push.Decl = p.owner, onto.Sequence, onto.Decl
	if push.Create {
		push.Floor = message.MinID(p.entries[0].Sent())
	}
`}},
			pkg: suite, run: suiteTraps,
		},
		{
			name: "one time for a whole batch", trap: "the same with perfect clocks",
			edits: []edit{{pendingGo, "	push.Owner, push.Sequence, push.Decl = p.owner, onto.Sequence, onto.Decl\n", `	push.Owner, push.Sequence, push.Decl = p.owner, onto.Sequence, onto.Decl
	if push.Create {
		push.Floor = message.MinID(p.entries[len(p.entries)-1].Sent())
	}
`}},
			pkg: suite, run: suiteTraps,
		},
		{
			name: "looking below before the head", trap: "a bucket is read with a free slot, fills with the message, and the next one appears without it: twice",
			edits: []edit{
				{appendGo, "	heads, err := a.store.Heads(ctx, hints)\n", `	early := make(map[message.UserID][]Bucket)
	for _, h := range hints {
		early[h.Owner], _ = ReadSection(ctx, a.store, Section{Owner: h.Owner, High: 1 << 31}, NoFields)
	}
	heads, err := a.store.Heads(ctx, hints)
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
				p.drop(b)
			}
		}
`},
			},
			pkg: suite, run: suiteTraps,
		},
		{
			name: "looking below only if the head is not full", trap: "a bucket that the filter left out is never seen: twice",
			edits: []edit{{appendGo, "if err := a.lookBelow(ctx, p, head); err != nil {", "if head.Slots >= p.size {\n		} else if err := a.lookBelow(ctx, p, head); err != nil {"}},
			pkg:   suite, run: suiteTraps,
		},
		{
			name: "a new bucket without its predecessor's last", trap: "last falls, and the next look stops too early",
			edits: []edit{{pendingGo, "Floor: seen.Last, Last: seen.Last, Decl", "Decl"}},
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
