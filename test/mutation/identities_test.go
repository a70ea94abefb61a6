package mutation_test

const (
	claimGo      = "internal/identities/claim.go"
	identitiesGo = "internal/identities/service.go"
	recordsGo    = "internal/pebblestore/identities.go"
	claims       = "./internal/identities"

	pebbleIdentities = "^TestConformance$/^Identities$"
)

// claiming are the shortcuts of claims of identities.
func claiming() []mutation {
	return []mutation{
		{
			name: "an identity in force at once", trap: "a crash leaves an identity in force without an item",
			edits: []edit{{recordsGo, "given.InForce, given.Since = newNumber(), false,", "given.InForce, given.Since = newNumber(), true,"}},
			pkg:   claims, run: "^TestClaim$",
		},
		{
			name: "another claim confirmed without its list", trap: "an identity is in force without an item",
			edits: []edit{{claimGo, "		default:\n			l.next = toList\n", "		default:\n			if l.next = toList; l.record.User != l.claim.User {\n				l.next = toConfirm\n			}\n"}},
			pkg:   claims, run: "^TestBatchFinishesClaimsOfOneUser$",
		},
		{
			name: "confirming whatever the user has", trap: "a record is put in force whose item was never seen",
			edits: []edit{{recordsGo, "there.InForce = there.InForce || there.Number == given.Number", "there.InForce = there.InForce || there.User == given.User"}},
			pkg:   pebble, run: pebbleIdentities + "/^Confirm$",
		},
		{
			name: "an item taken for the identity", trap: "a dead item stands for a record that has none",
			edits: []edit{{claimGo, "return item.Number == l.record.Number })", "return item.Identity == l.record.Identity })"}},
			pkg:   claims, run: "^TestCrashes$/embedded/^a_deletion$",
		},
		{
			name: "refusing a claim because of another", trap: "a claim is refused, and the other user never has the identity",
			edits: []edit{{claimGo, "		case l.record.InForce:\n", "		case l.record.InForce, l.record.User != l.claim.User:\n"}},
			pkg:   claims, run: "^TestBatchFinishesClaimsOfOneUser$",
		},
		{
			name: "removing an item whose record is not in force", trap: "a process that has seen the item puts the record in force",
			edits: []edit{
				{claimGo, "found.Err == nil && found.Record.Number != item.Number", "found.Err == nil && (found.Record.Number != item.Number || !found.Record.InForce)"},
				{claimGo, "		err = s.settle(ctx, lines, looked)\n", ""},
			},
			pkg: claims, run: "^TestClaimsUnderWayCount$",
		},
		{
			name: "a claim cut short that keeps its place", trap: "a list is full of what the user does not see",
			edits: []edit{{claimGo, "		err = s.settle(ctx, lines, looked)\n", ""}},
			pkg:   claims, run: "^TestClaimsUnderWayCount$",
		},
		{
			name: "a list without a comparison", trap: "an item that another process has added is lost",
			edits: []edit{{"internal/pebblestore/identity_lists.go", "looked.List.Revision != change.From.Revision", "change.From.User == \"\""}},
			pkg:   pebble, run: pebbleIdentities + "/^Lists$",
		},
		{
			name: "withdrawing whatever is in force", trap: "a process has put the record in force meanwhile: an identity goes that was answered with 204",
			edits: []edit{{recordsGo, "there.Number == given.Number && !there.InForce {", "there.Number == given.Number {"}},
			pkg:   pebble, run: pebbleIdentities + "/^Withdraw$",
		},
		{
			name: "removing the item before the record", trap: "a crash in between leaves an identity in force without an item",
			edits: []edit{
				{identitiesGo, "	if err := s.store.Remove(ctx, r); err != nil {\n		return err\n	}\n	return s.drop(ctx, r)", "	if err := s.drop(ctx, r); err != nil {\n		return err\n	}\n	return s.store.Remove(ctx, r)"},
			},
			pkg: claims, run: "^TestCrashes$/embedded/^a_deletion$",
		},
		{
			name: "removing an item by its value", trap: "the user has claimed the identity again: it is in force without an item",
			edits: []edit{{identitiesGo, "return item.Number == r.Number })", "return item.Identity == r.Identity })"}},
			pkg:   claims, run: "^TestDeletionThatStalls$",
		},
		{
			name: "removing a record whatever its number", trap: "a deletion that stalls removes what another user has claimed since",
			edits: []edit{{recordsGo, "		if there.Number == given.Number {\n", "		if there.Exists() {\n"}},
			pkg:   pebble, run: pebbleIdentities + "/^Remove$",
		},
		{
			name: "removing a record whatever its number, at random", trap: "a user loses an identity without a deletion",
			edits: []edit{{recordsGo, "		if there.Number == given.Number {\n", "		if there.Exists() {\n"}},
			pkg:   claims, run: "^TestSchedules$",
		},
		{
			name: "removing an item by its value, at random", trap: "an identity is in force without an item",
			edits: []edit{{identitiesGo, "return item.Number == r.Number })", "return item.Identity == r.Identity })"}},
			pkg:   claims, run: "^TestSchedules$",
		},
		{
			name: "lines of one list at once", trap: "of two items that are added together, one is lost",
			edits: []edit{{claimGo, "		if seen[l.list.User] {\n", "		if seen[l.list.User] && len(seen) == 0 {\n"}},
			pkg:   claims, run: "^TestBatchFinishesClaimsOfOneUser$",
		},
		{
			name: "lines of one identity at once", trap: "chance decides which user of a batch has an identity",
			edits: []edit{{claimGo, "n := max(ofIdentity[l.claim.Identity], ofUser[l.claim.User])", "n := ofUser[l.claim.User]"}},
			pkg:   claims, run: "^TestBatch$",
		},
		{
			name: "answering before a sync", trap: "a power loss undoes a claim that was answered",
			edits: []edit{{recordsGo, "return found, s.db.commit(batch, &locks)", "return found, s.db.apply(batch)"}},
			pkg:   pebble, run: pebbleIdentities + "/^Reopen$",
		},
		{
			name: "an identity that prints its value", trap: "a log has an email address",
			edits: []edit{{"pkg/identity/identity.go", "_, _ = f.Write([]byte(i.String()))", "_, _ = f.Write([]byte(i.Value))"}},
			pkg:   "./pkg/identity", run: "^TestNothingPrintsTheValue$",
		},
		{
			name: "lower case letter by letter", trap: "two letters become one: a message goes to another user",
			edits: []edit{{"internal/canonical/address.go", "cases.Lower(language.Und, cases.HandleFinalSigma(false)).String(norm.NFC.String(text))", "func() string { _, _ = cases.Lower, language.Und; return strings.ToLower(norm.NFC.String(text)) }()"}},
			pkg:   "./internal/canonical", run: "^TestForms$/^email$",
		},
	}
}
