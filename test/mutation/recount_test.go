package mutation_test

// recounting are the shortcuts of an audit that sets the numbers of gaps.
func recounting() []mutation {
	const counts, look, audits = "internal/rehydrate/recount.go", "internal/audit/look.go", "./internal/audit"
	return []mutation{
		{
			name: "a recount without the token", trap: "a message is left to the gap after the count: the repair sets an older number",
			edits: []edit{{recountGo, "case !s.holds(token) || s.Mark != nil || s.Sweep == nil:", "case s.Mark != nil:"}},
			pkg:   audits, run: "^TestRecountBesideWriters$",
		},
		{
			name: "a recount without a sweep", trap: "a sweep in between leaves the state as it was, and its count is lost",
			edits: []edit{
				{recountGo, "\ts.Sweep, s.Lease = s.sweepFrom(r.Horizon(s)), lease.cut() // nothing is missing in buckets\n", "\t_ = lease\n"},
				{counts, "for a.state.Sweep != nil {", "for first := true; first; first = false {"},
				{recountGo, "case !s.holds(token) || s.Mark != nil || s.Sweep == nil:", "case s.Rehydrating():"},
			},
			pkg: audits, run: "^TestRecountBesideWriters$",
		},
		{
			name: "a recount over a deletion", trap: "the number that the deletion raised falls again",
			edits: []edit{{recountGo, "case !slices.EqualFunc(s.Gaps, c.Of.Gaps, Gap.Equal) || s.ReadMark != c.Of.ReadMark:", "case slices.EqualFunc(s.Gaps, s.Gaps, Gap.Equal) && s.Recovered < 0:"}},
			pkg:   audits, run: "^TestRecountBesideWriters$",
		},
		{
			name: "a recount of visible messages only", trap: "a tombstone in the gap takes away a message that the gap does not count: total one too low",
			edits: []edit{{counts, "if s.Holds(t.ID) {", "if false {"}, {counts, "if !deleted[e.ID] {", "if true {"}},
			pkg:   audits, run: "^TestRecount$",
		},
		{
			name: "an audit that forgets tombstones in gaps", trap: "a total that is one too low is not found",
			edits: []edit{{look, "if gap := l.gap(t.ID); gap >= 0 {", "if gap := l.gap(t.ID); gap > len(l.inGaps) {"}},
			pkg:   audits, run: "^TestRecount$",
		},
		{
			name: "a recount that leaves the read mark", trap: "unread is wrong, even below zero",
			edits: []edit{{counts, "c.ReadMark.InGap = read", "_ = read"}, {counts, "\t\t\tc.ReadMark.Read += read\n", ""}},
			pkg:   audits, run: "^TestRecount$",
		},
	}
}
