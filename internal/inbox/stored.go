package inbox

import (
	"context"
	"math/bits"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// storedBuckets is how many buckets Stored returns at most.
const storedBuckets = 200

// Stored is an inbox as the store holds it.
type Stored struct {
	State userstate.State
	// Buckets are those below a sequence, the highest first.
	Buckets []StoredBucket
	// Next is a sequence with more buckets below it; zero if there are none.
	Next uint32
}

// StoredBucket describes a bucket.
type StoredBucket struct {
	bucket.Outline

	// Least and Greatest bound the ids in the bucket. Both are zero in a stub.
	Least, Greatest message.ID
	// Tombstones counts deleted messages, Expired those that were emptied, and Flagged those with flags.
	Tombstones, Expired, Flagged int
}

// Stored returns what is recorded of a user, and the newest 200 buckets below a sequence; zero stands for above all. The parts are read one
// after another. It writes nothing and is no view. It returns userstate.ErrNotFound for a user never seen. A bucket that is missing below
// others is left out.
func (s *Service) Stored(ctx context.Context, user message.UserID, before uint32) (Stored, error) {
	s = s.current()
	state, err := s.known(ctx, user)
	if err != nil {
		return Stored{}, err
	}
	v, err := s.view(ctx, state)
	if err != nil {
		return Stored{}, err
	}
	stored := Stored{State: state}
	for high := before - 1; ; { // of zero, the greatest sequence
		limit := min(bucketsAtOnce, storedBuckets-len(stored.Buckets))
		buckets, err := bucket.ReadSection(ctx, s.stores.Buckets, bucket.Section{Owner: user, High: high, Limit: limit}, bucket.NoFields)
		if err != nil {
			return Stored{}, err
		}
		for _, b := range buckets {
			flags := v.flags.In(b.Sequence)
			stored.Buckets = append(stored.Buckets, storedBucket(b, flags.Read|flags.Unread|flags.Archived))
		}
		if len(buckets) < limit {
			return stored, nil
		}
		switch lowest := buckets[limit-1]; {
		case lowest.Sequence == 0, lowest.Stub && lowest.Floor.IsZero(): // such a stub stands for all below it
			return stored, nil
		case len(stored.Buckets) == storedBuckets:
			stored.Next = lowest.Sequence
			return stored, nil
		default:
			high = lowest.Sequence - 1
		}
	}
}

// storedBucket describes a bucket, with flags at the slots whose bits are set.
func storedBucket(b bucket.Bucket, flagged uint64) StoredBucket {
	d := StoredBucket{Outline: b.Outline, Flagged: bits.OnesCount64(flagged)}
	for _, e := range b.Entries {
		if d.Greatest = message.Later(d.Greatest, e.ID); !e.ID.IsZero() && (d.Least.IsZero() || e.ID.Less(d.Least)) {
			d.Least = e.ID
		}
		if e.Deleted {
			d.Tombstones++
		}
		if e.Expired {
			d.Expired++
		}
	}
	return d
}
