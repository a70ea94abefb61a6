package mutation_test

const (
	stretchGo      = "internal/pebblestore/stretch.go"
	reservationsGo = "internal/pebblestore/reservations.go"
)

// tabling are the shortcuts of large pushes, which the embedded store writes as tables past the log.
func tabling() []mutation {
	const (
		reserve = "	if err := s.reserve(ctx, f.owners); err != nil {\n"
		synced  = "	synced := s.db.beginSync() //"
	)
	return []mutation{
		{
			name: "a table without a sync of the log", trap: "after a crash an entry of the table is above a slot that is empty",
			edits: []edit{{stretchGo, synced, "	synced := func() {} //"}},
			pkg:   pebble, run: "^TestCrashAfterTables$",
		},
		{
			name: "a sync that begins before the owners of a table are taken", trap: "an owner gets a record in between: the same",
			edits: []edit{{stretchGo, reserve, "	synced := s.db.beginSync()\n" + reserve}, {stretchGo, synced + " not", "	// not"}},
			pkg:   pebble, run: "^TestCrashAfterTables$",
		},
		{
			name: "a sync of the log that is awaited after the tables", trap: "a crash between leaves the same",
			edits: []edit{{stretchGo, "	synced()\n", "	defer synced()\n"}},
			pkg:   pebble, run: "^TestTablesWaitForTheLog$",
		},
		{
			name: "a table whose owners are not held", trap: "a direct message gets the slot of the table's entry: one of them is lost",
			edits: []edit{{reservationsGo, "	lists := r.lists\n", "	lists := r.lists[:0]\n"}},
			pkg:   pebble, run: "^TestReservation$",
		},
		{
			name: "who waits for a table is not woken", trap: "a direct message waits until its context ends",
			edits: []edit{{reservationsGo, "		close(r.released)\n", ""}},
			pkg:   pebble, run: "^TestReservation$",
		},
		{
			name: "a late entry in a table without its mark", trap: "a retry does not find it: twice",
			edits: []edit{
				{pushGo, "(push.Entries[0].Deleted || onto.late(push))", "push.Entries[0].Deleted"},
				{pushGo, "	if !onto.late(push) {", "	if p.tables != nil || !onto.late(push) {"},
			},
			pkg: pebble, run: "^TestStretchWithRecords$",
		},
		{
			name: "tails that a failed table has left", trap: "the next entry goes above a slot that is empty",
			edits: []edit{{stretchGo, "s.release(f.owners, applied)", "s.release(f.owners, true)"}},
			pkg:   pebble, run: "^TestTablesFail$",
		},
		{
			name: "a checkpoint beside tables", trap: "it has an entry of the log above one in a table that it lacks",
			edits: []edit{{"internal/pebblestore/checkpoint.go", "	db.ingesting.Lock()\n	defer db.ingesting.Unlock()\n", ""}},
			pkg:   pebble, run: "^TestCheckpointBesideTables$",
		},
		{
			name: "tables that overlap in one call", trap: "the engine refuses them all",
			edits: []edit{{"internal/pebblestore/intake.go", "		if overlaps(some, h) {", "		if false {"}},
			pkg:   pebble, run: "^TestIntake$",
		},
	}
}
