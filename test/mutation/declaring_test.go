package mutation_test

// declaring are the shortcuts of declared attributes.
func declaring() []mutation {
	const (
		attributesGo = "internal/settings/attributes.go"
		storeGo      = "internal/settings/store.go"
		valueGo      = "pkg/attribute/value.go"
		conditionGo  = "pkg/attribute/condition.go"
		addressGo    = "internal/publish/address.go"
		settings     = "./internal/settings"
		attribute    = "./pkg/attribute"
		publish      = "./internal/publish"
		filterGo     = "pkg/bucket/filter.go"
		pages        = "^TestModel$/^Pages$/^and_counts_(of_rehydrations_)?at_random$"
	)
	return []mutation{
		{
			name: "a name declared again gets its old number", trap: "PROTOCOLS BM6: values of another type are found under it",
			edits: []edit{{attributesGo, "		r.LastDeclared++\n", "		r.LastDeclared = len(r.Declared) + 1\n"}},
			pkg:   settings, run: "^TestDeclaring$",
		},
		{
			name: "the greatest number is that of what is still declared", trap: "PROTOCOLS BM7: a process never knows what a bucket names",
			edits: []edit{{attributesGo, "		r.Declared = left\n", "		r.Declared = left\n		r.LastDeclared = len(left)\n"}},
			pkg:   settings, run: "^TestDeclaring$",
		},
		{
			name: "a change of a setting forgets what is declared", trap: "filters and their numbers are gone",
			edits: []edit{{storeGo, "	changed := r\n	changed.Level, changed.Settings = level, maps.Clone(r.Settings)\n", "	changed := Record{Level: level, Revision: r.Revision, Settings: maps.Clone(r.Settings)}\n"}},
			pkg:   settings, run: "^TestDeclaring$",
		},
		{
			name: "a number that a float64 rounds is taken", trap: "a filter by the number that was sent does not find it",
			edits: []edit{{valueGo, "if err != nil || decimalOf(literal) != decimalOf(", "if err != nil || literal == (\"\" + "}},
			pkg:   attribute, run: "^TestCheckRefuses$",
		},
		{
			name: "of a value that is there twice the first counts", trap: "clients take the last",
			edits: []edit{{valueGo, "		if delete(values, d.Name); err == nil {", "		if _, there := values[d.Name]; err == nil && !there {"}},
			pkg:   attribute, run: "^TestCheckRefuses$",
		},
		{
			name: "ne holds without the attribute", trap: "entries without it are shown",
			edits: []edit{{conditionGo, "	return present && slices.ContainsFunc(", "	return (present || c.Operator == NotEqual) && slices.ContainsFunc("}},
			pkg:   attribute, run: "^TestConditions$",
		},
		{
			name: "a refused value reserves the idempotency key", trap: "the client cannot send the message again, corrected",
			edits: []edit{{addressGo, "		if a.result.Err = a.refused; a.refused == nil {", "		if a.refused == nil || !a.repeated {"}},
			pkg:   publish, run: "^TestDeclaredAttributes$",
		},
		{
			name: "a repeat is checked again", trap: "a declaration since then hides that the message was stored",
			edits: []edit{{addressGo, " || a.refused != nil\n", "\n"}},
			pkg:   publish, run: "^TestDeclaredAttributes$",
		},
		{
			name: "a filtered page that has spent its buckets ends at the floor", trap: "the entry whose id is the floor is in no page",
			edits: []edit{{filterGo, "		end = r.least().Next()\n", "		end = r.least()\n"}},
			pkg:   suite, run: pages,
		},
		{
			name: "a filtered page never reads beyond its budget", trap: "where floors are the same, each page ends where it began",
			edits: []edit{{filterGo, "	return !r.least().Next().Less(r.bound) //", "	return false //"}},
			pkg:   suite, run: pages,
		},
		{
			name: "a filtered page that has spent its messages is the last one", trap: "the rest of the inbox is in no page",
			edits: []edit{{filterGo, "				r.search.unread = s.Before\n", ""}},
			pkg:   suite, run: pages,
		},
		{
			name: "a filtered page finds in a gap what is in a bucket", trap: "it shows it twice, or after its deletion",
			edits: []edit{{filterGo, "				if r.search.examined[e.ID] {\n", "				if r.search.examined == nil && r.search.examined[e.ID] {\n"}},
			pkg:   suite, run: pages,
		},
		{
			name: "unread by the id alone", trap: "what came late after the mark counts as unread, and is not shown",
			edits: []edit{{"pkg/bucket/inbox.go", "!m.UpTo.Less(f.Entry.ID) && f.Position < m.Slots\n", "!m.UpTo.Less(f.Entry.ID)\n"}},
			pkg:   suite, run: pages,
		},
		{
			name: "a filter by attributes below its level", trap: "what a process of an older release published was not checked",
			edits: []edit{{"internal/inbox/filter.go", "	if err := settings.Require(s.opts.Level(), settings.Attributes); err != nil {\n		return m, err\n	}\n", ""}, {"internal/inbox/filter.go", "	\"github.com/fanmail/fanmail/internal/settings\"\n", ""}},
			pkg:   "./internal/inbox", run: "^TestFilterNeedsItsLevel$",
		},
		{
			name: "a filtered page spends its messages twice", trap: "a request reads more than its budget",
			edits: []edit{{filterGo, "(r.Filter.Messages-r.search.messages)/2, searchedAtOnce)\n			if", "r.Filter.Messages-r.search.messages, searchedAtOnce)\n			if"}},
			pkg:   suite, run: pages,
		},
		{
			name: "a push names a decl that was not loaded", trap: "PROTOCOLS BM4: entries without their facets are in a bucket that is covered",
			edits: []edit{{"pkg/bucket/declared.go", "	if k.reaches(decl) {\n		return nil", "	if k.reaches(decl) || decl > 0 {\n		return nil"}},
			pkg:   suite, run: "^TestModel$/^Declare$",
		},
		{
			name: "a bucket says nothing of declarations", trap: "PROTOCOLS BM1: what its entries lack in facets, nobody knows",
			edits: []edit{{"pkg/bucket/pending.go", "		next.Decl = p.known.declared.Greatest()\n", ""}},
			pkg:   suite, run: "^TestModel$/^Declare$",
		},
		{
			name: "a bucket has a lower decl than the one below", trap: "PROTOCOLS BM3: a search takes the wrong buckets for those before a declaration",
			edits: []edit{{"pkg/bucket/pending.go", "p.refusals == 1 && p.known.reaches(seen.Decl) && seen.Slots", "p.refusals == 1 && seen.Slots"}},
			pkg:   suite, run: "^TestModel$/^Declare$",
		},
		{
			name: "a search does not read the purge point again", trap: "PROTOCOLS PM3: a page lacks a message whose bucket became a stub",
			edits: []edit{{"pkg/bucket/search.go", "	if !r.search.found.used {", "	if r.search.found.used || !r.search.found.used {"}},
			pkg:   suite, run: "^TestModel$/^Declare$",
		},
		{
			name: "a list with too many elements has no facet", trap: "searches miss its entry",
			edits: []edit{{"pkg/attribute/facet.go", "			own = []Facet{d.facet(bare, 0)}\n", "			own = nil\n"}},
			pkg:   attribute, run: "^TestFacetsNeverMiss$",
		},
	}
}
