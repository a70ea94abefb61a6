package buckettest

import (
	"context"
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// search is fan out on read in steps. It spends twice the limit, a part of it on messages that are not for the owner.
func (a *absence) search(ctx context.Context, s bucket.Stretch, limit int) (found []bucket.Entry, left bucket.Stretch, read int, err error) {
	found, err = a.onRead(ctx, s, max(1, limit/2))
	if read = 2 * limit; len(found) < max(1, limit/2) {
		return found, bucket.Stretch{}, read, err
	}
	left = s
	left.Before = found[len(found)-1].ID
	return found, left, read, err
}

// requireFiltered reads all pages of the messages that a filter keeps, and compares them with the model. Each page leads on, and keeps its budget.
func (r *reader) requireFiltered(t tester, one, of, buckets, messages, limit int, unread bool) {
	t.Helper()
	kept := func(e bucket.Entry) bool { return (int(e.ID[15])+int(e.ID[14]))%of < one }
	r.requireKept(t, kept, nil, buckets, messages, limit, unread)
}

// requireKept reads all pages of the entries that a filter keeps.
func (r *reader) requireKept(t tester, kept func(bucket.Entry) bool, search *bucket.Search, buckets, messages, limit int, unread bool) {
	t.Helper()
	var want []int
	for _, n := range r.below(1 << 30) {
		if kept(entry(n)) && !r.deleted[n] && (!unread || !r.seen[n]) {
			want = append(want, n)
		}
	}
	got := []message.ID{}
	last := message.MaxID
	for req := r.request(nil, limit); ; {
		read := 0
		req.Filter = &bucket.Filter{
			Keep: func(f bucket.Found) bool {
				require.False(t, f.Deleted)
				return kept(f.Entry) && (!unread || !r.mark.Says(f, r.absent.counted()))
			},
			Buckets: buckets, Messages: messages, Search: search,
			OnRead: func(ctx context.Context, s bucket.Stretch, limit int) ([]bucket.Entry, bucket.Stretch, int, error) {
				found, left, n, err := r.absent.search(ctx, s, limit)
				read += n
				return found, left, n, err
			},
		}
		page, err := bucket.ReadPage(t.Context(), r.store, req)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Entries), limit)
		require.LessOrEqual(t, read, messages)
		require.Equal(t, read, page.Messages)
		require.LessOrEqual(t, page.Buckets, buckets+r.unbudgeted(t))
		got = append(got, foundIDs(page.Entries)...)
		if page.Next == nil {
			break
		}
		require.True(t, page.Next.ID.Less(last), "each page leads on")
		last = page.Next.ID
		next, err := bucket.ParseCursor(r.owner, page.Next.Encode(r.owner))
		require.NoError(t, err)
		req.Before = &next
	}
	require.Equal(t, IDs(entries(want...)), got, "unread only: %v, %d a page", unread, limit)
}

// unbudgeted returns how many buckets a page may read beyond its budget: those to which messages came late, and those with the floor of
// another.
func (r *reader) unbudgeted(t tester) (n int) {
	t.Helper()
	in := readInbox(t, r.store, r.owner)
	for i, b := range in {
		late := slices.ContainsFunc(b.Entries, func(e bucket.Entry) bool { return !b.Floor.Less(e.ID) })
		if late || slices.ContainsFunc(in[:i], func(below bucket.Bucket) bool { return below.Floor == b.Floor }) {
			n++
		}
	}
	return n
}

// drawFiltered draws a filter and its budgets.
func (r *reader) drawFiltered(t *rapid.T) {
	of := rapid.SampledFrom([]int{1, 2, 5, 100}).Draw(t, "of")
	one := rapid.IntRange(0, of).Draw(t, "one")
	buckets := rapid.SampledFrom([]int{2, 5, 200}).Draw(t, "buckets")
	messages := rapid.SampledFrom([]int{2, 20, 2000}).Draw(t, "messages")
	limit := rapid.SampledFrom([]int{7, 50, 200}).Draw(t, "limit")
	r.requireFiltered(t, one, of, buckets, messages, limit, rapid.Bool().Draw(t, "unread"))
}
