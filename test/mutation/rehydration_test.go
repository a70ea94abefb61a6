package mutation_test

const (
	rebuildGo    = "internal/rehydrate/rebuild.go"
	loginGo      = "internal/rehydrate/login.go"
	jobGo        = "internal/rehydrate/job.go"
	rulesGo      = "pkg/userstate/rules.go"
	transitionGo = "pkg/userstate/transition.go"
	pageGo       = "pkg/bucket/page.go"
	seenGo       = "internal/inbox/user.go"

	rehydration = "./internal/rehydrate"
	inbox       = "./internal/inbox"
)

func rehydrating() []mutation {
	const sweepFrom = "sweepFrom := began.Add(-a.rules.PublishSlack - a.rules.ClockTolerance)"
	return []mutation{
		{
			name: "dormancy by the worker's clock, and a rehydration", trap: "a message delayed past the horizon is skipped, and too old for the rehydrator's query: lost",
			edits: []edit{{fanoutAppendGo, "b.rules.Deliver(states[i], j.message.Sent())", "b.rules.Deliver(states[i], b.deliverer.opts.Now())"}},
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
			name: "a sweep from when the mark is removed", trap: "a message stored between the query and then: lost",
			edits: []edit{{
				rebuildGo, "return st.Settle(a.token, sweepFrom, recovered) })",
				"return st.Settle(a.token, a.opts.Now().Add(-a.rules.PublishSlack-a.rules.ClockTolerance), recovered)\n	})",
			}},
			pkg: rehydration, run: "^TestSweepFindsWhatTheQueryMissed$",
		},
		{
			name: "a sweep without the slack", trap: "a message that was stored late: lost",
			edits: []edit{{rebuildGo, sweepFrom, "sweepFrom := began.Add(-a.rules.ClockTolerance)"}},
			pkg:   rehydration, run: "^TestSweepFindsWhatTheQueryMissed$",
		},
		{
			name: "a sweep without the clock tolerance", trap: "clocks apart by a millisecond, and a message is lost",
			edits: []edit{{rebuildGo, sweepFrom, "sweepFrom := began.Add(-a.rules.PublishSlack)"}},
			pkg:   rehydration, run: "^TestSweepFindsWhatTheQueryMissed$",
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
				{fanoutAppendGo, "	\"github.com/fanmail/fanmail/pkg/bucket\"\n", "	\"github.com/fanmail/fanmail/pkg/bucket\"\n	\"github.com/fanmail/fanmail/pkg/userstate\"\n"},
				{fanoutAppendGo, "// lookUp looks up", "var remembered sync.Map\n\n// lookUp looks up"},
				{fanoutAppendGo, "		return nil, fmt.Errorf(\"look up users: %w\", err)\n	}\n", `		return nil, fmt.Errorf("look up users: %w", err)
	}
	for i, owner := range c.owners {
		known, _ := remembered.LoadOrStore(fmt.Sprintf("%p %s", b.deliverer, owner), states[i])
		states[i] = known.(userstate.State)
	}
`},
			},
			pkg: rehydration, run: "^TestFanoutSkipsByAStateItHasJustRead$",
		},
		{
			name: "no message is void", trap: "one that becomes visible after its publisher gave up, and that neither query sees: lost",
			edits: []edit{{"pkg/message/store.go", "return s.StoredAt.Sub(s.Sent()) > slack }", "return slack < 0 }"}},
			pkg:   rehydration, run: "^TestVoidMessagesAreMissedByEverybody$",
		},
		{
			name: "dormancy by the value that is set", trap: "a dormant user becomes active without a rehydration: lost",
			edits: []edit{
				{seenGo, "At: seen[i].At, After: since}", "At: seen[i].At, After: rules.ActiveSince(seen[i].At)}"},
				{seenGo, "	since := rules.ActiveSince(s.opts.Now())\n", ""},
			},
			pkg: rehydration, run: "^TestSettingLastViewedRehydrates$",
		},
		{
			name: "setting last viewed without a rehydration", trap: "a dormant user becomes active: lost",
			edits: []edit{
				{seenGo, "At: seen[i].At, After: since}", "At: seen[i].At}"},
				{seenGo, "	since := rules.ActiveSince(s.opts.Now())\n", ""},
			},
			pkg: rehydration, run: "^TestSettingLastViewedRehydrates$",
		},
		{
			name: "a limit without a recorded gap", trap: "what was cut off can no longer be reached by paging",
			edits: []edit{{rebuildGo, "return st.Bound(a.token, gap) }); err != nil {\n			return err\n		}\n", `return st.Bound(a.token, nil) }); err != nil {
			return err
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
			edits: []edit{{rebuildGo, "		if err := a.change(ctx, func(st userstate.State) (userstate.State, bool) { return st.Bound(a.token, gap) }); err != nil {\n			return err\n		}\n", `		if gap != nil {
			a.state.Gaps = append(a.state.Gaps, *gap)
			err := a.each(ctx, feed, missed, func(entries []bucket.Entry) error {
				_, err := a.append(ctx, entries, sweepFrom)
				return err
			})
			if err != nil {
				return err
			}
		}
		if err := a.change(ctx, func(st userstate.State) (userstate.State, bool) { return st.Bound(a.token, gap) }); err != nil {
			return err
		}
`}},
			pkg: rehydration, run: "^TestGapIsDecidedBeforeAnythingIsAppended$",
		},
		{
			name: "appending beyond the horizon", trap: "a user whose last look is set to long ago: the next mark begins at that horizon, and what is in its gap is in a bucket, too",
			edits: []edit{{rebuildGo, "message.MinID(earlier(ahead, beyond))", "message.MinID(ahead)"}},
			pkg:   inbox, run: "^TestSeenLongAgo$",
		},
		{
			name: "a sweep from no earlier than the horizon was", trap: "the horizon is raised during the query, which ended at the old one: lost",
			edits: []edit{{rebuildGo, "	sweepFrom = earlier(sweepFrom, beyond)\n", ""}},
			pkg:   rehydration, run: "^TestHorizonRaisedMeanwhile$",
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
			name: "a page that shows what is in a bucket by fan out on read, too", trap: "twice on a page",
			edits: []edit{{pageGo, "	r.absent = slices.DeleteFunc(r.absent, func(e Entry) bool { return held[e.ID] })\n", ""}},
			pkg:   inbox, run: "^TestReadingWhileRebuilt$",
		},
		{
			name: "a cursor that names a bucket while older ones are being filled", trap: "what is in the buckets above it is left out",
			edits: []edit{{pageGo, "return s.Before == message.MaxID }) {", "return s.Before == message.MaxID && s.After == s.Before }) {"}},
			pkg:   inbox, run: "^TestPagingAcrossARebuild$",
		},
		{
			name: "a reaper that forgets sweeps", trap: "nobody looks for what the first query did not see: lost",
			edits: []edit{{"internal/pebblestore/rehydrations.go", "return st.Mark != nil || st.Sweep != nil }", "return st.Mark != nil }"}},
			pkg:   rehydration, run: "^TestReaperTakesOverSweeps$",
		},
	}
}
