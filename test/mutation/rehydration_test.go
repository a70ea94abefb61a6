package mutation_test

const (
	rebuildGo    = "internal/rehydrate/rebuild.go"
	loginGo      = "internal/rehydrate/login.go"
	jobGo        = "internal/rehydrate/job.go"
	rulesGo      = "pkg/userstate/rules.go"
	transitionGo = "pkg/userstate/transition.go"
	pageGo       = "pkg/bucket/page.go"
	seenGo       = "internal/inbox/user.go"
	inboxGo      = "internal/inbox/inbox.go"
	markReadGo   = "internal/inbox/markread.go"
	stateGo      = "pkg/userstate/state.go"
	recountGo    = "pkg/userstate/recount.go"
	feedGo       = "internal/rehydrate/feed.go"

	rehydration = "./internal/rehydrate"
	inbox       = "./internal/inbox"
)

// reading are the shortcuts of inboxes that their owners read.
func reading() []mutation {
	return []mutation{
		{
			name: "setting a read mark by its up_to alone", trap: "a mark made before a message came replaces one that says it is read: unread again",
			edits: []edit{{"internal/pebblestore/users.go", "mark.Covers(st.ReadMark)", "!mark.UpTo.Less(st.ReadMark.UpTo)"}},
			pkg:   inbox, run: "^TestReadMarkOfAnOlderSnapshotMarksNothingUnread$",
		},
		{
			name: "setting a numbered read mark over any other", trap: "a mark made before a message came replaces one that says it is read: unread again",
			edits: []edit{{stateGo, " && s.ReadMark == o.ReadMark", ""}},
			pkg:   inbox, run: "^TestReadMarkOfAnOlderSnapshotMarksNothingUnread$",
		},
		{
			name: "a step that does not compare the read mark", trap: "a read mark that was set meanwhile is lost",
			edits: []edit{{stateGo, " && s.ReadMark == o.ReadMark", ""}},
			pkg:   "./internal/pebblestore", run: "^TestConformance$/^Users$/^Step$",
		},
		{
			name: "setting a numbered read mark whatever its gaps count now", trap: "a sweep has counted a message that the mark has not: unread",
			edits: []edit{{markReadGo, "	return stepped[0].State.ReadMark, nil\n", `	if now := stepped[0].State; !stepped[0].Applied {
		to := now
		to.ReadMark = next.ReadMark
		if stepped, err = s.stores.Users.Step(ctx, []userstate.Step{{From: now, To: to}}); err != nil {
			return bucket.ReadMark{}, err
		}
	}
	return stepped[0].State.ReadMark, nil
`}},
			pkg: inbox, run: "^TestReadMarkBesideASweep$",
		},
		{
			name: "a number at level 1", trap: "a sweep of an older release does not raise it",
			edits: []edit{{markReadGo, "len(gaps), rules.Stored\n	if rules.Stored {", "len(gaps), true\n	if true {"}},
			pkg:   inbox, run: "^TestReadMarkHasItsNumberFromLevel2On$",
		},
		{
			name: "a sweep that raises the number of a gap alone", trap: "a late message at or below up_to is unread",
			edits: []edit{{rebuildGo, "feed.CountGap(ctx, gap, mark)", "feed.CountGap(ctx, gap, bucket.ReadMark{UpTo: mark.UpTo})"}},
			pkg:   inbox, run: "^TestLateMessageInAGapThatTheReadMarkLists$",
		},
		{
			name: "a sweep that raises the number of a gap alone, at random", trap: "a late message at or below up_to is unread",
			edits: []edit{{rebuildGo, "feed.CountGap(ctx, gap, mark)", "feed.CountGap(ctx, gap, bucket.ReadMark{UpTo: mark.UpTo})"}},
			pkg:   pipeline, run: "^TestTwins$",
		},
		{
			name: "a read mark that counts nothing in its gap", trap: "all of it is unread",
			edits: []edit{{markReadGo, "		return counted(ctx, feed, state, upTo)\n", "		return state, nil\n"}},
			pkg:   inbox, run: "^TestReadMarkHasItsNumberFromLevel2On$",
		},
		{
			name: "counting a whole gap, and then what is read", trap: "a message becomes visible in between: unread is below 0",
			edits: []edit{
				{feedGo, "		stretch.After = mark.UpTo\n", ""},
				{feedGo, "	stretch := gap.Stretch()\n	if mark", "	stretch := gap.Stretch()\n	above, err := f.Count(ctx, stretch)\n	if err != nil {\n		return counted, err\n	}\n	if mark"},
				{feedGo, "	above, err := f.Count(ctx, stretch)\n	counted.Messages = counted.Read + above\n", "	counted.Messages = above\n"},
			},
			pkg: inbox, run: "^TestLateMessageWhileAReadMarkIsMade$",
		},
		{
			name: "a number that another read mark was counted by", trap: "it is that of another up_to",
			edits: []edit{{transitionGo, "if s.ReadMark.Numbered && c.UpTo == s.ReadMark.UpTo {", "if s.ReadMark.Numbered {"}},
			pkg:   "./pkg/userstate", run: "^TestFinishCountsWhatIsRead$",
		},
		{
			name: "a sweep that ends although the read mark was moved", trap: "it has counted by the old one: a late message is unread",
			edits: []edit{{transitionGo, "return s.ReadMark.Numbered && c.UpTo != s.ReadMark.UpTo ||", "return false ||"}},
			pkg:   inbox, run: "^TestMendReadMarkDuringASweep$",
		},
		{
			name: "a deletion that raises the number of a gap alone", trap: "a late message is deleted, and counts as unread",
			edits: []edit{{inboxGo, "		next, err := counted(ctx, feed, state, id)\n", "		unmarked := state\n		unmarked.ReadMark = bucket.ReadMark{}\n		next, err := counted(ctx, feed, unmarked, id)\n		next.ReadMark = state.ReadMark\n"}},
			pkg:   inbox, run: "^TestLateMessageInAGapThatTheReadMarkLists$",
		},
		{
			name: "mending a numbered read mark whatever its gaps count now", trap: "a sweep has counted a message as read: it is unread again",
			edits: []edit{{markReadGo, "	next := state\n	next.ReadMark = mended\n", "	if state, err = s.state(ctx, user); err != nil {\n		return false, err\n	}\n	next := state\n	next.ReadMark = mended\n"}},
			pkg:   inbox, run: "^TestSweepWhileAReadMarkIsMended$",
		},
		{
			name: "a mended read mark without its number", trap: "what was read in the gap is unread again",
			edits: []edit{{markReadGo, "mended.InGap = mark.ReadIn(i, gap)", "_ = i"}},
			pkg:   inbox, run: "^TestMendReadMarkDuringASweep$",
		},
	}
}

func rehydrating() []mutation {
	return []mutation{
		{
			name: "dormancy by the worker's clock, and a rehydration", trap: "a message delayed past the horizon is skipped, and too old for the rehydrator's query: lost",
			edits: []edit{{fanoutAppendGo, "b.rules.Deliver(state, sent)", "b.rules.Deliver(state, b.deliverer.opts.Now())"}},
			pkg:   rehydration, run: "^TestBacklogBeyondTheHorizon$",
		},
		{
			name: "last viewed and the mark in two updates", trap: "a crash and a second login come between: lost",
			edits: []edit{{loginGo, "	var lease userstate.Lease\n", `	lease := s.lease(before, s.opts.Now())
	dormant := before
	if before, err = s.step(ctx, before, durable, func(st userstate.State) (userstate.State, error) {
		st.LastViewed = at.UTC().Truncate(time.Millisecond)
		return st, nil
	}); err != nil {
		return before, after, err
	}
	if dormant.Mark == nil {
		after, err = s.step(ctx, before, durable, func(st userstate.State) (userstate.State, error) {
			st.Mark, st.Lease = &userstate.Mark{From: rules.Horizon(dormant)}, lease
			return st, nil
		})
		if err != nil {
			return before, after, err
		}
		before = after
	}
`}},
			pkg: rehydration, run: "^TestEveryFaultIsSurvived$",
		},
		{
			name: "trusting the edges that were read before the messages", trap: "the user unfollows in between: a message that was sent afterwards is appended",
			edits: []edit{{"internal/rehydrate/feed.go", "	f.confirmFrom = confirmFrom\n", "	_ = confirmFrom\n"}},
			pkg:   rehydration, run: "^TestUnfollowedBetweenEdgesAndQuery$",
		},
		{
			name: "a second login that overwrites the mark", trap: "what the unfinished attempt had not appended: lost",
			edits: []edit{{transitionGo, "			next.Lease = lease.since(s.Lease.Since)\n		}\n	case", "			next.Lease = lease.since(s.Lease.Since)\n			next.Mark = &Mark{From: r.Horizon(s)}\n		}\n	case"}},
			pkg:   rehydration, run: "^TestSecondLoginKeepsTheMark$",
		},
		{
			name: "a second login that overwrites the mark, at random", trap: "what the unfinished attempt had not appended: lost",
			edits: []edit{{transitionGo, "			next.Lease = lease.since(s.Lease.Since)\n		}\n	case", "			next.Lease = lease.since(s.Lease.Since)\n			next.Mark = &Mark{From: r.Horizon(s)}\n		}\n	case"}},
			pkg:   pipeline, run: "^TestTwins$",
		},
		{
			name: "no sync where nothing is left to write", trap: "a reader's mark need not survive, the login has to, and finds it recorded: a crash takes both",
			edits: []edit{{"internal/pebblestore/commit.go", "return errors.Join(batch.Close(), db.sync())", "return batch.Close()"}},
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
			name: "a sweep up to a time by the clock", trap: "the clock was set back, or the author's is ahead: lost",
			edits: []edit{{rebuildGo, "a.state.Sweep.From), Before: a.afterHorizon()}", "a.state.Sweep.From), Before: message.MinID(a.opts.Now().Add(a.rules.PublishSlack + a.rules.ClockTolerance))}"}},
			pkg:   rehydration, run: "^TestSweepFindsWhatTheQueryMissed$",
		},
		{
			name: "reading until no message is left", trap: "authors publish faster than it reads: the inbox is never complete",
			edits: []edit{{rebuildGo, "			if first {\n", "			if first && part.Empty() {\n"}},
			pkg:   rehydration, run: "^TestAuthorsPublishFasterThanARehydrationReads$",
		},
		{
			name: "a sweep from no earlier than an unfinished one", trap: "what that one had to look for is lost",
			edits: []edit{{transitionGo, "if s.Sweep != nil && s.Sweep.From.Before(from) {", "if false {"}},
			pkg:   "./pkg/userstate", run: "^TestSettle$",
		},
		{
			name: "a sweep that counts no gaps", trap: "a message that fan-out left because of the mark, before the gap was recorded: one is there that is not counted",
			edits: []edit{{rebuildGo, "return st.Finish(a.token, recovered, counted)", "return st.Finish(a.token, recovered, counted[:0])"}},
			pkg:   rehydration, run: "^TestGapIsCountedAgain$",
		},
		{
			name: "leaving a message to a gap that was counted", trap: "one is there that is not counted",
			edits: []edit{{fanoutAppendGo, "owed = append(owed, state)", "_ = owed"}},
			pkg:   rehydration, run: "^TestGapIsCountedAgain$",
		},
		{
			name: "a follow that leaves a message to a gap that was counted", trap: "one is there that is not counted",
			edits: []edit{{"internal/following/catchup.go", "owed = append(owed, state)", "_ = owed"}},
			pkg:   rehydration, run: "^TestGapIsCountedAgainAfterAFollow$",
		},
		{
			name: "a count that is owed and leaves a sweep its token", trap: "the sweep had counted before, and ends: one is there that is not counted",
			edits: []edit{{"pkg/userstate/owe.go", "s.Sweep != nil && s.Lease.Token == \"\" {", "s.Sweep != nil {"}},
			pkg:   rehydration, run: "^TestGapIsCountedAgain$",
		},
		{
			name: "an older count that replaces a newer one", trap: "one is there that is not counted",
			edits: []edit{{transitionGo, "more > 0 {", "more != 0 {"}},
			pkg:   "./pkg/userstate", run: "^TestFinishCountsGaps$",
		},
		{
			name: "a lease that lives as long as it says", trap: "a host whose clock is a day ahead dies: its users wait for a day",
			edits: []edit{{"pkg/userstate/state.go", "return l.Until.Before(d.Before) || l.Until.After(d.After) }", "return l.Until.Before(d.Before) }"}},
			pkg:   rehydration, run: "^TestLeaseFromAClockThatWasAhead$",
		},
		{
			name: "a lease that ends late holds until then", trap: "a clock was ahead as an attempt failed: the user waits for as long",
			edits: []edit{{"internal/rehydrate/reaper.go", "w.unchanged > s.opts.Lease", "false"}},
			pkg:   rehydration, run: "^TestLeaseThatNobodyRenews$",
		},
		{
			name: "a lease that ends late is stuck although its holder renews it", trap: "a process with shorter leases takes over the work of one with longer ones",
			edits: []edit{{"internal/rehydrate/reaper.go", " && w.lease.Until.Equal(st.Lease.Until)", ""}},
			pkg:   rehydration, run: "^TestLongLeaseThatIsRenewed$",
		},
		{
			name: "complete while a sweep is under way", trap: "a page without a message says that it is complete",
			edits: []edit{{inboxGo, "return !state.Rehydrating() && rules", "return state.Mark == nil && rules"}},
			pkg:   inbox, run: "^TestReadingWhileRebuilt$",
		},
		{
			name: "a sweep treated like a mark in fan-out", trap: "what comes after it has looked is left to a rehydrator that has finished: lost",
			edits: []edit{{rulesGo, "s.Mark != nil && sent.After(s.Mark.From) {", "s.Mark != nil && sent.After(s.Mark.From) || s.Sweep != nil && sent.After(s.Sweep.From) {"}},
			pkg:   rehydration, run: "^TestFanoutDeliversDuringTheSweep$",
		},
		{
			name: "a login that waits for a sweep, dormant again or not", trap: "what was missed since the sweep looked: lost",
			edits: []edit{{transitionGo, "	case s.Mark != nil:", "	case s.Mark == nil && s.Sweep != nil:\n	case s.Mark != nil:"}},
			pkg:   rehydration, run: "^TestDormantAgainBeforeTheSweep$",
		},
		{
			name: "ending a rehydration whatever the token", trap: "a slow rehydrator ends the work of the one who took over: lost",
			edits: []edit{{transitionGo, "return token != \"\" && s.Lease.Token == token }", "return token != \"\" }"}},
			pkg:   rehydration, run: "^TestLostLeaseEndsNothing$",
		},
		{
			name: "neither side takes the horizon", trap: "messages of that very millisecond: lost",
			edits: []edit{{rulesGo, "if sent.After(r.Horizon(s)) ||", "if !sent.Before(r.Horizon(s)) ||"}},
			pkg:   rehydration, run: "^TestHorizonToTheMillisecond$",
		},
		{
			name: "neither side takes the millisecond after the mark", trap: "messages of that very millisecond: lost",
			edits: []edit{{rebuildGo, "message.LastBefore(a.state.Mark.From.Add(time.Millisecond))", "message.LastBefore(a.state.Mark.From.Add(2 * time.Millisecond))"}},
			pkg:   rehydration, run: "^TestHorizonToTheMillisecond$",
		},
		{
			name: "skipping by a stale read", trap: "whoever has come back since is skipped: lost",
			edits: []edit{
				{fanoutAppendGo, "	\"slices\"\n", "	\"slices\"\n	\"sync\"\n"},
				{fanoutAppendGo, "// lookUp looks up", "var remembered sync.Map\n\n// lookUp looks up"},
				{fanoutAppendGo, "		return nil, fmt.Errorf(\"look up users: %w\", err)\n	}\n", `		return nil, fmt.Errorf("look up users: %w", err)
	}
	for i, owner := range c.owners {
		known, _ := remembered.LoadOrStore(fmt.Sprintf("%p %s", b.deliverer, owner), looked[i])
		looked[i] = known.(userstate.Looked)
	}
`},
			},
			pkg: rehydration, run: "^TestFanoutSkipsByAStateItHasJustRead$",
		},
		{
			name: "no message is void", trap: "one that becomes visible after its publisher gave up, and that neither query sees: lost",
			edits: []edit{{"pkg/message/store.go", "return s.Verdict == Void\n", "return false\n"}},
			pkg:   rehydration, run: "^TestVoidMessagesAreMissedByEverybody$",
		},
		{
			name: "judging a decided message by today's slack", trap: "processes disagree while the setting changes: an accepted message is delivered to no user",
			edits: []edit{{"pkg/message/store.go", "if s.Verdict == Undecided {", "if s.Verdict <= Void {"}},
			pkg:   fanout, run: "^TestVerdictOfTheInsertHolds$",
		},
		{
			name: "accepting a stamp from the future", trap: "every later message of that user's inbox comes late, until its time has come",
			edits: []edit{{"pkg/message/timing.go", " || sent.Sub(storedAt) > t.Tolerance", ""}},
			pkg:   "./internal/publish", run: "^TestClockAhead$",
		},
		{
			name: "another id of a clock that is ahead", trap: "each attempt stores one more void message, and the reason is lost",
			edits: []edit{{"internal/publish/publish.go", "case stored.FromFuture() && issued[stored.ID]:", "case stored.FromFuture() && issued[stored.ID] && a.void != nil:"}},
			pkg:   "./internal/publish", run: "^TestClockAhead$",
		},
		{
			name: "dormancy by the value that is set", trap: "a dormant user becomes active without a rehydration: lost",
			edits: []edit{
				{seenGo, "rules.View(seen[i].User, seen[i].At, now)", "rules.View(seen[i].User, seen[i].At, seen[i].At)"},
				{seenGo, "	now := s.opts.Now()\n", ""},
			},
			pkg: rehydration, run: "^TestSettingLastViewedRehydrates$",
		},
		{
			name: "setting last viewed without a rehydration", trap: "a dormant user becomes active: lost",
			edits: []edit{
				{seenGo, "rules.View(seen[i].User, seen[i].At, now)", "userstate.View{User: seen[i].User, At: seen[i].At}"},
				{seenGo, "	now := s.opts.Now()\n", ""},
			},
			pkg: rehydration, run: "^TestSettingLastViewedRehydrates$",
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
			name: "the limit applied to the sweep", trap: "holes",
			edits: []edit{{rebuildGo, "return a.appended[e.ID] })\n", `return a.appended[e.ID] })
		if limit := a.opts.Limit; limit > 0 && len(entries) > limit {
			entries = entries[len(entries)-limit:]
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
			name: "appending beyond the horizon", trap: "a user whose last look is set to long ago: the next mark begins at that horizon, and what is in its gap is in a bucket, too",
			edits: []edit{{rebuildGo, "(time.Millisecond)), Before: a.afterHorizon()}", "(time.Millisecond)), Before: message.MaxID}"}},
			pkg:   inbox, run: "^TestSeenLongAgo$",
		},
		{
			name: "a raise of the horizon without a debt", trap: "what fan-out has skipped beyond the old horizon: lost",
			edits: []edit{{transitionGo, "	case risen:\n", "	case risen && false:\n"}},
			pkg:   rehydration, run: "^TestClocksThatJump$",
		},
		{
			name: "a horizon that falls", trap: "a look at an old time: what is delivered beyond the lower horizon is in the next gap, too",
			edits: []edit{{transitionGo, "gain <= 0 || active && gain < r.DormantAfter/raiseParts", "gain == 0 || active && gain > 0 && gain < r.DormantAfter/raiseParts"}},
			pkg:   rehydration, run: "^TestHorizonNeverFalls$",
		},
		{
			name: "a horizon from last viewed and the setting of today", trap: "dormant_after rises: a dormant user becomes active without a rehydration: lost",
			edits: []edit{
				{rulesGo, "	case !s.Horizon.IsZero():\n		return s.Horizon\n", ""},
				{rulesGo, "cmp.Or(r.FirstDormantAfter, r.DormantAfter)", "cmp.Or(r.DormantAfter)"},
			},
			pkg: rehydration, run: "^TestDormantAfterChanges$",
		},
		{
			name: "a threshold for the mark of a dormant user", trap: "a dormant user whose horizon would rise only a little gets no mark: the inbox is complete without what fan-out skipped",
			edits: []edit{
				{transitionGo, "gain <= 0 || active && gain", "gain <= 0 || gain"},
				{transitionGo, "	case !active:\n", "	case !active && (risen || !r.Stored):\n"},
			},
			pkg: rehydration, run: "^TestDormantUserGetsAMarkWhateverTheHorizonGains$",
		},
		{
			name: "the quick end of a sweep that was there before", trap: "it owes a count of gaps: one is there that is not counted",
			edits: []edit{{transitionGo, "next.Lease = lease.cut(); s.Sweep != nil {", "next.Lease = lease.cut(); false {"}},
			pkg:   rehydration, run: "^TestEndOfARaiseLeavesTheCountOfAGap$",
		},
		{
			name: "the quick end by what is beyond the new horizon", trap: "what fan-out has skipped between the old horizon and the new one: lost",
			edits: []edit{{loginGo, "message.LastBefore(raised.Sweep.From), rules", "message.LastBefore(raised.Horizon), rules"}},
			pkg:   rehydration, run: "^TestClocksThatJump$",
		},
		{
			name: "a job's token for another mark", trap: "a job that lost its lease decides a new gap over messages that are appended already",
			edits: []edit{{jobGo, "j != nil && st.Mark != nil && st.Lease.Token == j.token", "j != nil"}},
			pkg:   rehydration, run: "^TestNewMarkHasATokenOfItsOwn$",
		},
		{
			name: "a sweep that appends what is in a gap", trap: "it is counted twice",
			edits: []edit{{rebuildGo, "	recovered := int64(0)\n", "	recovered := int64(0)\n	a.state.Gaps = nil\n"}},
			pkg:   rehydration, run: "^TestOldSweepLeavesGapsAlone$",
		},
		{
			name: "deleting in a gap in two writes", trap: "the process dies in between: an entry in the gap counts twice",
			edits: []edit{{inboxGo, "	return s.pushTombstone(ctx, user, state.Head, id)\n", `	results, err := s.stores.Appender.Append(ctx, []bucket.Append{{Owner: user, Hint: state.Head, Entries: entries}})
	if err == nil {
		err = results[0].Err
	}
	if err != nil {
		return err
	}
	return bucket.Delete(ctx, s.stores.Buckets, user, state.Head, id)
`}},
			pkg: inbox, run: "^TestEveryFaultOfADeletionInAGap$",
		},
		{
			name: "deleting in a gap without a count", trap: "the gap does not count the message yet: the total is one too low",
			edits: []edit{{inboxGo, "	if err := s.countGapOf(ctx, user, feed, id); err != nil {\n		return err\n	}\n", ""}},
			pkg:   inbox, run: "^TestEveryFaultOfADeletionInAGap$",
		},
		{
			name: "deleting in a gap that was made meanwhile", trap: "the state was read before the message, and lacks the gap: the total is one too low",
			edits: []edit{
				{inboxGo, "s.countGapOf(ctx, user, feed, id); err", "s.countGapOf(ctx, state, feed, id); err"},
				{inboxGo, "user message.UserID, feed *rehydrate.Feed, id message.ID) error {\n	state, err := s.state(ctx, user) // again: an older one may lack the gap\n	if err != nil {\n		return err\n	}\n", "state userstate.State, feed *rehydrate.Feed, id message.ID) (err error) {\n"},
			},
			pkg: rehydration, run: "^TestLateMessageDeletedInAGap$",
		},
		{
			name: "a pushed tombstone that is not counted", trap: "the inbox counts one more than it shows",
			edits: []edit{{"internal/pebblestore/push.go", "if err := countTombstone(p.db, p.batch, push.Owner, r.at(push.Sequence, slot)); err != nil {", "if err := error(nil); err != nil {"}},
			pkg:   "./internal/pebblestore", run: pebblePush,
		},
		{
			name: "a page that shows what is in a bucket by fan out on read, too", trap: "twice on a page",
			edits: []edit{{pageGo, "	r.absent = slices.DeleteFunc(r.absent, func(e Entry) bool { return held[e.ID] })\n", ""}},
			pkg:   inbox, run: "^TestReadingWhileRebuilt$",
		},
		{
			name: "a cursor that names a bucket while older ones are being filled", trap: "what is in the buckets above it is left out",
			edits: []edit{{pageGo, "	if r.Growing {", "	if r.Growing && r.Limit < 0 {"}},
			pkg:   inbox, run: "^TestPagingAcrossARebuild$",
		},
		{
			name: "a reaper that forgets sweeps", trap: "nobody looks for what the first query did not see: lost",
			edits: []edit{{"internal/pebblestore/rehydrations.go", "return st.Mark != nil || st.Sweep != nil }", "return st.Mark != nil }"}},
			pkg:   rehydration, run: "^TestReaperTakesOverSweeps$",
		},
	}
}
