package main

func declareInstances() []instance {
	return []instance{
		{
			"declare", "3 messages, buckets of 1; 2 writers, 2 attempts each; 2 declarations", false,
			search(&appending{messages: 3, capacity: 1, writers: 2, attempts: 2, declares: 2}),
		},
		{
			"declare-again", "as declare; a declaration is deleted in between", false,
			search(&appending{messages: 3, capacity: 1, writers: 2, attempts: 2, declares: 2, undeclares: 1}),
		},
		{
			"declare-old", "as declare; one of the writers is of an old release", false,
			search(&appending{messages: 3, capacity: 1, writers: 2, attempts: 2, declares: 2, olds: 1}),
		},
		{
			"declare-3", "as declare; 3 writers, an attempt each; 3 declarations", false,
			search(&appending{messages: 3, capacity: 1, writers: 3, attempts: 1, declares: 3}),
		},
		{
			"declare-more", "as declare, buckets of 2; pushes write more facets than their decl says", false,
			search(&appending{messages: 3, capacity: 2, writers: 2, attempts: 2, declares: 2, more: true}),
		},
		{
			"declare-search", "as declare, 2 messages; a search for one of the declarations, step by step", false,
			search(&searching{appending: appending{messages: 2, capacity: 1, writers: 2, attempts: 2, declares: 2}}),
		},
		{
			"declare-search-stub", "as declare-search, a declaration; P rises, and full buckets become stubs", false,
			search(&searching{appending: appending{messages: 2, capacity: 1, writers: 2, attempts: 2, declares: 1, raises: 1}}),
		},
		{
			"declare-search-stub-long", "as declare-search-stub, 2 declarations, of which one is deleted", true,
			search(&searching{appending: appending{messages: 2, capacity: 1, writers: 2, attempts: 2, declares: 2, undeclares: 1, raises: 1}}),
		},
		{
			"declare-search-long", "as declare-search, 3 messages", true,
			search(&searching{appending: appending{messages: 3, capacity: 1, writers: 2, attempts: 2, declares: 2}}),
		},
		{
			"declare-search-2-long", "as declare-search, 3 messages, any together, buckets of 2, a declaration, a deletion of a message", true,
			search(&searching{appending: appending{messages: 3, capacity: 2, writers: 2, attempts: 2, batches: true, declares: 1, deletes: 1}}),
		},
		{
			"declare-2-long", "3 messages, any together, buckets of 2; 2 writers, 2 attempts each; 2 declarations", true,
			search(&appending{messages: 3, capacity: 2, writers: 2, attempts: 2, batches: true, declares: 2}),
		},
		{
			"declare-sizes-long", "as declare, buckets of 1 or 2", true,
			search(&appending{messages: 3, sizes: []int8{1, 2}, writers: 2, attempts: 2, declares: 2}),
		},
		{
			"declare-stub-long", "as declare; P rises twice, and full buckets become stubs", true,
			search(&appending{messages: 3, capacity: 1, writers: 2, attempts: 2, declares: 2, raises: 2}),
		},
	}
}

// declareShortcuts are those in declared attributes.
func declareShortcuts() []shortcut {
	var all []shortcut
	declares := func(is mutation, name string, change func(*appending)) {
		m := appending{mutation: is, messages: 3, capacity: 1, writers: 2, attempts: 2, declares: 2, undeclares: 1}
		if change != nil {
			change(&m)
		}
		all = append(all, shortcut{is, name, search(&m)})
	}
	declares(withoutDecl, "take a bucket for covered that was created after the declaration", nil)
	two := func(m *appending) { m.capacity = 2 }
	declares(declUnnamed, "a push that does not name the declarations", two)
	declares(declLowered, "create a bucket with fewer declarations than the one before", nil)
	declares(declUnloaded, "name declarations that were not loaded", two)
	declares(facetsLater, "write facets in a second update", nil)
	declares(declaredAgain, "declare an attribute again under its number", nil)
	declares(declOfLive, "the greatest number that is still declared", nil)
	declares(oldUnversioned, "a push of an old release that does not name the version of the bucket", func(m *appending) { m.capacity, m.olds = 2, 1 })
	return all
}
