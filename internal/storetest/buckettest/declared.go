package buckettest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// attrsOf returns the attributes of the nth message. Some messages lack some of them, and x is now a number and now a string.
func attrsOf(n int) json.RawMessage {
	x := strconv.Itoa(n % 13)
	if n%2 == 0 {
		x = fmt.Sprintf("%q", x)
	}
	switch n % 5 {
	case 0:
		return json.RawMessage(fmt.Sprintf(`{"n":%d,"x":%s,"l":["a","b%d"]}`, n, x, n%7))
	case 1:
		return json.RawMessage(fmt.Sprintf(`{"n":%d.5,"x":%s,"l":[]}`, n%90, x))
	case 2:
		return json.RawMessage(fmt.Sprintf(`{"x":%s,"b":%v}`, x, n%3 == 0))
	default:
		return json.RawMessage(fmt.Sprintf(`{"n":-%d}`, n%90))
	}
}

// attributeTypes are the types that the attributes of the messages may be declared with.
var attributeTypes = map[string][]attribute.Type{
	"n": {attribute.Number}, "x": {attribute.Number, attribute.String}, "l": {attribute.Strings}, "b": {attribute.Bool},
}

// registry has the declarations as they are recorded. It is safe for concurrent use.
type registry struct {
	mu    sync.Mutex
	given int
	live  []attribute.Declaration
}

func newRegistry() *registry { return new(registry) }

// set returns what a process knows that loads the declarations now.
func (r *registry) set() attribute.Set {
	r.mu.Lock()
	defer r.mu.Unlock()
	return attribute.NewSet(r.given, r.live)
}

// declare declares an attribute, or deletes the declaration if it is declared with that type.
func (r *registry) declare(name string, of attribute.Type) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.IndexFunc(r.live, func(d attribute.Declaration) bool { return d.Name == name })
	var was attribute.Declaration
	r.live = slices.Clone(r.live)
	if at >= 0 {
		was = r.live[at]
		r.live = slices.Delete(r.live, at, at+1)
	}
	if was.Type != of {
		r.given++
		r.live = append(r.live, attribute.Declaration{Name: name, Type: of, Number: r.given})
	}
}

// draw declares an attribute, or deletes a declaration.
func (r *registry) draw(t *rapid.T) {
	name := rapid.SampledFrom([]string{"n", "x", "l", "b"}).Draw(t, "attribute")
	r.declare(name, rapid.SampledFrom(attributeTypes[name]).Draw(t, "type"))
}

// appender returns an Appender that knows what is declared, and no other declarations before it loads them. Load, unless it is nil, is called before
// that. Without a registry, it knows of no declarations.
func (r *registry) appender(store bucket.Store, hints bucket.Hints, knows *attribute.Set, load func(context.Context) error) *bucket.Appender {
	a := bucket.NewAppender(store, hints)
	if r == nil {
		return a
	}
	return a.WithDeclarations(func() attribute.Set { return *knows }, func(ctx context.Context) error {
		if load != nil {
			if err := load(ctx); err != nil {
				return err
			}
		}
		*knows = r.set()
		return nil
	})
}

// declares returns what is wrong with the declarations of the buckets, or nil. They do not fall from bucket to bucket, and do not change.
func (in inbox) declares(earlier inbox) error {
	decl := 0
	for _, b := range in {
		if b.Decl < decl {
			return fmt.Errorf("bucket %d has the decl %d, and one below has %d", b.Sequence, b.Decl, decl)
		}
		decl = b.Decl
	}
	for _, was := range earlier {
		if b, exists := in.at(was.Sequence); exists && !was.Stub && b.Sequence == was.Sequence && b.Decl != was.Decl {
			return fmt.Errorf("bucket %d had the decl %d and has %d", was.Sequence, was.Decl, b.Decl)
		}
	}
	return nil
}

// requireFacets requires that every bucket that says so has the facets of its entries.
func (r *registry) requireFacets(t tester, in inbox, index bucket.Index) {
	t.Helper()
	if index == nil {
		for _, b := range in {
			require.Zero(t, b.Decl, "a store without an index has no facets")
		}
		return
	}
	for _, d := range r.set().All() {
		for _, b := range in {
			for _, e := range b.Entries {
				for _, f := range attribute.NewSet(d.Number, []attribute.Declaration{d}).Facets(e.Attrs) {
					if b.Decl < d.Number || e.Deleted || e.Expired {
						continue
					}
					found, err := index.WithFacets(t.Context(), b.Owner, []attribute.FacetRange{{Low: f, High: f}}, b.Sequence, b.Sequence, 1)
					require.NoError(t, err)
					require.Len(t, found, 1, "bucket %d has the decl %d, and no facet of %s for declaration %d", b.Sequence, b.Decl, e.Attrs, d.Number)
					require.Equal(t, b, found[0])
				}
			}
		}
	}
}

// pushNamesDecl tries pushes that name a decl, on an inbox with a full bucket without one, and one with a decl of 3.
func (s suite) pushNamesDecl(t *testing.T) {
	facets := []attribute.Facet{7, 1 << 60}
	create := bucket.Push{Owner: owner, Sequence: 1, Decl: 3, Facets: facets, Entries: entries(600, 610), Create: true, Floor: id(500)}
	for _, test := range []struct {
		name    string
		push    bucket.Push
		applied bool
	}{
		{"its own", bucket.Push{Sequence: 1, Decl: 3, Facets: []attribute.Facet{7, 8}, Entries: entries(2000), Guard: true}, true},
		{"its own, without facets", bucket.Push{Sequence: 1, Decl: 3, Entries: entries(505)}, true},
		{"its own, prepared to create it", bucket.Push{Sequence: 1, Decl: 3, Entries: entries(505), Create: true, Floor: id(500)}, true},
		{"none", bucket.Push{Sequence: 1, Entries: entries(2000), Guard: true}, false},
		{"none, prepared to create it", bucket.Push{Sequence: 1, Entries: entries(2000), Create: true, Floor: id(500)}, false},
		{"a lower one", bucket.Push{Sequence: 1, Decl: 2, Entries: entries(2000), Guard: true}, false},
		{"a higher one", bucket.Push{Sequence: 1, Decl: 4, Entries: entries(2000), Guard: true}, false},
		{"a higher one, prepared to create it", bucket.Push{Sequence: 1, Decl: 4, Entries: entries(505), Create: true, Floor: id(500)}, false},
		{"its own, with one that is there", bucket.Push{Sequence: 1, Decl: 3, Entries: entries(600)}, false},
		{"onto a full bucket without one", bucket.Push{Sequence: 0, Decl: 3, Entries: entries(2000)}, false},
		{"a tombstone, its own", bucket.Push{Sequence: 1, Decl: 3, Entries: tombstone(2000)}, true},
		{"a tombstone, none", bucket.Push{Sequence: 1, Entries: tombstone(2000)}, false},
		{"onto a bucket that is not there", bucket.Push{Sequence: 2, Decl: 3, Entries: entries(2000)}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := s.open(t)
			prefill(t, h.Store, owner, numbers(10, 10, 50))
			require.True(t, pushOne(t, h.Store, create))
			before := readInbox(t, h.Store, owner)
			if h.Index == nil {
				require.Zero(t, before[1].Decl)
				return
			}
			require.Equal(t, 3, before[1].Decl)
			test.push.Owner = owner
			require.Equal(t, test.applied, pushOne(t, h.Store, test.push))
			after := readInbox(t, h.Store, owner)
			require.NoError(t, after.declares(before))
			if !test.applied {
				require.Equal(t, before, after)
			}
			require.Equal(t, 3, head(t, h.Store, owner).Decl)
			for _, f := range append(facets, test.push.Facets...) {
				found, err := h.Index.WithFacets(t.Context(), owner, []attribute.FacetRange{{Low: f, High: f}}, 0, 9, 9)
				require.NoError(t, err)
				if test.applied || slices.Contains(facets, f) {
					require.Equal(t, after[1:], inbox(found))
				} else {
					require.Empty(t, found)
				}
			}
		})
	}
	t.Run("after every other change", s.declStays)
}

// declStays changes a bucket in every way that there is. It keeps its decl, and a push that names none does not apply.
func (s suite) declStays(t *testing.T) {
	t.Parallel()
	h := s.sized(t, 5)
	if h.Index == nil {
		return
	}
	ctx := t.Context()
	push := bucket.Push{Owner: owner, Decl: 2, Facets: []attribute.Facet{5}, Entries: entries(10, 20, 30), Guard: true}
	require.True(t, pushOne(t, h.Store, push))
	requireKept := func(what string) {
		t.Helper()
		for _, decl := range []int{0, 1, 3} {
			require.False(t, pushOne(t, h.Store, bucket.Push{Owner: owner, Decl: decl, Entries: entries(50), Guard: true}), "%s, %d", what, decl)
		}
		require.Equal(t, 2, readInbox(t, h.Store, owner)[0].Decl, what)
		require.Equal(t, 2, head(t, h.Store, owner).Decl, what)
	}
	requireKept("as it was made")
	require.NoError(t, bucket.Delete(ctx, h.Store, owner, bucket.Hint{}, id(10)))
	requireKept("after a deletion")
	require.NoError(t, h.Store.Blank(ctx, owner, 0, 1, id(20)))
	requireKept("after an entry was blanked")
	_, err := h.Store.Empty(ctx, owner, 0, 0, id(30))
	require.NoError(t, err)
	requireKept("after a part was emptied")
	point := []attribute.FacetRange{{Low: 5, High: 5}}
	found, err := h.Index.WithFacets(ctx, owner, point, 0, 0, 1)
	require.NoError(t, err)
	require.Len(t, found, 1)
	push.Entries = entries(40, 45)
	require.True(t, pushOne(t, h.Store, push))
	_, err = h.Store.Empty(ctx, owner, 0, 0, id(45))
	require.NoError(t, err)
	require.True(t, readInbox(t, h.Store, owner)[0].Stub)
	requireKept("as a stub")
	found, err = h.Index.WithFacets(ctx, owner, point, 0, 0, 1)
	require.NoError(t, err)
	require.Empty(t, found, "a stub has no facets")
}

// randomDeclarations lets writers append what is drawn, each with what it has loaded of the declarations, while attributes are declared, deleted and
// declared again.
func (s suite) randomDeclarations(t *testing.T) {
	t.Parallel()
	stores, owner := s.sizes(t), owners()
	rapid.Check(t, func(t *rapid.T) {
		h := stores.draw(t)
		ns := drawPrefill(t, h.Store.Size())
		pool := drawMessages(t, ns)
		run := &randomRun{prefilled: ns, pool: pool, deleted: map[message.ID]bool{}}
		user, declared := owner(), newRegistry()
		prefill(t, h.Store, user, ns)
		before := readInbox(t, h.Store, user)
		jobs := make([][]job, rapid.IntRange(2, 3).Draw(t, "writers"))
		for i := range jobs {
			jobs[i] = drawJobs(t, pool, before)
		}
		run.stage = newDeclaringStage(t, h.Store, user, jobs, declared)
		defer run.stop()
		run.between = func(t *rapid.T) {
			switch rapid.IntRange(0, 5).Draw(t, "declarations") {
			case 0:
				declared.draw(t)
			case 1:
				rapid.SampledFrom(run.writers).Draw(t, "who loads them").knows = declared.set()
			}
		}
		run.play(t)
		run.finish(t)
		declared.requireFacets(t, run.seen, h.Index)
	})
}

// declaredHints appends with the hint of each append before. Only the one that finds a full bucket needs more than a push, whatever was declared.
func (s suite) declaredHints(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	declared := newRegistry()
	declared.declare("n", attribute.Number)
	knows := declared.set()
	calls := 0
	seam := &Seam{Store: h.Store, Before: func(_ context.Context, op *Op) error {
		if op.Method != "Persist" {
			calls++
		}
		return nil
	}}
	appender := declared.appender(seam, noHints{}, &knows, nil)
	var hint bucket.Hint
	for n := range 160 {
		if n == 70 || n == 120 {
			declared.declare("x", []attribute.Type{attribute.String, attribute.Number}[n%20/10%2])
			knows = declared.set()
		}
		calls = 0
		results, err := appender.Append(t.Context(), []bucket.Append{{Owner: owner, Hint: hint, Entries: entries(n)}})
		require.NoError(t, err)
		require.NoError(t, results[0].Err)
		require.Equal(t, 1, results[0].New)
		if n%bucket.Capacity != 0 {
			require.Equal(t, 1, calls, "message %d, with the hint %+v", n, hint)
		}
		hint = results[0].Head
	}
	in := readInbox(t, h.Store, owner)
	if h.Index == nil {
		return
	}
	require.Equal(t, []int{0, 1, 2, 3}, []int{in[0].Decl, in[1].Decl, in[2].Decl, in[3].Decl}, "a first bucket that no hint names has none")
	declared.requireFacets(t, in, h.Index)
}

// declaredBeyondFull appends by a process that knows no declarations, beyond a full bucket with a decl. The next bucket has at least that decl.
func (s suite) declaredBeyondFull(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	if h.Index == nil {
		return
	}
	declared := newRegistry()
	declared.declare("x", attribute.String)
	declared.declare("n", attribute.Number)
	full := bucket.Push{Owner: owner, Decl: 2, Entries: entries(numbers(0, 1, bucket.Capacity)...), Guard: true}
	full.Facets = declared.set().Facets(full.Entries[0].Attrs)
	require.True(t, pushOne(t, h.Store, full))
	var knows attribute.Set
	results, err := declared.appender(h.Store, noHints{}, &knows, nil).Append(t.Context(), []bucket.Append{{Owner: owner, Entries: entries(500)}})
	require.NoError(t, err)
	require.NoError(t, results[0].Err)
	require.NoError(t, readInbox(t, h.Store, owner).declares(nil))
	require.Equal(t, 2, readInbox(t, h.Store, owner)[1].Decl)
}

// declareInParallel lets many goroutines append the same messages while attributes are declared, deleted and declared again with another type. Some
// never load the declarations unless they have to.
func (s suite) declareInParallel(t *testing.T) {
	t.Parallel()
	h := s.sized(t, 7)
	declared := newRegistry()
	const writers, messages = 6, 240
	group, ctx := errgroup.WithContext(t.Context())
	for w := range writers {
		group.Go(func() error {
			var knows attribute.Set
			var hint bucket.Hint
			appender := declared.appender(h.Store, noHints{}, &knows, nil)
			for n := range messages {
				if w%3 > 0 && n%(10*w) == 0 {
					knows = declared.set()
				}
				if w == 0 && n%16 == 8 {
					declared.declare("x", attributeTypes["x"][n/16%2])
					declared.declare([]string{"n", "l", "b"}[n/16%3], attributeTypes[[]string{"n", "l", "b"}[n/16%3]][0])
				}
				results, err := appender.Append(ctx, []bucket.Append{{Owner: owner, Hint: hint, Entries: entries(n)}})
				if err == nil {
					err = results[0].Err
				}
				if err != nil {
					return err
				}
				hint = results[0].Head
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	knows := declared.set()
	results, err := declared.appender(h.Store, noHints{}, &knows, nil).Append(t.Context(), []bucket.Append{{Owner: owner, Entries: entries(numbers(1000, 1, 20)...)}})
	require.NoError(t, err)
	require.Equal(t, 20, results[0].New)
	in := readInbox(t, h.Store, owner)
	require.NoError(t, in.check())
	require.NoError(t, in.declares(nil))
	require.Len(t, in.entries(), messages+20)
	if h.Index != nil {
		require.Equal(t, knows.Greatest(), in[len(in)-1].Decl)
	}
	declared.requireFacets(t, in, h.Index)
}
