package fanout

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// stretchesPerBatch is into how many stretches a batch divides the recipients that it appends to. All of them may be on their way
	// to the store at a time, while the next one is read.
	stretchesPerBatch = 4
	// deliveriesPerOwner bounds the deliveries of a stretch, as a multiple of its owners: where every recipient gets dozens of
	// messages at once, it ends earlier.
	deliveriesPerOwner = 8
)

// What a batch spends on a recipient. It ends by what it has spent, not by how many it has passed: reading that somebody follows and is
// dormant takes a store about an eighth of the time of an append, and each further entry in an append costs about as little.
const (
	workToPass    = 1
	workToAppend  = 7 // with the first entry
	workToDeliver = 1 // each further entry
	workPerOwner  = workToPass + workToAppend
)

// load is what is appended at a time.
type load struct {
	appends []bucket.Append
	jobs    [][]*job // for each of appends, whose entries they are
	results []bucket.Appended
}

// carry delivers what a merge has for its recipients until it has done the work of a batch or come to the end of the merge, and returns
// where it has come to. While one stretch is appended, the next one is read and its users looked up.
func (b *batch) carry(ctx context.Context, m *merger, pick func(*job, recipient) bool) (end message.UserID, toEnd bool, err error) {
	group, appending := errgroup.WithContext(ctx)
	group.SetLimit(stretchesPerBatch)
	var loads []*load
	work := b.deliverer.opts.BatchOwners * workPerOwner
	for last := false; !last && work > 0; {
		var s stretch
		var next *load
		if s, next, err = b.prepare(appending, m, pick); err != nil {
			break
		}
		end, toEnd, last = s.end, s.toEnd, s.toEnd || s.toBound
		work -= workToPass*s.passed + next.work()
		if len(next.appends) > 0 {
			loads = append(loads, next)
			group.Go(func() error { return b.append(appending, next) })
		}
	}
	if failed := group.Wait(); failed != nil {
		return "", false, failed // which may be why preparing failed, too
	}
	if err != nil {
		return "", false, err
	}
	for _, l := range loads {
		if err := b.count(ctx, l); err != nil {
			return "", false, err
		}
	}
	return end, toEnd, nil
}

// prepare reads the next stretch, and looks up what is to be appended to whom.
func (b *batch) prepare(ctx context.Context, m *merger, pick func(*job, recipient) bool) (stretch, *load, error) {
	s, err := m.next(ctx, b.stretchOwners(), pick)
	if err != nil {
		return s, nil, err
	}
	l, err := b.load(ctx, &s)
	return s, l, err
}

// stretchOwners is how many users are read, and looked up, at a time.
func (b *batch) stretchOwners() int {
	return max(1, b.deliverer.opts.BatchOwners/stretchesPerBatch)
}

// work returns what is spent on appending a load.
func (l *load) work() int {
	work := 0
	for _, a := range l.appends {
		work += workToAppend + workToDeliver*(len(a.Entries)-1)
	}
	return work
}
