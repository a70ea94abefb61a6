package mutation_test

const (
	stateGo      = "pkg/userstate/state.go"
	transitionGo = "pkg/userstate/transition.go"
	inboxGo      = "internal/inbox/inbox.go"
)

// rehydrating are the shortcuts of bringing a user back.
func rehydrating() []mutation {
	return []mutation{
		{
			name: "a look that joins a read of the ceiling that has begun", trap: "the read is older than the raise of the horizon: a message that was stored in between is lost",
			edits: []edit{
				{"internal/mongostore/share.go", "s.next, s.running = nil, r != nil", "s.running = r != nil"},
				{"internal/mongostore/share.go", "		close(r.done)\n", "		s.mu.Lock()\n		s.next = nil\n		s.mu.Unlock()\n		close(r.done)\n"},
			},
			pkg: "./internal/mongostore", run: "^TestShared$",
		},
		{
			name: "trusting the edges that were read before the messages", trap: "the user unfollows in between: a message that was sent afterwards is appended",
			edits: []edit{{"internal/rehydrate/feed.go", "	f.confirmFrom = confirmFrom\n", "	_ = confirmFrom\n"}},
			pkg:   rehydration, run: "^TestUnfollowedBetweenEdgesAndQuery$",
		},
		{
			name: "a second login that overwrites the mark", trap: "what the unfinished attempt had not appended: lost",
			edits: []edit{{transitionGo, "			next.Lease = lease.since(s.Lease.Since)\n		}\n	case", "			next.Lease = lease.since(s.Lease.Since)\n			next.Mark = &Mark{From: s.Horizon}\n		}\n	case"}},
			pkg:   rehydration, run: "^TestSecondLoginKeepsTheMark$",
		},
		{
			name: "no sync where nothing is left to write", trap: "a reader's mark need not survive, the login has to, and finds it recorded: a crash takes both",
			edits: []edit{{"internal/pebblestore/commit.go", "		db.sync()\n", ""}},
			pkg:   rehydration, run: "^TestLoginSurvivesACrash$",
		},
		{
			name: "no sweep", trap: "a message stored between the query and the end of the mark: lost",
			edits: []edit{{rebuildGo, "	if err := a.each(ctx, feed, stretch, func(entries []bucket.Entry) error {", "	if err := a.each(ctx, feed, bucket.Stretch{}, func(entries []bucket.Entry) error {\n		_ = stretch"}},
			pkg:   rehydration, run: "^TestSweepFindsWhatTheQueryMissed$",
		},
		{
			name: "no sweep, under schedules", trap: "a message stored between the query and the end of the mark: lost",
			edits: []edit{{rebuildGo, "	if err := a.each(ctx, feed, stretch, func(entries []bucket.Entry) error {", "	if err := a.each(ctx, feed, bucket.Stretch{}, func(entries []bucket.Entry) error {\n		_ = stretch"}},
			pkg:   pipeline, run: "^TestSchedules$",
		},
		{
			name: "a sweep from a time by the clock", trap: "the clock is ahead: a message that was stored between the query and then is lost",
			edits: []edit{
				{rebuildGo, "	feed, err := a.feed(ctx)\n	if err != nil {\n		return err\n	}\n	if err := a.expire", "	began := a.opts.Now().Add(-a.rules.PublishSlack - a.rules.ClockTolerance)\n	feed, err := a.feed(ctx)\n	if err != nil {\n		return err\n	}\n	if err := a.expire"},
				{rebuildGo, "return st.Settle(a.token, recovered) })", "st, ok := st.Settle(a.token, recovered)\n		st.Sweep = &userstate.Sweep{From: began}\n		return st, ok\n	})"},
			},
			pkg: rehydration, run: "^TestSweepFindsWhatTheQueryMissed$",
		},
		{
			name: "a sweep that counts no gaps", trap: "a message that fan-out left because of the mark, before the gap was recorded: one is there that is not counted",
			edits: []edit{{rebuildGo, "return st.Finish(a.token, recovered, counted)", "return st.Finish(a.token, recovered, counted[:0])"}},
			pkg:   rehydration, run: "^TestGapIsCountedAgain$",
		},
		{
			name: "complete while a sweep is under way", trap: "a page without a message says that it is complete",
			edits: []edit{{inboxGo, "return !state.Rehydrating() && rules", "return state.Mark == nil && rules"}},
			pkg:   inbox, run: "^TestReadingWhileRebuilt$",
		},
		{
			name: "a mark that fan-out ignores", trap: "a message is in a bucket, and in the gap that the rehydration decides then",
			edits: []edit{{stateGo, " || s.Mark != nil && sent.After(s.Mark.From) {", " {"}},
			pkg:   "./pkg/userstate", run: "^TestDeliverWhileRehydrating$",
		},
		{
			name: "a sweep treated like a mark in fan-out", trap: "what comes after it has looked is left to a rehydrator that has finished: lost",
			edits: []edit{{stateGo, "s.Mark != nil && sent.After(s.Mark.From) {", "s.Mark != nil && sent.After(s.Mark.From) || s.Sweep != nil && sent.After(s.Sweep.From) {"}},
			pkg:   rehydration, run: "^TestFanoutDeliversDuringTheSweep$",
		},
		{
			name: "ending a rehydration whatever the token", trap: "a slow rehydrator ends the work of the one who took over: lost",
			edits: []edit{{transitionGo, "return token != \"\" && s.Lease.Token == token }", "return token != \"\" }"}},
			pkg:   rehydration, run: "^TestLostLeaseEndsNothing$",
		},
		{
			name: "neither side takes the horizon", trap: "messages of that very millisecond: lost",
			edits: []edit{ // the sweep would find them, too
				{stateGo, "if sent.After(s.Horizon) ||", "if !sent.Before(s.Horizon) ||"},
				{rebuildGo, "message.LastBefore(a.state.Sweep.From)", "message.LastBefore(a.state.Sweep.From.Add(time.Millisecond))"},
			},
			pkg: rehydration, run: "^TestHorizonToTheMillisecond$",
		},
		{
			name: "skipping by a stale read", trap: "whoever has come back since is skipped: lost",
			edits: []edit{
				{fanoutAppendGo, "	\"slices\"\n", "	\"slices\"\n	\"sync\"\n"},
				{fanoutAppendGo, "// lookUp looks up", "var remembered sync.Map\n\n// lookUp looks up"},
				{fanoutAppendGo, "		return nil, fmt.Errorf(\"look up users: %w\", err)\n	}\n", `		return nil, fmt.Errorf("look up users: %w", err)
	}
	for i, owner := range c.owners {
		known, _ := remembered.LoadOrStore(fmt.Sprintf("%p %s", p.stores.Users, owner), looked[i])
		looked[i] = known.(userstate.Looked)
	}
`},
			},
			pkg: rehydration, run: "^TestFanoutSkipsByAStateItHasJustRead$",
		},
		{
			name: "a limit without a recorded gap", trap: "what was cut off can no longer be reached by paging",
			edits: []edit{{rebuildGo, "return st.Bound(a.token, gap) }); err != nil {\n			return missed, nil, err\n		}\n", `return st.Bound(a.token, nil) }); err != nil {
			return missed, nil, err
		}
		if gap != nil {
			a.state.Gaps = append(a.state.Gaps, *gap)
		}
`}},
			pkg: rehydration, run: "^TestLimit$",
		},
		{
			name: "a gap decided after appending", trap: "another attempt decides it anew: what has been appended is in a gap too",
			edits: []edit{{rebuildGo, "		if err := a.change(ctx, func(st userstate.State) (userstate.State, bool) { return st.Bound(a.token, gap) }); err != nil {\n			return missed, nil, err\n		}\n", `		if gap != nil {
			a.state.Gaps = append(a.state.Gaps, *gap)
			err := a.each(ctx, feed, missed, func(entries []bucket.Entry) error {
				_, err := a.append(ctx, entries)
				return err
			})
			if err != nil {
				return missed, nil, err
			}
		}
		if err := a.change(ctx, func(st userstate.State) (userstate.State, bool) { return st.Bound(a.token, gap) }); err != nil {
			return missed, nil, err
		}
`}},
			pkg: rehydration, run: "^TestGapIsDecidedBeforeAnythingIsAppended$",
		},
		{
			name: "a raise of the horizon without a debt", trap: "what fan-out has skipped beyond the old horizon: lost",
			edits: []edit{{transitionGo, "	case risen:\n", "	case risen && false:\n"}},
			pkg:   rehydration, run: "^TestClocksThatJump$",
		},
		{
			name: "deleting in a gap without a count", trap: "the gap does not count the message yet: the total is one too low",
			edits: []edit{{inboxGo, "	if err := s.countGapOf(ctx, user, feed, id); err != nil {\n		return err\n	}\n", ""}},
			pkg:   inbox, run: "^TestEveryFaultOfADeletionInAGap$",
		},
	}
}
