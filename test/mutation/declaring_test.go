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
	}
}
