package mutation_test

// ofCandidates are the shortcuts of the set of candidates.
func ofCandidates() []mutation {
	const (
		viewersGo = "internal/candidates/viewers.go"
		fillGo    = "internal/candidates/fill.go"
		popularGo = "internal/popular/popular.go"
		pkg       = "./internal/candidates"
	)
	return []mutation{
		{
			name: "announcing every view", trap: "each page is an event",
			edits: []edit{{viewersGo, "past(known.told, now, tellEvery) && len", "len"}},
			pkg:   pkg, run: "^TestViewsAreAnnouncedRarely$",
		},
		{
			name: "announcements without a limit", trap: "a burst of views fills the memory while no round comes",
			edits: []edit{{viewersGo, " && len(v.untold) < Max {", " {"}},
			pkg:   pkg, run: "^TestViewersAreBounded$",
		},
		{
			name: "a clock that was ahead keeps viewers", trap: "who viewed then is never forgotten",
			edits: []edit{{viewersGo, "now.Sub(t).Abs() > d", "now.Sub(t) > d"}},
			pkg:   pkg, run: "^TestClockThatWasAhead$",
		},
		{
			name: "viewers who are not forgotten", trap: "head starts for users who have left",
			edits: []edit{{viewersGo, "		v.users.RemoveOldest()\n", "		break\n"}},
			pkg:   pkg, run: "^TestViewersAreForgotten$",
		},
		{
			name: "a new user in a full record counts from zero", trap: "no user who grows ever enters the record",
			edits: []edit{{popularGo, "			n = least\n", "			n = 0 * least\n"}},
			pkg:   "./internal/popular", run: "^TestWithAFullRecord$",
		},
		{
			name: "a record without followers", trap: "users without followers stay candidates",
			edits: []edit{{popularGo, "		if n > 0 {\n", "		if n >= 0 {\n"}},
			pkg:   "./internal/popular", run: "^TestWith$",
		},
		{
			name: "replacing the record without looking", trap: "the changes of another process are lost",
			edits: []edit{{"internal/pebblestore/revised.go", "found != revision", "found < revision"}},
			pkg:   pebble, run: "^TestConformance$/^Popular$",
		},
		{
			name: "counting a repeated follow", trap: "clients that repeat requests make an author look large",
			edits: []edit{{"internal/following/following.go", "e.Open() && e.Spans[len(e.Spans)-1].Since.Equal(now)", "e.Open()"}},
			pkg:   "./internal/following", run: "^TestFollowersAreCounted$",
		},
		{
			name: "filling without a lease", trap: "all processes read the sample at once",
			edits: []edit{{fillGo, "left > fillLease)", "left > 0)"}},
			pkg:   pkg, run: "^TestFill",
		},
		{
			name: "a lease that is not renewed", trap: "a second process begins in the middle",
			edits: []edit{{fillGo, "if l.until.Sub(s.opts.Now()) < fillLease/2 {", "if l.until.Sub(s.opts.Now()) < -fillLease {"}},
			pkg:   pkg, run: "^TestFillIsBounded$",
		},
		{
			name: "a sample that replaces the record", trap: "what was counted meanwhile is lost",
			edits: []edit{{fillGo, "numbers[u.ID] = max(numbers[u.ID], u.Followers)", "_ = u"}},
			pkg:   pkg, run: "^TestFill$",
		},
		{
			name: "peeks as views", trap: "operators who look become candidates",
			edits: []edit{{"internal/inbox/page.go", "	if peek {\n", "	if peek {\n		s.opts.Viewed(user)\n"}},
			pkg:   "./internal/inbox", run: "^TestViewed$",
		},
	}
}
