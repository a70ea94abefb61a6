package mutation_test

// publishing are the shortcuts of requests whose recipients are looked up.
func publishing() []mutation {
	const (
		addressGo = "internal/publish/address.go"
		keysGo    = "internal/publish/idempotency.go"
		messageGo = "pkg/message/message.go"
		pkg       = "./internal/publish"
	)
	return []mutation{
		{
			name: "a refused request reserves its key", trap: "the client cannot correct the request under the same key",
			edits: []edit{{"internal/publish/publish.go", "s.reserveAll(ctx, s.settleFresh(ctx, attempts))", "s.reserveAll(ctx, attempts)"}},
			pkg:   pkg, run: "^TestARepeatIgnoresWhatBecameOfATopic$",
		},
		{
			name: "a repeat that looks up its identities again", trap: "the identity is gone, and the client never gets its receipt",
			edits: []edit{{addressGo, "if a.repeated && a.conditional()", "if !a.repeated && a.conditional()"}},
			pkg:   pkg, run: "^TestARepeatIgnoresWhereTheIdentityWent$",
		},
		{
			name: "a repeat that looks up its topics again", trap: "the topic is gone, and the client never gets its receipt",
			edits: []edit{{addressGo, "a.settled || adopted[a] || a.result.Err != nil", "a.settled || adopted[a] && len(a.result.Message.Topics) == 0 || a.result.Err != nil"}},
			pkg:   pkg, run: "^TestARepeatIgnoresWhatBecameOfATopic$",
		},
		{
			name: "a digest without identities", trap: "a message to another identity gets the receipt of the first, and is never sent",
			edits: []edit{{"internal/publish/publish.go", "result.Message.DigestTo(keys(ids))", "result.Message.DigestTo(keys(ids)[:0])"}},
			pkg:   pkg, run: "^TestARepeatIgnoresWhereTheIdentityWent$",
		},
		{
			name: "a digest without the lengths of lists", trap: "a user and an identity change places unnoticed",
			edits: []edit{{messageGo, "lists := len(m.Topics)+len(identities) > 0", "lists := len(m.Topics) > 0"}},
			pkg:   "./pkg/message", run: "^TestDigestsWithIdentities$",
		},
		{
			name: "a successor under the digest of the request", trap: "a redrive knows the stored message only: it or the repeat is refused",
			edits: []edit{{keysGo, "SuccessorKey(old), id, a.result.Message.Digest()", "SuccessorKey(old), id, a.key.Digest"}},
			pkg:   pkg, run: "^TestOneSuccessorOfAMessageToAnIdentity$",
		},
		{
			name: "identities of kinds that a token does not list", trap: "a client learns who has an identity",
			edits: []edit{{addressGo, "return a.request.MayAddress != nil && a.request.MayAddress(string(id.Kind))", "return a.request.MayAddress == nil || a.request.MayAddress(string(id.Kind))"}},
			pkg:   pkg, run: "^TestUnknownIdentities$",
		},
	}
}
