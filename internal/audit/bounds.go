package audit

import (
	"github.com/fanmail/fanmail/pkg/message"
)

// extent is what a look keeps of a bucket to check its bounds.
type extent struct {
	sequence    uint32
	floor, last message.ID
	greatest    message.ID // of all ids in the bucket
	whole       bool       // every slot has its id
	stub        bool
}

// checkBounds checks the bounds that package bucket states. It passes over stubs, because all that their bounds cover has expired.
func (l *look) checkBounds() {
	var below *extent
	for i := len(l.extents) - 1; i >= 0; i-- {
		x := &l.extents[i]
		if !x.stub {
			l.checkFloor(below, x)
			l.checkLast(x)
		}
		below = x
	}
}

// checkFloor compares the floor of a bucket with the last of the bucket below it. Both are as they were read, at different moments.
func (l *look) checkFloor(below, x *extent) {
	switch {
	case x.sequence == 0 && !x.floor.IsZero():
		l.outOfOrder(Finding{}, "bucket 0 has a floor, which is %s", x.floor)
	case below != nil && below.sequence+1 == x.sequence && x.floor != below.last:
		l.outOfOrder(Finding{}, "the floor of bucket %d is %s, and the last of the bucket below it is %s", x.sequence, x.floor, below.last)
	}
}

// checkLast compares the last of a bucket with the greatest id in it, or at its floor.
func (l *look) checkLast(x *extent) {
	most := message.Later(x.floor, x.greatest)
	switch {
	case x.last.Less(most):
		l.outOfOrder(Finding{}, "the last of bucket %d is %s, although it or its floor has %s", x.sequence, x.last, most)
	case x.whole && most.Less(x.last):
		l.outOfOrder(Finding{}, "the last of bucket %d is %s, although the greatest of it and its floor is %s", x.sequence, x.last, most)
	}
}
