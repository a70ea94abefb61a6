//go:build long

package e2e_test

import (
	"context"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/test/testenv"
)

// bucketSizes are the sizes that new buckets get one after another: they grow and shrink.
var bucketSizes = []int{10, 100, 3, 200, 25, 1, 50, 7, 120, 40}

// TestBucketSizes changes the size of buckets and kills the server, again and again, while the mail trace is published. Then the dormant
// users return.
func TestBucketSizes(t *testing.T) {
	t.Parallel()
	for _, on := range everyStore() {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			ctx := bounded(t, 10*time.Minute)
			w := newWorld(ctx, t, on, impatient(nil))
			server := w.start(ctx)
			w.messages = w.testdata("email-eu.messages.ndjson.gz")
			w.generate(ctx, w.users, "users", "--last-seen", w.testdata("email-eu.last-seen.tsv"))
			w.fanmail(ctx, "import", "users", w.users)
			sizes, mails := bucketSizes, w.part()
			if full() {
				mails = 53_633
			}
			if on != embedded {
				sizes = sizes[:4] // each kill takes far longer
			}
			driver := w.drive(ctx, "--connections", "32", "--first", strconv.Itoa(mails), "--timeout", "30m")
			for i, size := range sizes {
				target := mails * (i + 1) / (len(sizes) + 1)
				testenv.Eventually(ctx, t, "more messages are accepted", func() bool { return w.accepted() >= target })
				require.Contains(t, w.fanmail(ctx, "admin", "settings", "inbox.bucket_size", strconv.Itoa(size)), "is "+strconv.Itoa(size)+" now")
				server.Kill()
				server.RequireSound()
				server = w.start(ctx)
			}
			require.Zero(t, driver.Code(ctx), "publishing failed")
			require.Zero(t, w.comeBack(ctx).Code(ctx), "coming back failed")
			found := w.check(ctx) // also that pages are in order
			require.Equal(t, mails, found.Messages)
			w.requireSoundInboxes(ctx)
			server.Stop(ctx)
			w.left(ctx, func(s stores) { w.requireBuckets(ctx, s, found) })
		})
	}
}

// requireBuckets requires that there are buckets of several sizes, and that the checker's pages have read as many buckets as these say: every
// bucket, and at most twice as many as hold the messages of a page and one more.
func (w *world) requireBuckets(ctx context.Context, s stores, found report) {
	w.Helper()
	inboxes, bySize, buckets := w.inboxes(ctx, s), make(map[int]int), 0
	for _, inbox := range inboxes {
		for _, b := range inbox {
			bySize[b.Cap]++
			buckets++
		}
	}
	w.Logf("buckets by size: %v", bySize)
	require.Greater(w, len(bySize), 3)
	for _, pages := range found.Pages {
		most := 0
		for _, inbox := range inboxes {
			most += needed(inbox, pages.Size)
		}
		read := pages.Average * float64(pages.Pages)
		w.Logf("pages of %d read %.0f buckets; there are %d, and the pages need %d", pages.Size, read, buckets, most)
		require.GreaterOrEqual(w, read, float64(buckets)-0.5)
		require.LessOrEqual(w, read, float64(2*most)+0.5)
	}
}

// inboxes returns the buckets of all inboxes, the highest first.
func (w *world) inboxes(ctx context.Context, s stores) (inboxes [][]bucket.Bucket) {
	w.Helper()
	for p := range partition.DefaultCount {
		users, err := s.users.List(ctx, p, "", math.MaxInt32)
		require.NoError(w, err)
		for _, user := range users {
			buckets, err := s.inbox.Range(ctx, user.State.User, 0, math.MaxUint32, math.MaxInt32)
			require.NoError(w, err)
			inboxes = append(inboxes, buckets)
		}
	}
	return inboxes
}

// needed returns how many buckets hold the entries of each page of an inbox, and one more for each page.
func needed(inbox []bucket.Bucket, size int) (buckets int) {
	onPage := 0 // entries on the page that is being filled
	for _, b := range inbox {
		for left := b.Slots(); left > 0; {
			buckets++
			if onPage == 0 {
				buckets++
			}
			took := min(left, size-onPage)
			left, onPage = left-took, (onPage+took)%size
		}
	}
	return buckets
}
