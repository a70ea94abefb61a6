package buckettest

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// declare changes the declarations, and maybe what the process knows of them that appends.
func (r *reader) declare(t *rapid.T) {
	if rapid.Bool().Draw(t, "load") {
		r.knows = r.registry.set()
		return
	}
	r.registry.draw(t)
}

// drawSearched draws a condition on a declared attribute, and reads the pages of the messages that meet it.
func (r *reader) drawSearched(t *rapid.T) {
	set := r.registry.set()
	if set.Len() == 0 {
		t.Skip("nothing is declared")
	}
	d := rapid.SampledFrom(set.All()).Draw(t, "declaration")
	texts := map[attribute.Type][]string{
		attribute.Number: {"eq:7", "ne:7", "lt:-40", "lte:10.5", "gt:300", "gte:9000", "in:1,2,3", "in:100000"},
		attribute.String: {"eq:7", "ne:7", "lt:5", "gte:9", "in:1,10,12"}, attribute.Strings: {"eq:b3", "eq:a", "in:b1,b2", "lt:b", "ne:a"},
		attribute.Bool: {"eq:true", "ne:true"},
	}
	text := rapid.SampledFrom(append(texts[d.Type], "exists:true", "exists:false")).Draw(t, "condition")
	c, err := set.ParseCondition("attr", d.Name+":"+text)
	require.NoError(t, err)
	buckets := rapid.SampledFrom([]int{2, 5, 200}).Draw(t, "buckets")
	messages := rapid.SampledFrom([]int{2, 20, 2000}).Draw(t, "messages")
	limit := rapid.SampledFrom([]int{1, 7, 50, 200}).Draw(t, "limit")
	r.requireKept(t, func(e bucket.Entry) bool { return c.Holds(set.Read(e.Attrs)) }, r.searchFor(c), buckets, messages, limit, false)
}

// searchFor returns the search for a condition, or nil.
func (r *reader) searchFor(c attribute.Condition) *bucket.Search {
	facets, selectivity := c.Facets()
	if r.index == nil || selectivity == attribute.Unindexed {
		return nil
	}
	return &bucket.Search{
		Index: r.index, Number: c.Declaration.Number, Facets: facets,
		Purged: func(context.Context) (message.ID, error) { return r.purgePoint(), nil },
	}
}

// searchesCost reads pages of a large inbox of which the lower part is older than the declaration.
func (s suite) searchesCost(t *testing.T) {
	t.Parallel()
	h := s.sized(t, 10)
	if h.Index == nil {
		return
	}
	r := newReader(h.Store, owner)
	r.registry, r.index = newRegistry(), h.Index
	all := numbers(0, 1, 2000)
	prefill(t, h.Store, owner, all[:200])
	r.arrived = slices.Clone(all[:200])
	r.registry.declare("n", attribute.Number)
	r.knows = r.registry.set()
	for some := range slices.Chunk(all[200:], 100) {
		r.hint = readInbox(t, h.Store, owner).hint(len(r.arrived)/10 - 1)
		r.deliver(t, some)
	}
	for text, most := range map[string]int{
		"eq:1005": 6, "gt:1900": 40, "gte:990": 110, "lt:-100": 4, "in:1010,510": 8, "exists:true": 181,
	} {
		c, err := r.knows.ParseCondition("attr", "n:"+text)
		require.NoError(t, err)
		kept := func(e bucket.Entry) bool { return c.Holds(r.knows.Read(e.Attrs)) }
		req := r.request(nil, 200)
		req.Filter = &bucket.Filter{
			Keep:    func(f bucket.Found) bool { return kept(f.Entry) },
			Buckets: most + 20, Messages: 100, OnRead: r.absent.search, Search: r.searchFor(c),
		}
		read := 0
		for {
			page, err := bucket.ReadPage(t.Context(), h.Store, req)
			require.NoError(t, err)
			read += page.Buckets
			if page.Next == nil {
				break
			}
			req.Before = page.Next
		}
		require.LessOrEqual(t, read, 2*most+61, "%s: the newest buckets, candidates, and those of before the declaration", text)
		r.requireKept(t, kept, r.searchFor(c), 50, 100, 200, false)
		scanning := r.searchFor(c)
		scanning.Index, scanning.Scan = nil, 200 // all buckets: nobody asks the index
		r.requireKept(t, kept, scanning, 50, 100, 200, false)
	}
}

// searchesBesideEmptier lets messages expire, and empties their buckets, after a page has read the newest ones. The page shows no message below one
// that it has left out.
func (s suite) searchesBesideEmptier(t *testing.T) {
	t.Parallel()
	h := s.sized(t, 5)
	if h.Index == nil {
		return
	}
	r := newReader(h.Store, owner)
	r.registry, r.index = newRegistry(), h.Index
	r.registry.declare("n", attribute.Number)
	r.knows = r.registry.set()
	ns := numbers(0, 5, 100) // each has n
	r.append(t, h.Store, entries(900))
	r.arrived = []int{900}
	r.deliver(t, ns)
	c, err := r.knows.ParseCondition("attr", "n:lt:300")
	require.NoError(t, err)
	search := r.searchFor(c)
	search.Index = &emptyingIndex{Index: h.Index, before: func() {
		r.purge(t, 250)
		_, err := h.Store.Empty(t.Context(), owner, 5, 9, r.purgePoint()) // the middle ones first
		require.NoError(t, err)
	}}
	req := r.request(nil, 12)
	req.Filter = &bucket.Filter{
		Keep:    func(f bucket.Found) bool { return c.Holds(r.knows.Read(f.Attrs)) },
		Buckets: 200, Messages: 100, OnRead: r.absent.search, Search: search,
	}
	page, err := bucket.ReadPage(t.Context(), h.Store, req)
	require.NoError(t, err)
	want := []int{295, 290, 285, 280, 275, 270, 265, 260, 255}
	require.Equal(t, IDs(entries(want...)), foundIDs(page.Entries))
}

// emptyingIndex calls before once, before it is asked.
type emptyingIndex struct {
	bucket.Index

	once   sync.Once
	before func()
}

// WithFacets implements bucket.Index.
func (x *emptyingIndex) WithFacets(
	ctx context.Context, owner message.UserID, ranges []attribute.FacetRange, low, high uint32, limit int,
) ([]bucket.Bucket, error) {
	x.once.Do(x.before)
	return x.Index.WithFacets(ctx, owner, ranges, low, high, limit)
}
