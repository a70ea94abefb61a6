package mutation_test

const (
	topicService     = "./internal/topics"
	deleteGo         = "internal/topics/delete.go"
	subscribeGo      = "internal/topics/subscribe.go"
	topicSchedule    = "^TestSchedules$"
	claimGo          = "internal/identities/claim.go"
	identitiesGo     = "internal/identities/service.go"
	recordsGo        = "internal/pebblestore/identities.go"
	claims           = "./internal/identities"
	pebbleIdentities = "^TestConformance$/^log$/^Identities$"
)

// claiming are the shortcuts of claiming identities, and of topics that are deleted beside their subscribers.
func claiming() []mutation {
	return []mutation{
		{
			name: "an identity in force at once", trap: "a crash leaves an identity in force without an item",
			edits: []edit{{recordsGo, "given.InForce, given.Since = newNumber(), false,", "given.InForce, given.Since = newNumber(), true,"}},
			pkg:   claims, run: "^TestClaim$",
		},
		{
			name: "an item taken for the identity", trap: "a dead item stands for a record that has none",
			edits: []edit{{claimGo, "return item.Number == l.record.Number })", "return item.Identity == l.record.Identity })"}},
			pkg:   claims, run: "^TestCrashes$/embedded/^a_deletion$",
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
			name: "removing a record whatever its number", trap: "a deletion that stalls removes what another user has claimed since",
			edits: []edit{{recordsGo, "		if there.Number == given.Number {\n", "		if there.Exists() {\n"}},
			pkg:   pebble, run: pebbleIdentities + "/^Remove$",
		},
		{
			name: "a subscription that does not look afterwards", trap: "the topic has been deleted meanwhile",
			edits: []edit{{subscribeGo, "		if r.Number == e.Number {\n			kept", "		if r.Number == e.Number || true {\n			kept"}},
			pkg:   topicService, run: topicSchedule,
		},
		{
			name: "a deletion without a mark", trap: "what is written after its look is not seen",
			edits: []edit{{deleteGo, "		if r.Mark == 0 {", "		if r.Mark < 0 {"}},
			pkg:   topicService, run: topicSchedule,
		},
	}
}
