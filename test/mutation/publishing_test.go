package mutation_test

// publishing are the shortcuts of requests that are repeated.
func publishing() []mutation {
	return []mutation{
		{
			name: "a refused request reserves its key", trap: "the client cannot correct the request under the same key",
			edits: []edit{{"internal/publish/publish.go", "s.reserveAll(ctx, s.resolveFresh(ctx, attempts))", "s.reserveAll(ctx, attempts)"}},
			pkg:   "./internal/publish", run: "^TestARepeatIgnoresWhatBecameOfATopic$",
		},
		{
			name: "a repeat that looks up its identities again", trap: "the identity is gone, and the client never gets its receipt",
			edits: []edit{{"internal/publish/address.go", "if a.repeated && a.conditional()", "if !a.repeated && a.conditional()"}},
			pkg:   "./internal/publish", run: "^TestARepeatIgnoresWhereTheIdentityWent$",
		},
		{
			name: "a digest without the lengths of lists", trap: "a user and an identity change places unnoticed",
			edits: []edit{{"pkg/message/message.go", "lists := len(m.Topics)+len(identities) > 0", "lists := len(m.Topics) > 0"}},
			pkg:   "./pkg/message", run: "^TestDigestsWithIdentities$",
		},
	}
}
