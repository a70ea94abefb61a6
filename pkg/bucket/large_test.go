package bucket_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// A page of large entries ends early, and the next one goes on there: in buckets, where the buckets miss messages, and with a filter. No page has
// much more than ReadBytes, and no call of the store returns more than that and one bucket.
func TestPagesOfLargeEntries(t *testing.T) {
	t.Parallel()
	const count, limit = 260, 200
	for _, size := range []int{1 << 10, 64 << 10, 127 << 10} {
		all := entries(1, count)
		for i := range all {
			all[i].Body = strings.Repeat("x", size)
		}
		most := bucket.ReadBytes + bucket.Capacity*(size+100)
		newest := func(s bucket.Stretch, limit int) []bucket.Entry {
			held := slices.DeleteFunc(slices.Clone(all), func(e bucket.Entry) bool { return !s.Holds(e.ID) })
			slices.Reverse(held)
			return held[:min(limit, len(held))]
		}
		onRead := func(_ context.Context, s bucket.Stretch, limit int) ([]bucket.Entry, error) {
			return newest(s, limit), nil
		}
		search := func(_ context.Context, s bucket.Stretch, limit int) ([]bucket.Entry, bucket.Stretch, int, error) {
			found := newest(s, limit)
			if s.Before = s.After; len(found) == limit {
				s.Before = found[limit-1].ID
			}
			return found, s, len(found), nil
		}
		everything := &bucket.Filter{Keep: func(bucket.Found) bool { return true }, Buckets: 200, Messages: 2000, OnRead: search}
		absent := []bucket.Stretch{{Before: message.MaxID}}
		for name, req := range map[string]bucket.PageRequest{
			"in buckets":              {},
			"absent":                  {Absent: absent, Growing: true, OnRead: onRead},
			"in buckets, with filter": {Filter: everything},
			"absent, with filter":     {Filter: everything, Absent: absent, Growing: true},
		} {
			seam, _, _ := watched()
			if req.Absent == nil {
				appendTo(t, seam, bucket.Append{Owner: "ann", Entries: all})
			}
			req.Owner, req.Limit = "ann", limit
			got, pages := make([]bucket.Entry, 0, count), 0
			for more := true; more; pages++ {
				page, err := bucket.ReadPage(t.Context(), seam, req)
				require.NoError(t, err)
				require.NotEmpty(t, page.Entries)
				before := len(got)
				for _, f := range page.Entries {
					got = append(got, f.Entry)
				}
				require.LessOrEqual(t, (bucket.Bucket{Entries: got[before:]}).Bytes(), most, "%s of %d", name, size)
				req.Before, more = page.Next, page.Next != nil
			}
			slices.Reverse(got)
			require.Equal(t, all, got, "%s of %d", name, size)
			require.GreaterOrEqual(t, pages, max(2, count*size/most), "%s of %d", name, size)
		}
	}
}
