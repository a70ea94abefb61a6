package mutation_test

// condemning are the shortcuts with messages from the future.
func condemning() []mutation {
	const letters, bounds, audits = "internal/deadletter/fromfuture.go", "internal/audit/bounds.go", "./internal/audit"
	file := "\tif err := s.Bus.FileFromFuture(ctx, stored.Ref(), cause); err != nil {\n\t\treturn ofBus(err)\n\t}\n"
	return []mutation{
		{
			name: "a verdict before the letter", trap: "a crash in between: the message is void, and lost",
			edits: []edit{{letters, file, "\tif _, err := s.Messages.Condemn(ctx, stored.Ref()); err != nil {\n\t\treturn err\n\t}\n" + file}},
			pkg:   audits, run: "^TestFromFuture$",
		},
		{
			name: "a tombstone before the letter", trap: "a crash in between: the copy is gone, and no letter says so",
			edits: []edit{{bounds, "f.Err == nil && f.Stored.FromFuture()", "f.Err == nil && (f.Stored.FromFuture() || f.Stored.Condemnable())"}, {
				bounds, "\tfor _, f := range poisoned {\n\t\terr := s.opts", "\t_, _ = bucket.Repair(ctx, s.stores.Buckets, user, s.void)\n\tfor _, f := range poisoned {\n\t\terr := s.opts",
			}},
			pkg: audits, run: "^TestFromFuture$",
		},
		{
			name: "redriving without the key of the old id", trap: "a redrive that is repeated publishes twice",
			edits: []edit{{letters, "publish.SuccessorKey(m.ID)", "publish.SuccessorKey(m.ID)[:0]"}},
			pkg:   "./internal/deadletter", run: "^TestRedriveFromFuture$",
		},
		{
			name: "judging a message from the future by a clock", trap: "processes disagree, and when its time has passed nobody finds it",
			edits: []edit{{"pkg/userstate/rules.go", "return m.Condemnable() && m.Ahead() >", "return time.Until(m.Sent()) > 0 && m.Condemnable() && m.Ahead() >"}},
			pkg:   "./pkg/userstate", run: "^TestAcceptedFromFuture$",
		},
	}
}
