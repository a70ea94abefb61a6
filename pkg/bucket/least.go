package bucket

import (
	"context"

	"github.com/fanmail/fanmail/pkg/message"
)

// leastStep is how many buckets Least reads at a time if the first one has no entry that it looks for.
const leastStep = 16

// Least returns the least id above purged of an entry in an inbox that is not deleted, and whether there is one. The bucket oldest has a floor
// at or below purged; Least also returns its outline. It usually reads one bucket, and those to which messages came late. An entry that is appended or deleted meanwhile may
// count or not.
func Least(
	ctx context.Context, store Store, owner message.UserID, oldest uint32, purged message.ID,
) (least message.ID, found bool, first Outline, err error) {
	at, width := oldest, uint32(1)
	for ; !found; width = leastStep {
		buckets, err := ReadSection(ctx, store, Section{Owner: owner, Low: at, High: at + width - 1}, NoFields)
		if err != nil || len(buckets) == 0 {
			return least, false, first, err
		}
		if at == oldest {
			first = buckets[len(buckets)-1].Outline
		}
		for i := len(buckets) - 1; i >= 0 && !found; i-- {
			least, found = buckets[i].least(purged, message.MaxID)
			at = buckets[i].Sequence + 1
		}
	}
	late, err := ReadSection(ctx, store, lateAbove(owner, at-1, least), NoFields)
	for _, b := range late {
		if id, earlier := b.least(purged, least); earlier {
			least = id
		}
	}
	return least, true, first, err
}

// least returns the least id between two ids, both excluded, of an entry that is not deleted.
func (b Bucket) least(above, below message.ID) (least message.ID, found bool) {
	for _, e := range b.Entries {
		if !e.Deleted && !e.Expired && above.Less(e.ID) && e.ID.Less(below) {
			least, below, found = e.ID, e.ID, true
		}
	}
	return least, found
}
