package mutation_test

// ofTheWalk are the shortcuts of the walk over all users.
func ofTheWalk() []mutation {
	const (
		roundGo  = "internal/retention/round.go"
		walkerGo = "internal/retention/walker.go"
		pkg      = "./internal/retention"
	)
	return []mutation{
		{
			name: "taking a lease that is alive", trap: "all processes walk the same stretch",
			edits: []edit{{roundGo, "return r.Until.Before(now) ||", "return true ||"}},
			pkg:   pkg, run: "^TestRoundContinues$",
		},
		{
			name: "a lease of a clock that was ahead", trap: "no process walks until the time of that clock",
			edits: []edit{{roundGo, " || r.Until.After(now.Add(lease+tolerance))", ""}},
			pkg:   pkg, run: "^TestRoundOfAClockAhead$",
		},
		{
			name: "a round of a clock that was ahead", trap: "no round begins until the time of that clock",
			edits: []edit{{roundGo, " || r.Began.After(now.Add(tolerance))", ""}},
			pkg:   pkg, run: "^TestRoundOfAClockAhead$",
		},
		{
			name: "a walk that begins at the first user", trap: "where processes end often, the last users are never reached",
			edits: []edit{{roundGo, "	if r.Ended || r.Revision == 0 {\n		r = Round{", "	{\n		r = Round{"}},
			pkg:   pkg, run: "^TestRoundContinues$",
		},
		{
			name: "walking on after the lease was lost", trap: "two processes walk until the end of the round",
			edits: []edit{{walkerGo, "if r, taken, err = w.record(processing, r, reached.renewed(now)); err != nil || !taken {", "if _, _, err = w.record(processing, r, reached.renewed(now)); err != nil {"}},
			pkg:   pkg, run: "^TestRoundIsTaken$",
		},
		{
			name: "a user who fails stops the walk", trap: "one damaged record keeps all users behind it",
			edits: []edit{{walkerGo, "	case errors.Is(err, message.ErrCorrupt):\n		w.metrics", "	case errors.Is(err, message.ErrNotFound):\n		w.metrics"}},
			pkg:   pkg, run: "^TestDamageAndPanics$",
		},
		{
			name: "replacing the round without looking", trap: "a process that has lost its lease takes the round back",
			edits: []edit{{"internal/pebblestore/revised.go", "found != revision", "found < revision"}},
			pkg:   pebble, run: "^TestConformance$/^Walk$",
		},
	}
}
