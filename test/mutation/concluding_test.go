package mutation_test

const (
	concluderGo = "internal/retention/concluder.go"
	concludedGo = "internal/fanout/concluded.go"
	routerGo    = "internal/fanout/router.go"
	statusGo    = "internal/publish/status.go"
	publishes   = "./internal/publish"
)

// concluding are the shortcuts of plans that end.
func concluding() []mutation {
	const (
		conclude = `	if err := c.messages.Conclude(ctx, conclusions); err != nil {
		return 0, fmt.Errorf("conclude messages: %w", err)
	}
`
		remove = `	if err := c.progress.Remove(ctx, over); err != nil {
		return 0, fmt.Errorf("remove plans: %w", err)
	}
`
		plan = `	fanout, err := r.stores.Progress.Plan(ctx, stored.ID, audience.partitions(), r.opts.Now())
`
		drop = `	if err := r.dropLate(ctx, routes); err != nil {
		return err
	}
`
		readPlan  = "	fanout, err := r.progress.Get(ctx, id)\n"
		readFates = "	fates, err := r.messages.Endings(ctx, []message.Ref{stored.Ref()})\n"
	)
	return []mutation{
		{
			name: "a plan that is removed before its counts move", trap: "after a crash the counts are lost, and the message is fanned out again",
			edits: []edit{{concluderGo, conclude + remove, remove + conclude}},
			pkg:   retains, run: "^TestConcludeSurvivesACrash$",
		},
		{
			name: "counts that move before they are final", trap: "recipients miss the message",
			edits: []edit{{concluderGo, "case plan.Done() || void[plan.ID]:", "case plan.Done() || !void[plan.ID]:"}},
			pkg:   retains, run: "^TestConcludeEndsWhatIsOver$",
		},
		{
			name: "a round that is read before the plans", trap: "the message goes although a delivery came after the round had passed the user",
			edits: []edit{
				{concluderGo, "	for after := (message.ID{}); ; {\n", "	round, err := c.rounds.Load(ctx)\n	if err != nil {\n		return 0, err\n	}\n	for after := (message.ID{}); ; {\n"},
				{concluderGo, "c.concludeSome(ctx, page, still)", "c.concludeSome(ctx, round, page, still)"},
				{concluderGo, "concludeSome(ctx context.Context, page", "concludeSome(ctx context.Context, round Round, page"},
				{concluderGo, "	round, err := c.rounds.Load(ctx)\n	if err != nil {\n		return 0, err\n	}\n	fates, err", "	fates, err"},
			},
			pkg: retains, run: "^TestConcludeReadsTheRoundAfterThePlan$",
		},
		{
			name: "a router that looks only at the plan", trap: "a repeated event fans the message out again",
			edits: []edit{{routerGo, drop, ""}},
			pkg:   fanout, run: "^TestRepeatedEventOfAConcludedMessage$",
		},
		{
			name: "a router that asks before it plans", trap: "the message ends in between, and is fanned out again",
			edits: []edit{
				{routerGo, plan, "	over, err := isOver(ctx, r.stores.Messages, stored.Ref())\n	if err != nil {\n		return route{}, err\n	}\n" + plan},
				{routerGo, "	if fanout.Done() {", "	if over || fanout.Done() {"},
				{routerGo, drop, ""},
			},
			pkg: fanout, run: "^TestMessageEndsWhileItIsRouted$",
		},
		{
			name: "a worker that looks only at the plan", trap: "each repeated task costs an event",
			edits: []edit{{concludedGo, "if !fates[i].Over() {", "if fates[i].Over() || true {"}},
			pkg:   fanout, run: "^TestRepeatedTaskOfAConcludedMessage$",
		},
		{
			name: "a worker that plans what is gone", trap: "a dead letter for a message that nobody misses",
			edits: []edit{{concludedGo, "if !fates[i].Over() {", "if !fates[i].Concluded {"}},
			pkg:   fanout, run: "^TestRepeatedTaskOfARemovedMessage$",
		},
		{
			name: "a sweep that looks only at the plan", trap: "the message is emitted again and again",
			edits: []edit{{"internal/fanout/sweep.go", "		case over:\n", "		case over && false:\n"}},
			pkg:   fanout, run: "^TestSweepOfAConcludedMessage$",
		},
		{
			name: "a status that asks before it reads the plan", trap: "a message that is done is pending again",
			edits: []edit{
				{statusGo, readPlan, "	fates, failed := r.messages.Endings(ctx, []message.Ref{stored.Ref()})\n" + readPlan},
				{statusGo, readFates, "	err = failed\n"},
			},
			pkg: publishes, run: "^TestStatusWhileThePlanEnds$",
		},
		{
			name: "a status that believes the plan", trap: "a late plan takes the counts back",
			edits: []edit{{statusGo, "case fates[0].Concluded:", "case fates[0].Concluded && status.State == StatePending:"}},
			pkg:   publishes, run: "^TestStatusWhileThePlanEnds$",
		},
		{
			name: "an audit that asks before it reads the plan", trap: "a missing entry counts as being under way",
			edits: []edit{
				{"internal/audit/standing.go", "	fanout, err := s.stores.Progress.Get(ctx, ref.ID)\n", "	fates, failed := s.stores.Messages.Endings(ctx, []message.Ref{ref})\n	fanout, err := s.stores.Progress.Get(ctx, ref.ID)\n"},
				{"internal/audit/standing.go", "	fates, err := s.stores.Messages.Endings(ctx, []message.Ref{ref})\n", "	err = failed\n"},
			},
			pkg: "./internal/audit", run: "^TestExplainWhileThePlanEnds$",
		},
		{
			name: "counts that replace earlier ones", trap: "those of a late plan hold",
			edits: []edit{{"internal/pebblestore/endings.go", "		case fate.Over():\n", "		case fate.Over() && !fate.Concluded:\n"}},
			pkg:   pebble, run: "^TestConformance$/^Messages$/^Conclude$",
		},
		{
			name: "plans that end below the level", trap: "an older process fans the message out again",
			edits: []edit{{concluderGo, "if settings.Require(c.opts.Level(), settings.Retention) != nil {", "if settings.Require(c.opts.Level(), settings.Unrecorded) != nil {"}},
			pkg:   retains, run: "^TestConcludeNeedsTheLevel$",
		},
		{
			name: "a damaged plan that ends the look", trap: "all later plans stay",
			edits: []edit{{concluderGo, "			c.skip(found.Fanout.ID, found.Err)\n", "			return 0, found.Err\n"}},
			pkg:   retains, run: "^TestConcludePassesDamage$",
		},
		{
			name: "plans that end at once", trap: "late events meet no plan",
			edits: []edit{{concluderGo, "case !found.Fanout.Moved.After(still):", "default:"}},
			pkg:   retains, run: "^TestConcludeLeavesRecentPlans$",
		},
	}
}
