package bucket

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/message"
)

// knowledge is what an Append knows of declarations, and the facets that it has made with them. The declarations of an Append change only when it
// loads them.
type knowledge struct {
	declared attribute.Set
	sets     map[int]attribute.Set // by the greatest number in it
	made     map[madeOf]made
	joined   map[joinedOf][]attribute.Facet
}

type (
	// madeOf names the facets of an entry for the declarations up to decl.
	madeOf struct {
		id   message.ID
		decl int
	}
	made struct {
		attrs  json.RawMessage
		facets []attribute.Facet
	}
	// joinedOf names those of several entries that many owners share.
	joinedOf struct {
		first       *Entry
		count, decl int
	}
)

// reaches reports whether the declarations up to decl are known. No other Decl may be named by a push.
func (k *knowledge) reaches(decl int) bool { return decl <= k.declared.Greatest() }

// learn makes known the declarations up to decl. It fails with message.ErrCorrupt if so many were never given.
func (a *Appender) learn(ctx context.Context, k *knowledge, decl int) error {
	if k.reaches(decl) {
		return nil
	}
	if err := a.load(ctx); err != nil {
		return fmt.Errorf("load the declared attributes: %w", err)
	}
	*k = knowledge{declared: a.declared()}
	if !k.reaches(decl) {
		return fmt.Errorf("%w: a bucket says that %d attributes were declared, and there were %d", message.ErrCorrupt, decl, k.declared.Greatest())
	}
	return nil
}

// facets returns the facets of the entries of a push. Most owners get the same entries, so each entry is read once.
func (k *knowledge) facets(p *Push) []attribute.Facet {
	if p.Decl == 0 {
		return nil
	}
	if len(p.Entries) == 1 {
		return k.of(&p.Entries[0], p.Decl)
	}
	key := joinedOf{first: &p.Entries[0], count: len(p.Entries), decl: p.Decl}
	if joined, there := k.joined[key]; there {
		return joined
	}
	var joined []attribute.Facet
	for i := range p.Entries {
		joined = append(joined, k.of(&p.Entries[i], p.Decl)...)
	}
	slices.Sort(joined)
	joined = slices.Compact(joined)
	if k.joined == nil {
		k.joined = make(map[joinedOf][]attribute.Facet)
	}
	k.joined[key] = joined
	return joined
}

// of returns the facets of an entry. A tombstone has none.
func (k *knowledge) of(e *Entry, decl int) []attribute.Facet {
	if e.Deleted || len(e.Attrs) == 0 {
		return nil
	}
	key := madeOf{id: e.ID, decl: decl}
	if m, there := k.made[key]; there && bytes.Equal(m.attrs, e.Attrs) {
		return m.facets
	}
	if k.made == nil {
		k.made, k.sets = make(map[madeOf]made), make(map[int]attribute.Set)
	}
	set, there := k.sets[decl]
	if !there {
		set = k.declared.UpTo(decl)
		k.sets[decl] = set
	}
	m := made{attrs: e.Attrs, facets: set.Facets(e.Attrs)}
	k.made[key] = m
	return m.facets
}
